package parallel_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// squares is a penalty of elements, norms one of whole parameters.
func squares(g *autograd.Graph, ps []*autograd.Parameter) *autograd.Variable {
	return penaltyOf(g, ps, func(p *autograd.Variable) *autograd.Variable { return p.Square().Sum(nil, false).MulScalar(0.5) })
}

func norms(g *autograd.Graph, ps []*autograd.Parameter) *autograd.Variable {
	return penaltyOf(g, ps, func(p *autograd.Variable) *autograd.Variable { return p.Square().Sum(nil, false).AddScalar(1).Sqrt() })
}

func penaltyOf(g *autograd.Graph, ps []*autograd.Parameter, of func(p *autograd.Variable) *autograd.Variable) *autograd.Variable {
	sum := of(g.Param(ps[0]))
	for _, p := range ps[1:] {
		sum = sum.Add(of(g.Param(p)))
	}
	return sum
}

// penalized trains in passes that add a penalty to the loss. noSync is around all but the last of two passes of a step.
type penalized struct {
	r       *rank
	forward func(x *autograd.Variable) *autograd.Variable
	penalty func(g *autograd.Graph, before bool) *autograd.Variable // nil where it is not computed: before the forward pass, or after it
	noSync  func(func() error) error
	opt     *optim.Grouped
	steps   func(*optim.Grouped) error
	zero    func()
}

func (c *penalized) train() error {
	pass := func() error {
		g, x := c.r.graph(2, 16)
		defer g.Release()
		early := c.penalty(g, true)
		loss := c.forward(x).Square().Mean(nil, false)
		for _, penalty := range []*autograd.Variable{early, c.penalty(g, false)} {
			if penalty != nil {
				loss = loss.Add(penalty)
			}
		}
		return loss.Backward()
	}
	for range 3 {
		if err := errorsInTurn(func() error { return c.noSync(pass) }, pass, func() error { return c.steps(c.opt) }); err != nil {
			return err
		}
		c.zero()
	}
	return nil
}

// A penalty of parameters beside Forward takes what an optimizer gets, with every stage, or what is whole in Whole: as docs/parallel.md says, and the error of parameters that are not there.
func TestPenalty_OfParametersIsThatOfOneProcess(t *testing.T) {
	newModel := func() *nn.SequentialModule { return nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)) }
	want := map[string]map[string][]float64{}
	for name, penalty := range map[string]func(*autograd.Graph, []*autograd.Parameter) *autograd.Variable{"squares": squares, "norms": norms} {
		one, m := ranks(t, 1)[0], newModel()
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		c := &penalized{r: one, forward: m.Forward, opt: optim.SGD(m.Parameters(), optim.LR(0.1)), steps: (*optim.Grouped).Step, zero: m.ZeroGrad,
			noSync: func(f func() error) error { return f() },
			penalty: func(g *autograd.Graph, before bool) *autograd.Variable {
				if before {
					return nil
				}
				return penalty(g, m.Parameters())
			}}
		require.NoError(t, c.train())
		values, err := valuesOf(m)
		require.NoError(t, err)
		want[name] = values
		m.Release()
	}
	for _, how := range []string{"parts", "parts, step in backward", "whole, after Forward", "whole, before Forward"} {
		for _, n := range []int{2, 4} {
			for stage := range 4 {
				t.Run(fmt.Sprintf("%s, %d ranks, ZeRO %d", how, n, stage), func(t *testing.T) {
					opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}
					values, whole := want["squares"], strings.HasPrefix(how, "whole")
					if whole {
						opts, values = append(opts, parallel.GradientsInParts()), want["norms"]
					}
					succeed(t, n, func(r *rank) error {
						m := newModel()
						return withModel(r, m, opts, func(d *parallel.DataParallel) error {
							c := &penalized{r: r, forward: d.Forward, opt: optim.SGD(d.Parameters(), optim.LR(0.1)), steps: (*optim.Grouped).Step, zero: d.ZeroGrad, noSync: d.NoSync}
							c.penalty = func(g *autograd.Graph, before bool) (sum *autograd.Variable) {
								switch {
								case before != (how == "whole, before Forward"):
									return nil
								case !whole:
									return squares(g, d.Parameters())
								}
								require.NoError(r.t, d.Whole(func() error { sum = norms(g, m.Parameters()); return nil }))
								return sum
							}
							if how == "parts, step in backward" {
								defer c.opt.StepInBackward()()
								c.steps = func(*optim.Grouped) error { return nil }
							}
							if err := c.train(); err != nil {
								return err
							}
							have, err := wholeValues(d, m)
							for name, v := range values {
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

// Beside Forward the model's own parameters have no values with ZeRO 3. The error says what to use.
func TestPenalty_OfParametersThatAreAwaySaysWhatToUse(t *testing.T) {
	sharedOut(t, []int{3}, func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		err := d.Forward(x).Square().Mean(nil, false).Add(squares(g, m.Parameters())).Backward()
		require.ErrorIs(r.t, err, autograd.ErrNotMaterialized)
		require.ErrorContains(r.t, err, "a penalty beside Forward takes the ranks' parts (DataParallel.Parameters)")
		return nil
	})
}

// What is whole in Whole has another part of the gradient with ZeRO 3, which the error asks for.
func TestPenalty_InWholeAsksForGradientsInParts(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		defer d.ZeroGrad()
		loss := d.Forward(x).Square().Mean(nil, false)
		if err := d.Whole(func() error { loss = loss.Add(norms(g, m.Parameters())); return nil }); err != nil {
			return err
		}
		err := loss.Backward()
		if stage < 3 {
			return err
		}
		require.ErrorContains(r.t, err, "a use in Whole: ask for GradientsInParts")
		return nil
	})
}

// Of one parameter of several it may come in time, and is that of one process then: never other numbers.
func TestPenalty_OfOneParameterInWholeIsThatOfOneProcessOrAsks(t *testing.T) {
	for k := range 4 {
		one, m := ranks(t, 1)[0], nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
		require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
		g, x := one.graph(2, 16)
		require.NoError(t, m.Forward(x).Square().Mean(nil, false).Add(norms(g, m.Parameters()[k:k+1])).Backward())
		g.Release()
		want, err := optim.ClipGradNorm(m.Parameters(), math.Inf(1))
		require.NoError(t, err)
		m.Release()
		sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
			defer d.ZeroGrad()
			g, x := r.graph(2, 16)
			defer g.Release()
			loss := d.Forward(x).Square().Mean(nil, false)
			if err := d.Whole(func() error { loss = loss.Add(norms(g, m.Parameters()[k:k+1])); return nil }); err != nil {
				return err
			}
			if err := loss.Backward(); err != nil {
				require.Equal(r.t, 3, stage)
				require.ErrorContains(r.t, err, "a use in Whole: ask for GradientsInParts")
				return nil
			}
			norm, err := d.ClipGradNorm(math.Inf(1))
			require.InEpsilon(r.t, want, norm, 1e-5)
			return err
		})
	}
}

// Gradients of parts come to them alone, and within Whole none do, as with ZeRO 0.
func TestPenalty_WithinWholeIsNotTrained(t *testing.T) {
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		err := d.Whole(func() error {
			g, _ := r.graph(2, 16)
			defer g.Release()
			return squares(g, d.Parameters()).Backward()
		})
		require.ErrorContains(r.t, err, "within Whole")
		requireNoGradients(r.t, d)
		return nil
	})
}

// What Close has cut off leaves nothing with parts that are no more.
func TestPenalty_ThatCloseCutsOffKeepsNothing(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		loss := d.Forward(x).Square().Mean(nil, false).Add(squares(g, d.Parameters()))
		if err := d.Close(); err != nil {
			return err
		}
		require.ErrorContains(r.t, loss.Backward(), "closed between the forward and the backward pass")
		return nil
	})
}

// Parts in float32 have their penalties in float32, beside a loss in half precision.
func TestPenalty_OfMasterWeights(t *testing.T) {
	for stage := 1; stage < 4; stage++ {
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) error {
			m := nn.Linear(16, 4)
			if err := m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.DType(tensor.BFloat16)); err != nil {
				return err
			}
			defer m.Release()
			d, err := parallel.Data(m, r.comm, parallel.ZeRO(stage), parallel.MasterWeights())
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
			defer g.Release()
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.BFloat16, 2, 16) })
			if err := d.Forward(x).Square().Mean(nil, false).MulScalar(0).Add(squares(g, d.Parameters())).Backward(); err != nil {
				return err
			}
			for _, p := range d.Parameters() { // the penalty's gradient is the value
				want, err := p.Tensor().Float64s()
				require.NoError(r.t, err)
				have, err := p.Grad().Float64s()
				require.NoError(r.t, err)
				require.Equal(r.t, want, have)
			}
			d.ZeroGrad()
			return nil
		}) {
			require.NoError(t, err, "ZeRO %d, rank %d", stage, i)
		}
		requireNothingKept(t, all)
	}
}
