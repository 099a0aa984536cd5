package parallel_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
)

// beside are the backward passes of graphs in which Run has run nothing.
var beside = map[string]func(r *rank, m *nn.SequentialModule, ps []*autograd.Parameter) error{
	"a penalty": func(r *rank, _ *nn.SequentialModule, ps []*autograd.Parameter) error {
		g, _ := r.graph(2, 16)
		defer g.Release()
		return squares(g, ps).Backward()
	},
	"the model's Forward": func(r *rank, m *nn.SequentialModule, _ []*autograd.Parameter) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		return m.Forward(x).Square().Mean(nil, false).Backward()
	},
}

// places are where such a pass comes beside those of a step. What it returns is its error, and other says that of the others.
var places = map[string]func(r *rank, forward func(*autograd.Variable) *autograd.Variable, noSync func(func() error) error, pass func() error) (own, others error){
	"before the loss": func(r *rank, forward func(*autograd.Variable) *autograd.Variable, _ func(func() error) error, pass func() error) (own, others error) {
		own = pass()
		return own, passOf(r, forward)
	},
	"after the loss": func(r *rank, forward func(*autograd.Variable) *autograd.Variable, _ func(func() error) error, pass func() error) (own, others error) {
		others = passOf(r, forward)
		return pass(), others
	},
	"between forward and backward": func(r *rank, forward func(*autograd.Variable) *autograd.Variable, _ func(func() error) error, pass func() error) (own, others error) {
		g, x := r.graph(2, 16)
		defer g.Release()
		loss := forward(x).Square().Mean(nil, false)
		own = pass()
		return own, loss.Backward()
	},
	"after NoSync": func(r *rank, forward func(*autograd.Variable) *autograd.Variable, noSync func(func() error) error, pass func() error) (own, others error) {
		first := noSync(func() error { return passOf(r, forward) })
		own = pass()
		return own, errors.Join(first, passOf(r, forward))
	},
}

func passOf(r *rank, forward func(*autograd.Variable) *autograd.Variable) error {
	g, x := r.graph(2, 16)
	defer g.Release()
	return forward(x).Square().Mean(nil, false).Backward()
}

// A backward pass of a graph in which Run has run nothing is not reduced: it has the gradients of one process, as those of the ranks' parts, or is an error that leaves everything as it was, wherever it comes.
func TestBackward_OfAGraphThatRunDoesNotKnowIsThatOfOneProcessOrRefused(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	plain := func(f func() error) error { return f() }
	for what, pass := range beside {
		for where, place := range places {
			want := map[bool]float64{} // with the pass, and where it is refused
			for _, with := range []bool{false, true} {
				one, m := ranks(t, 1)[0], newModel()
				require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
				own, others := place(one, m.Forward, plain, func() error {
					if !with {
						return nil
					}
					return pass(one, m, m.Parameters())
				})
				require.NoError(t, errors.Join(own, others))
				norm, err := optim.ClipGradNorm(m.Parameters(), math.Inf(1))
				require.NoError(t, err)
				want[with] = norm
				m.Release()
			}
			for _, n := range []int{2, 4} {
				for _, opts := range [][]parallel.Option{nil, {parallel.GradientsInParts()}} {
					t.Run(fmt.Sprintf("%s, %s, %d ranks, in parts %v", what, where, n, opts != nil), func(t *testing.T) {
						for stage := range 4 {
							succeed(t, n, func(r *rank) error {
								m := newModel()
								return withModel(r, m, append(opts, parallel.ZeRO(stage), parallel.BucketBytes(64, 64)), func(d *parallel.DataParallel) error {
									for range 2 {
										own, others := place(r, d.Forward, d.NoSync, func() error { return pass(r, m, d.Parameters()) })
										of := what == "a penalty" && stage > 0
										switch {
										case of:
											others = errors.Join(own, others)
										case stage == 3:
											require.ErrorIs(r.t, own, autograd.ErrNotMaterialized)
										default:
											var e *parallel.Error
											require.ErrorAs(r.t, own, &e)
											require.NotEmpty(r.t, e.Parameter)
											require.ErrorContains(r.t, own, "was not run by Run or Forward")
										}
										if others != nil {
											return fmt.Errorf("ZeRO %d: %w", stage, others)
										}
										norm, err := d.ClipGradNorm(math.Inf(1))
										if err != nil {
											return err
										}
										require.InEpsilon(r.t, want[of], norm, 1e-5, "ZeRO %d", stage)
										d.ZeroGrad()
									}
									return nil
								})
							})
						}
					})
				}
			}
		}
	}
}

// In a graph that Run knows, the pass of a penalty alone has the gradients of one process with ZeRO 0, and else reaches no parameter of the model, which the error says.
func TestBackward_OfAPenaltyAloneInTheLosssGraphSaysWhatToDo(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		defer d.ZeroGrad()
		if err := d.Forward(x).Square().Mean(nil, false).Backward(autograd.RetainGraph()); err != nil {
			return err
		}
		err := squares(g, d.Parameters()).Backward()
		if stage == 0 {
			return err
		}
		var unused *parallel.UnusedError
		require.ErrorAs(r.t, err, &unused)
		require.ErrorContains(r.t, err, "come to the ranks' parts alone, as that of a penalty does: add it to the loss, in one backward pass")
		return nil
	})
}

// Within NoSync such a pass is one of this rank's alone, as all are there: with ZeRO 0 its gradients are the parameters' own, and summed by the next pass that sums. With ZeRO 1 and 2 nobody would put them to what waits, and it is refused.
func TestBackward_OfAGraphThatRunDoesNotKnowWithinNoSync(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	for what, pass := range beside {
		one, m := ranks(t, 1)[0], newModel()
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		require.NoError(t, errors.Join(pass(one, m, m.Parameters()), passOf(one, m.Forward)))
		want, err := optim.ClipGradNorm(m.Parameters(), math.Inf(1))
		require.NoError(t, err)
		m.ZeroGrad()
		require.NoError(t, passOf(one, m.Forward))
		alone, err := optim.ClipGradNorm(m.Parameters(), math.Inf(1))
		require.NoError(t, err)
		m.Release()
		for _, n := range []int{2, 4} {
			for i, opts := range [][]parallel.Option{nil, {parallel.GradientsInParts()}, {parallel.FindUnused()}} {
				t.Run(fmt.Sprintf("%s, %d ranks, options %d", what, n, i), func(t *testing.T) {
					for stage := range 3 {
						succeed(t, n, func(r *rank) error {
							m := newModel()
							return withModel(r, m, append(opts, parallel.ZeRO(stage), parallel.BucketBytes(64, 64)), func(d *parallel.DataParallel) error {
								defer d.ZeroGrad()
								for range 2 {
									err := d.NoSync(func() error { return pass(r, m, m.Parameters()) })
									norm := alone
									if stage == 0 {
										require.NoError(r.t, err)
										require.ErrorContains(r.t, d.Unshard(), "wait to be summed over the ranks")
										require.ErrorContains(r.t, parallel.NewCheckpoint(d).Write(r.t.Context(), r.t.TempDir(), 0), "wait to be summed over the ranks")
										norm = want
									} else {
										require.ErrorContains(r.t, err, "was not run by Run or Forward")
									}
									if err := passOf(r, d.Forward); err != nil {
										return err
									}
									have, err := d.ClipGradNorm(math.Inf(1))
									if err != nil {
										return err
									}
									require.InEpsilon(r.t, norm, have, 1e-5, "ZeRO %d", stage)
									d.ZeroGrad()
								}
								return nil
							})
						})
					}
				})
			}
		}
	}
}
