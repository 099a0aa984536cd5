package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// chain is element-wise operations that save little: their gradients are what backward needs memory for.
func chain(v *autograd.Variable) *autograd.Variable {
	return v.MulScalar(2).Neg().DivScalar(3).MulScalar(0.5).Neg()
}

func TestBackward_OfElementwiseOperationsTakesTheMemoryOfOneGradient(t *testing.T) {
	r := onSim(t)
	x, w := r.square(), r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	loss := g.Scope(func() *autograd.Variable { return chain(v).Softmax(-1).Mul(g.Input(w)).Sum(nil, false) })
	before := r.allocated()
	allocations := r.alloc.Stats().Allocation.All.Allocated
	r.resetPeak()
	require.NoError(t, loss.Backward())
	require.EqualValues(t, before+unit+scalar, r.peak(), "the seed, and one gradient that all rules write over")
	require.EqualValues(t, 2, r.alloc.Stats().Allocation.All.Allocated-allocations)
}

func TestBackward_WithoutTheWayToWriteOver_TakesTwoGradients(t *testing.T) {
	r := onSim(t)
	x, w := r.square(), r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	loss := g.Scope(func() *autograd.Variable {
		y := chain(v)
		y.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) { // holds the gradient until the graph is released
			h := g.Retain()
			t.Cleanup(h.Release)
			return nil, nil
		})
		return y.Mul(g.Input(w)).Sum(nil, false)
	})
	before := r.allocated()
	r.resetPeak()
	require.NoError(t, loss.Backward())
	require.EqualValues(t, before+2*unit, r.peak(), "as it was without: one that comes in, one that goes out")
}

func TestBackward_NeverWritesOverGradientsThatOthersHave(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, r *rig, g *autograd.Graph, x *autograd.Variable){
		"of the caller": func(t *testing.T, r *rig, _ *autograd.Graph, x *autograd.Variable) {
			seed := r.tensor([]float64{1, 2})
			require.NoError(t, x.MulScalar(3).Backward(autograd.WithGradient(seed)))
			require.Equal(t, []float64{1, 2}, values(t, seed))
			require.Equal(t, []float64{3, 6}, values(t, x.Grad()))
		},
		"retained": func(t *testing.T, r *rig, _ *autograd.Graph, x *autograd.Variable) {
			y := x.MulScalar(3)
			y.RetainGrad()
			require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
			require.Equal(t, []float64{12, 24}, values(t, y.Grad()))
			require.Equal(t, []float64{36, 72}, values(t, x.Grad()))
		},
		"of two branches": func(t *testing.T, _ *rig, _ *autograd.Graph, x *autograd.Variable) {
			a, b := x.MulScalar(3), x.Neg()
			require.NoError(t, a.Add(b).Exp().Sum(nil, false).Backward()) // add passes one gradient to both
			e := []float64{2 * 54.598150033144236, 2 * 2980.9579870417283}
			require.InDeltaSlice(t, e, values(t, x.Grad()), 1e-9)
		},
		"of a view": func(t *testing.T, _ *rig, _ *autograd.Graph, x *autograd.Variable) {
			y := x.MulScalar(2)
			rest := y.Reshape(2, 1).Neg().Sum(nil, false)
			require.NoError(t, rest.Add(y.MulScalar(5).Sum(nil, false)).Backward())
			require.Equal(t, []float64{8, 8}, values(t, x.Grad()))
		},
		"of a leaf": func(t *testing.T, _ *rig, g *autograd.Graph, x *autograd.Variable) {
			y := x.AddScalar(1) // passes its gradient to the leaf as it is
			z := y.Mul(y)
			require.NoError(t, z.Sum(nil, false).Backward(autograd.RetainGraph()))
			first := append([]float64{}, values(t, x.Grad())...)
			require.NoError(t, z.Sum(nil, false).Backward())
			second := values(t, x.Grad())
			require.Equal(t, []float64{2 * first[0], 2 * first[1]}, second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			check(t, r, g, g.Input(r.tensor([]float64{2, 4}), autograd.RequiresGrad()))
		})
	}
}

// Each rule alone, where its gradient is the only thing that could be written over: compared with the same graph whose gradients
// are all held on to.
func TestBackward_RulesGiveTheSameBitsInPlace(t *testing.T) {
	for _, c := range gradientCases {
		t.Run(c.op+" "+c.note, func(t *testing.T) {
			r := onHost(t)
			run := func(hold bool) (all [][]float64) {
				g := r.graph(autograd.WithGenerator(tensor.NewGenerator(7)))
				defer g.Release()
				var in vars
				for _, x := range c.make(r) {
					if x.DType().IsFloat() {
						in = append(in, g.Input(x, autograd.RequiresGrad()))
					} else {
						in = append(in, g.Input(x))
					}
				}
				out := c.f(in)
				after := out.Exp() // its gradient is contiguous and nobody else's
				if hold {
					out.RetainGrad()
				}
				require.NoError(t, after.Sum(nil, false).Backward())
				for _, v := range in {
					if v.RequiresGrad() && v.Grad() != nil {
						all = append(all, values(t, v.Grad()))
					}
				}
				return all
			}
			require.Equal(t, run(true), run(false))
		})
	}
}
