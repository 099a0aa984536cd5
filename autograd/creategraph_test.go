package autograd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/tensor"
)

func TestCreateGraph_FailsAtCallsAndKeepsNothing(t *testing.T) {
	n := newNthCalls(t)
	every := fulltests.Or(5, 41)
	for k, c := range gradientCases {
		if strings.HasPrefix(c.op, "batch_norm") {
			continue // its cases make their running statistics, and cannot tell that they failed
		}
		inputs := c.make(n.rig)
		ps := n.parameters(inputs)
		start := n.allocated()
		step := func() error {
			g := n.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
			defer g.Release()
			in := leaves(g, inputs, ps)
			var leaf vars
			for _, v := range in {
				if v.RequiresGrad() {
					leaf = append(leaf, v)
				}
			}
			grads, err := autograd.Grad(vars{c.f(in).Sum(nil, false)}, leaf, autograd.CreateGraph())
			if err != nil {
				return err
			}
			return wavy(g, grads).Backward()
		}
		for nth, more := 1+k%every, true; more; nth += every { // others for each case
			what := fmt.Sprintf("%s %s, call %d", c.op, c.note, nth)
			var err error
			if more = n.during(nth, func() { err = step() }); more && err != nil {
				n.expect(what, err)
			}
			for _, p := range ps {
				p.ZeroGrad()
			}
			if n.allocated() != start {
				require.NoError(t, n.alloc.EmptyCache()) // a free that failed is tried again
			}
			require.Equal(t, start, n.allocated(), "%s: %s", what, n.kind)
		}
	}
}

func TestCreateGraph_OfOperationsInPlaceIsThatOfTheOthers(t *testing.T) {
	r := onHost(t)
	pairs := map[string][2]func(v, u *autograd.Variable) *autograd.Variable{
		"add": {func(v, u *autograd.Variable) *autograd.Variable { return v.AddInPlace(u, 3) },
			func(v, u *autograd.Variable) *autograd.Variable { return v.Add(u.MulScalar(3)) }},
		"sub": {(*autograd.Variable).SubInPlace, (*autograd.Variable).Sub},
		"mul": {(*autograd.Variable).MulInPlace, (*autograd.Variable).Mul},
		"div": {(*autograd.Variable).DivInPlace, (*autograd.Variable).Div},
		"add scalar": {func(v, _ *autograd.Variable) *autograd.Variable { return v.AddScalarInPlace(2) },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.AddScalar(2) }},
		"mul scalar": {func(v, _ *autograd.Variable) *autograd.Variable { return v.MulScalarInPlace(2) },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.MulScalar(2) }},
		"exp": {func(v, _ *autograd.Variable) *autograd.Variable { return v.ExpInPlace() },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.Exp() }},
		"tanh": {func(v, _ *autograd.Variable) *autograd.Variable { return v.TanhInPlace() },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.Tanh() }},
		"sigmoid": {func(v, _ *autograd.Variable) *autograd.Variable { return v.SigmoidInPlace() },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.Sigmoid() }},
		"relu": {func(v, _ *autograd.Variable) *autograd.Variable { return v.ReLUInPlace() },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.ReLU() }},
		"clamp": {func(v, _ *autograd.Variable) *autograd.Variable { return v.ClampInPlace(-1, 1) },
			func(v, _ *autograd.Variable) *autograd.Variable { return v.Clamp(-1, 1) }},
		"masked fill": {func(v, u *autograd.Variable) *autograd.Variable {
			return v.MaskedFillInPlace(u.Detach().GtScalar(1), 4)
		},
			func(v, u *autograd.Variable) *autograd.Variable { return v.MaskedFill(u.Detach().GtScalar(1), 4) }},
	}
	second := func(f func(v, u *autograd.Variable) *autograd.Variable) [][]float64 {
		g := r.graph()
		defer g.Release()
		x := g.Input(r.tensor([]float64{0.5, -1.5, 2}), autograd.RequiresGrad())
		u := g.Input(r.tensor([]float64{2, -3, 0.5}), autograd.RequiresGrad())
		y := f(x.Square().Mul(u), u.Mul(u))
		grads, err := autograd.Grad(vars{y.Mul(y).Mul(x).Sum(nil, false)}, vars{x, u}, autograd.CreateGraph())
		require.NoError(t, err)
		require.NoError(t, wavy(g, grads).Backward())
		return [][]float64{values(t, x.Grad()), values(t, u.Grad())}
	}
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			want, got := second(p[1]), second(p[0])
			for i := range want {
				near(t, "second derivative", want[i], got[i], 1e-12)
			}
		})
	}
}

func TestCreateGraph_GoesOnForEver(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{0.3, -1.2}), autograd.RequiresGrad())
	y := x.Sin().Mul(x.Exp()) // its fourth derivative is -4 y
	for range 4 {
		grads, err := autograd.Grad(vars{y.Sum(nil, false)}, vars{x}, autograd.CreateGraph())
		require.NoError(t, err)
		y = grads[0]
	}
	near(t, "fourth derivative", valuesOf(t, x.Sin().Mul(x.Exp()).MulScalar(-4)), valuesOf(t, y), 1e-12)
}

func TestCreateGraph_BackwardLeavesGradientsThatCanBeDifferentiated(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("p", must(tensor.FromSlice(r.exec, []float64{2, 3})))
	defer p.Release()
	calls := 0
	p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { calls++; return nil })
	g := r.graph()
	defer g.Release()
	w, x := g.Param(p), g.Input(r.tensor([]float64{5, 7}), autograd.RequiresGrad())
	require.Nil(t, w.GradVariable())
	loss := w.PowScalar(3).Mul(x).Sum(nil, false)
	require.NoError(t, loss.Backward(autograd.CreateGraph()))
	require.Equal(t, []float64{60, 189}, values(t, p.Grad()), "3 w**2 x")
	require.Equal(t, []float64{60, 189}, valuesOf(t, w.GradVariable()))
	require.Equal(t, []float64{8, 27}, values(t, x.Grad()))
	require.Equal(t, 1, calls)

	p.ZeroGrad()
	require.NoError(t, w.GradVariable().Sum(nil, false).Backward(autograd.RetainGraph()))
	require.Equal(t, []float64{60, 126}, values(t, p.Grad()), "6 w x")
	require.Equal(t, []float64{8 + 12, 27 + 27}, values(t, x.Grad()), "3 w**2 is added")

	p.ZeroGrad()
	require.NoError(t, loss.Backward(autograd.CreateGraph()))
	require.Equal(t, []float64{60, 189}, values(t, p.Grad()))
	require.Equal(t, []float64{120, 378}, valuesOf(t, w.GradVariable()), "of two passes it is the sum")
}

func TestCreateGraph_GradOutputsCarryGradients(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{2, 3}), autograd.RequiresGrad())
	u := g.Input(r.tensor([]float64{1, 1}), autograd.RequiresGrad())
	grads, err := autograd.Grad(vars{x.PowScalar(3)}, vars{x}, autograd.GradOutputs(u), autograd.CreateGraph())
	require.NoError(t, err)
	require.Equal(t, []float64{12, 27}, valuesOf(t, grads[0]))
	products, err := autograd.Grad(grads, vars{u}, autograd.WithGradient(r.tensor([]float64{10, 100})))
	require.NoError(t, err)
	require.Equal(t, []float64{120, 2700}, valuesOf(t, products[0]), "the Jacobian times a vector, by two passes")

	_, err = autograd.Grad(vars{x.Exp()}, vars{x}, autograd.GradOutputs(x.Sum(nil, false)))
	require.ErrorContains(t, err, "GradOutputs of float64[] for a variable of float64[2]")
	_, err = autograd.Grad(vars{x.Exp()}, vars{x}, autograd.GradOutputs(u, u))
	require.ErrorContains(t, err, "GradOutputs has 2 gradients for 1 variables")
	_, err = autograd.Grad(vars{x.Exp()}, vars{x}, autograd.GradOutputs(u), autograd.WithGradient(r.tensor([]float64{1, 1})))
	require.ErrorContains(t, err, "both WithGradient and GradOutputs")
	other := r.graph()
	defer other.Release()
	_, err = autograd.Grad(vars{x.Exp()}, vars{x}, autograd.GradOutputs(other.Input(r.tensor([]float64{1, 1}))))
	require.ErrorIs(t, err, autograd.ErrOtherGraph)
}

func TestCreateGraph_HooksLookButDoNotReplace(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{2}), autograd.RequiresGrad())
	y := x.Exp().RetainGrad()
	var seen []float64
	hook := y.RegisterHook(func(d *tensor.Tensor) (*tensor.Tensor, error) {
		seen = append(seen, values(t, d)...)
		return nil, nil
	})
	loss := y.MulScalar(3).Sum(nil, false)
	_, err := autograd.Grad(vars{loss}, vars{x}, autograd.CreateGraph())
	require.NoError(t, err)
	require.Equal(t, []float64{3}, seen)
	require.Equal(t, []float64{3}, values(t, y.Grad()))
	hook.Remove()
	y.RegisterHook(double)
	_, err = autograd.Grad(vars{loss}, vars{x}, autograd.CreateGraph())
	require.ErrorIs(t, err, autograd.ErrHigherOrder)
	require.ErrorContains(t, err, "hook")
}

func TestCreateGraph_RecordsWithinNoGradAndDoesNotCast(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{2}), autograd.RequiresGrad())
	y := x.PowScalar(3)
	var second []*autograd.Variable
	g.NoGrad(func() *autograd.Variable {
		grads, err := autograd.Grad(vars{y}, vars{x}, autograd.CreateGraph())
		require.NoError(t, err)
		second, err = autograd.Grad(grads, vars{x})
		require.NoError(t, err)
		require.False(t, x.Exp().RequiresGrad(), "NoGrad goes on after the pass")
		return nil
	})
	require.Equal(t, []float64{12}, valuesOf(t, second[0]))
}
