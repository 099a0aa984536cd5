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

// A penalty of the parts of a model, alone in a graph in which another one has run, is an error that names the first, and not the one whose forward pass waits.
func TestBackward_OfAPenaltyInAnotherModelsGraphNamesIt(t *testing.T) {
	cubes := func(g *autograd.Graph, ps []*autograd.Parameter) *autograd.Variable {
		return penaltyOf(g, ps, func(p *autograd.Variable) *autograd.Variable { return p.Mul(p.Square()).Sum(nil, false) })
	}
	penalties := map[string]func(g *autograd.Graph, ps []*autograd.Parameter) (*autograd.Variable, error){
		"squares": func(g *autograd.Graph, ps []*autograd.Parameter) (*autograd.Variable, error) {
			return squares(g, ps), nil
		},
		"of a gradient": func(g *autograd.Graph, ps []*autograd.Parameter) (*autograd.Variable, error) {
			var leaves []*autograd.Variable
			for _, p := range ps {
				leaves = append(leaves, g.Param(p))
			}
			grads, err := autograd.Grad([]*autograd.Variable{cubes(g, ps)}, leaves, autograd.CreateGraph())
			if err != nil {
				return nil, err
			}
			sum := grads[0].Square().Sum(nil, false)
			for _, v := range grads[1:] {
				sum = sum.Add(v.Square().Sum(nil, false))
			}
			return sum, nil
		},
	}
	for name, penalty := range penalties {
		for _, where := range []string{"after the loss", "before", "before, twice", "both have run"} {
			for stage := range 4 {
				t.Run(fmt.Sprintf("%s, %s, ZeRO %d", name, where, stage), func(t *testing.T) {
					succeed(t, 2, func(r *rank) error {
						opts := []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}
						type other struct {
							nn.Base
							Late *nn.LinearLayer
						}
						return withModel(r, nn.Sequential(nn.Linear(16, 8)), opts, func(a *parallel.DataParallel) error {
							return withModel(r, nn.New(&other{Late: nn.Linear(16, 4)}), opts, func(b *parallel.DataParallel) error {
								defer a.ZeroGrad()
								defer b.ZeroGrad()
								g, x := r.graph(2, 16)
								defer g.Release()
								alone := func() error {
									v, err := penalty(g, b.Parameters())
									if err != nil {
										return err
									}
									return v.Backward()
								}
								if where == "before, twice" && stage > 0 { // it is not in another one's graph then
									require.NoError(r.t, alone())
								}
								loss := a.Forward(x).Square().Mean(nil, false)
								switch where {
								case "after the loss":
									require.NoError(r.t, loss.Backward())
								case "both have run":
									b.Run(g, func() *autograd.Variable { return b.Module().(*other).Late.Forward(x) })
								}
								err := alone()
								if where == "both have run" && stage == 0 {
									return err
								}
								require.ErrorContains(r.t, err, `parameter "late.`)
								require.NotContains(r.t, err.Error(), `"0.`)
								if stage > 0 {
									require.ErrorContains(r.t, err, "in a *parallel_test.other, and to no parameter of a model that has run in the graph")
									require.ErrorContains(r.t, err, "add the penalty to a loss, in one backward pass, or compute it in a graph of its own")
								}
								_, told := a.Gather(1)
								require.ErrorContains(r.t, told, `parameter "late.`)
								return nil
							})
						})
					})
				})
			}
		}
	}
}

// Where the model itself has run since the graph's first penalty, its own parts alone are no pass of the model, as ever.
func TestBackward_OfAPenaltyBeforeAndAfterForwardSaysWhatToDo(t *testing.T) {
	sharedOut(t, []int{1, 2, 3}, func(r *rank, _ int, _ *nn.SequentialModule, d *parallel.DataParallel) error {
		g, x := r.graph(2, 16)
		defer g.Release()
		defer d.ZeroGrad()
		if err := squares(g, d.Parameters()).Backward(); err != nil {
			return err
		}
		d.Forward(x)
		require.ErrorContains(r.t, squares(g, d.Parameters()).Backward(), "come to the ranks' parts alone")
		return nil
	})
}

// With ZeRO 1 and 2 a forward pass gathers into the array of which the parts are views: what a penalty has saved of them before is changed in place then, unless MasterWeights are the parts, and the error says so.
func TestPenalty_OfThePartsBeforeForwardIsThatOfOneProcessOrSaysWhatToDo(t *testing.T) {
	train := func(r *rank, ps []*autograd.Parameter, forward func(*autograd.Variable) *autograd.Variable) error {
		opt := optim.SGD(ps, optim.LR(0.1))
		for range 3 {
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 16) })
			penalty := squares(g, ps)
			err := forward(x).Square().Mean(nil, false).Add(penalty).Backward()
			g.Release()
			if err = errors.Join(err, opt.Step()); err != nil {
				return err
			}
			opt.ZeroGrad()
		}
		return nil
	}
	one, m := ranks(t, 1)[0], nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
	require.NoError(t, m.To(one.dev, nn.Seed(1), nn.WithAllocator(one.alloc)))
	require.NoError(t, train(one, m.Parameters(), m.Forward))
	want, err := valuesOf(m)
	require.NoError(t, err)
	m.Release()
	sharedOut(t, []int{0, 1, 2, 3}, func(r *rank, stage int, m *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		if err := train(r, d.Parameters(), d.Forward); stage == 1 || stage == 2 {
			require.ErrorIs(r.t, err, autograd.ErrModified)
			require.ErrorContains(r.t, err, "compute a penalty of the parts after Forward")
			return nil
		} else if err != nil {
			return err
		}
		have, err := wholeValues(d, m)
		for name, v := range want {
			require.InDeltaSlice(r.t, v, have[name], 1e-5, name)
		}
		return err
	})
}
