package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// halved makes post-accumulate hooks halve what they see.
func halved(ps []*autograd.Parameter) {
	for _, p := range ps {
		p.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error { return p.Grad().MulScalarInPlace(0.5) })
	}
}

// A penalty of the parts in a graph of its own calls their post-accumulate hooks, and StepInBackward steps, as in one process.
func TestPostAccumulateHook_OfAPenaltyAloneIsCalledAsInOneProcess(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	penalty := func(r *rank, ps []*autograd.Parameter) error {
		g, _ := r.graph(1, 1)
		defer g.Release()
		return squares(g, ps).Backward()
	}
	for how, order := range map[string]string{"alone": "p", "before": "pl", "after": "lp", "between": "lplp"} {
		for _, steps := range []bool{false, true} {
			train := func(r *rank, ps []*autograd.Parameter, forward func(*autograd.Variable) *autograd.Variable) error {
				opt := optim.SGD(ps, optim.LR(0.1))
				if steps {
					defer opt.StepInBackward()()
				} else {
					halved(ps)
				}
				for _, what := range order {
					err := error(nil)
					if what == 'p' {
						err = penalty(r, ps)
					} else {
						err = passOf(r, forward)
					}
					if err != nil {
						return err
					}
					for _, p := range ps {
						require.Equal(r.t, steps, p.Grad() == nil, p.Name())
					}
				}
				if steps {
					return nil
				}
				err := opt.Step()
				opt.ZeroGrad()
				return err
			}
			one, m := ranks(t, 1)[0], newModel()
			require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
			require.NoError(t, train(one, m.Parameters(), m.Forward))
			want, err := valuesOf(m)
			require.NoError(t, err)
			m.Release()
			for stage := 1; stage < 4; stage++ {
				t.Run(fmt.Sprintf("%s, StepInBackward %v, ZeRO %d", how, steps, stage), func(t *testing.T) {
					succeed(t, 2, func(r *rank) error {
						m := newModel()
						return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, func(d *parallel.DataParallel) error {
							if err := train(r, d.Parameters(), d.Forward); err != nil {
								return err
							}
							have, err := wholeValues(d, m)
							for name, v := range want {
								require.InDeltaSlice(r.t, v, have[name], 1e-5, name)
							}
							return err
						})
					})
				})
			}
		}
	}
}

// Where gradients wait to be summed, hooks wait too, and the pass that sums calls them once.
func TestPostAccumulateHook_OfAPenaltyWaitsForTheSum(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		calls, own := 0, d.Parameters()
		for _, p := range own {
			p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { calls++; return nil })
		}
		penalty := func() error {
			g, _ := r.graph(1, 1)
			defer g.Release()
			return squares(g, own).Backward()
		}
		if err := errors.Join(d.NoSync(penalty), d.NoSync(func() error { return passOf(r, d.Forward) }), penalty()); err != nil {
			return err
		}
		require.Zero(r.t, calls)
		if err := passOf(r, d.Forward); err != nil {
			return err
		}
		require.Equal(r.t, len(own), calls)
		return nil
	})
}

// With FindUnused a penalty of a part that no rank's loss has used calls its hooks in the pass that has both, as in one process.
func TestPostAccumulateHook_OfAPenaltyOfWhatTheLossDoesNotUse(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				return withModel(r, newTwo(), []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64), parallel.FindUnused()}, func(d *parallel.DataParallel) error {
					defer d.ZeroGrad()
					calls, own := 0, d.Parameters()
					for _, p := range own {
						p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { calls++; return nil })
					}
					for pass := range 2 {
						g, x := r.graph(2, 16)
						err := d.Forward(x).Square().Mean(nil, false).Add(squares(g, own)).Backward()
						g.Release()
						if err != nil {
							return err
						}
						require.Equal(r.t, (pass+1)*len(own), calls)
					}
					return nil
				})
			})
		})
	}
}

// A hook that fails there ends the group, as the ranks would differ, and it can neither close nor run the model.
func TestPostAccumulateHook_OfAPenaltyAloneThatFails(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		own := d.Parameters()
		bad := errors.New("a hook's own")
		if r.comm.Rank() == 1 {
			own[0].RegisterPostAccumulateGradHook(func(*autograd.Parameter) error {
				require.ErrorContains(r.t, d.Close(), "a backward pass is under way")
				return bad
			})
		}
		g, _ := r.graph(1, 1)
		defer g.Release()
		err := squares(g, own).Backward()
		if r.comm.Rank() == 1 {
			require.ErrorIs(r.t, err, bad)
		} else {
			require.NoError(r.t, err)
		}
		_, err = d.Gather(1)
		require.ErrorContains(r.t, err, "rank 1")
		require.ErrorContains(r.t, err, "a hook's own")
		return nil
	})
}

// Hooks of RegisterHook see the loss's gradient alone where a penalty comes to the parts, and with ZeRO 3 their parameter has no value.
func TestHook_DoesNotSeeAPenaltyOfTheParts(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		for _, p := range m.Parameters() {
			p.RegisterHook(func(t *tensor.Tensor) (*tensor.Tensor, error) {
				require.Equal(r.t, stage == 3, p.Tensor() == nil)
				return t.FullLike(0)
			})
		}
		g, x := r.graph(2, 16)
		defer g.Release()
		if err := d.Forward(x).Square().Mean(nil, false).Add(squares(g, d.Parameters())).Backward(); err != nil {
			return err
		}
		for i, have := range gradients(r.t, d) { // that of a square's half is the value
			want, err := d.Parameters()[i].Tensor().Float64s()
			if err != nil {
				return err
			}
			if stage == 0 {
				want = make([]float64, len(want))
			}
			require.InDeltaSlice(r.t, want, have, 1e-6)
		}
		return nil
	})
}
