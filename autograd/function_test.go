package autograd_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// scaledTanh saves a tensor of its own.
var scaledTanh = autograd.Function[float64]{
	Name: "scaled_tanh",
	Forward: func(c *autograd.Context, scale float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := in[0].Tanh()
		if err != nil {
			return nil, err
		}
		c.Save(y)
		return y.MulScalar(scale)
	},
	Backward: func(c *autograd.Context, scale float64, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		g, err := grad.MulScalar(scale)
		if err != nil {
			return nil, err
		}
		defer g.Release()
		dx, err := tensor.Gradients(training.Key{}).Tanh(g, c.Saved(0))
		return []*tensor.Tensor{dx}, err
	},
}

// product saves its inputs, and its result, which it does not need.
var product = autograd.Function[struct{}]{
	Name: "product",
	Forward: func(c *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := in[0].Mul(in[1])
		c.Save(in[0], in[1], y, nil)
		return y, err
	},
	Backward: func(c *autograd.Context, _ struct{}, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		grads := make([]*tensor.Tensor, 2)
		for i := range grads {
			if !c.NeedsGrad(i) {
				continue
			}
			var err error
			if grads[i], err = grad.Mul(c.Saved(1 - i)); err != nil {
				return grads, err
			}
		}
		return grads, nil
	},
}

func TestFunction_GradientsAgreeWithFiniteDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		f      gradcheck.Func
		shapes [][]int
	}{
		"own tensor": {func(v vars) *autograd.Variable { return scaledTanh.Apply(2, v[0]) }, [][]int{{2, 3}}},
		"inputs":     {func(v vars) *autograd.Variable { return product.Apply(struct{}{}, v[0], v[1]) }, [][]int{{2, 3}, {2, 3}}},
		"broadcast":  {func(v vars) *autograd.Variable { return product.Apply(struct{}{}, v[0], v[1]) }, [][]int{{2, 3}, {3}}},
		"itself":     {func(v vars) *autograd.Variable { return product.Apply(struct{}{}, v[0], v[0]) }, [][]int{{4}}},
		"in a checkpoint": {func(v vars) *autograd.Variable {
			return autograd.Checkpoint(func(in vars) *autograd.Variable { return scaledTanh.Apply(3, in[0]).Exp() }, v...)
		}, [][]int{{4}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			options := func() []autograd.Option { return []autograd.Option{autograd.WithAllocator(r.alloc)} }
			require.NoError(t, gradcheck.Check(r.dev, c.f, gradientCase{shapes: c.shapes}.make(r), gradcheck.Graph(options)))
		})
	}
}

func TestFunction_SavesOnlyWhereAGradientIsNeeded(t *testing.T) {
	r := onSim(t)
	x := r.square()
	for _, opts := range [][]autograd.Option{{autograd.NoGrad()}, nil} {
		g := r.graph(opts...)
		base := r.allocated()
		y := scaledTanh.Apply(2, g.Input(x))
		require.NoError(t, g.Err())
		require.False(t, y.RequiresGrad())
		require.Equal(t, base+unit, r.allocated())
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	base := r.allocated()
	y := scaledTanh.Apply(2, g.Input(x, autograd.RequiresGrad()))
	require.Equal(t, base+2*unit, r.allocated())
	require.NoError(t, y.Sum(nil, false).Backward())
	require.ErrorIs(t, y.Graph().Err(), nil)
}

func TestFunction_NeverLeaksWhenItFails(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float64{1, 2})
	boom := errors.New("boom")
	forward := func(c *autograd.Context, fail int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := in[0].Exp()
		if err != nil {
			return nil, err
		}
		other, err := in[0].Neg()
		if err != nil {
			return nil, err
		}
		c.Save(y, other, in[0])
		if fail == 1 {
			y.Release()
			return nil, boom
		}
		if fail == 2 {
			y.Release()
		}
		return y, nil
	}
	backward := func(_ *autograd.Context, fail int, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		switch fail {
		case 3:
			return nil, boom
		case 4:
			return []*tensor.Tensor{grad.Retain(), grad.Retain()}, nil
		}
		return []*tensor.Tensor{grad}, nil // as it is
	}
	f := autograd.Function[int]{Name: "frail", Forward: forward, Backward: backward}
	for fail := range 5 {
		g := r.graph()
		v := g.Input(x, autograd.RequiresGrad())
		err := f.Apply(fail, v).Sum(nil, false).Backward()
		if fail == 0 {
			require.NoError(t, err)
			require.Equal(t, []float64{1, 1}, values(t, v.Grad()))
		} else {
			var failed *autograd.OpError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "frail", failed.Op)
			require.Equal(t, fail > 2, failed.Backward)
		}
		g.Release()
	}
	empty := autograd.Function[int]{}
	g := r.graph()
	defer g.Release()
	empty.Apply(1, g.Input(x))
	require.ErrorContains(t, g.Err(), "no Forward")
}

// parts has two results, one of which shares memory with an input, and a number of each kind.
var parts = autograd.Function[struct{}]{
	Name:    "parts",
	Results: 3,
	ForwardAll: func(c *autograd.Context, _ struct{}, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		e, err := in[0].Exp()
		if err != nil {
			return nil, err
		}
		sign, err := in[0].GtScalar(0)
		if err != nil {
			e.Release()
			return nil, err
		}
		c.Save(e)
		return []*tensor.Tensor{sign, e, in[0]}, nil
	},
	BackwardAll: func(c *autograd.Context, _ struct{}, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		switch {
		case grads[1] == nil:
			return grads[2:], nil // as it is
		case grads[2] == nil:
			dx, err := grads[1].Mul(c.Saved(0))
			return []*tensor.Tensor{dx}, err
		}
		dx, err := grads[1].Mul(c.Saved(0))
		if err == nil {
			err = dx.AddInPlace(grads[2], 1)
		}
		return []*tensor.Tensor{dx}, err
	},
}

func TestFunction_OfSeveralResults_GetsTheGradientsThatThereAre(t *testing.T) {
	for name, c := range map[string]struct {
		loss func(rs vars) *autograd.Variable
		want []float64
	}{
		"both":   {func(rs vars) *autograd.Variable { return rs[1].Add(rs[2].MulScalar(10)) }, []float64{11, 12}},
		"first":  {func(rs vars) *autograd.Variable { return rs[1] }, []float64{1, 2}},
		"second": {func(rs vars) *autograd.Variable { return rs[2].MulScalar(3) }, []float64{3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			x := g.Input(r.tensor([]float64{0, math.Ln2}), autograd.RequiresGrad())
			rs := parts.ApplyAll(struct{}{}, x)
			require.NoError(t, g.Err())
			require.Equal(t, []bool{false, true, true}, []bool{rs[0].RequiresGrad(), rs[1].RequiresGrad(), rs[2].RequiresGrad()})
			require.NoError(t, c.loss(rs).Sum(nil, false).Backward())
			require.InDeltaSlice(t, c.want, values(t, x.Grad()), 1e-12)
		})
	}
	wrong := autograd.Function[struct{}]{Name: "wrong", Results: 2, ForwardAll: func(_ *autograd.Context, _ struct{}, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x, err := in[0].Neg()
		return []*tensor.Tensor{x}, err
	}}
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	rs := wrong.ApplyAll(struct{}{}, g.Input(r.tensor([]float64{1})))
	require.Len(t, rs, 2)
	require.ErrorContains(t, g.Err(), "returned 1 results; Results is 2")
}

func TestFunction_WithoutBackward_HasNoGradient(t *testing.T) {
	r := onHost(t)
	same := autograd.Function[struct{}]{Name: "same", Forward: func(_ *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
		return in[0], nil // borrowed: becomes another handle
	}}
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := same.Apply(struct{}{}, x)
	require.False(t, y.RequiresGrad())
	require.Equal(t, []float64{1, 2}, valuesOf(t, y))
}

func TestFunction_NoGradientForAnInputIsAGradientOfZeros(t *testing.T) {
	r := onHost(t)
	first := autograd.Function[struct{}]{
		Name: "first",
		Forward: func(_ *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
			return in[0].Retain(), nil
		},
		Backward: func(_ *autograd.Context, _ struct{}, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{grad.Retain(), nil}, nil
		},
	}
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	u := g.Input(r.tensor([]float64{3, 4, 5}), autograd.RequiresGrad())
	require.NoError(t, first.Apply(struct{}{}, x, u.Exp()).Sum(nil, false).Backward())
	require.Equal(t, []float64{1, 1}, values(t, x.Grad()))
	require.Equal(t, []float64{0, 0, 0}, values(t, u.Grad()))
}

func TestFunction_IsSeenByCastersAndAnomalyDetection(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float64{1, 2})
	asked := 0
	g := r.graph(autograd.DetectAnomaly(), autograd.WithCaster(casterFunc(func(op string, in vars) (vars, error) {
		if op == "spoil" {
			asked++
			in[0] = in[0].To(tensor.Float32)
		}
		return in, nil
	})))
	defer g.Release()
	spoil := autograd.Function[struct{}]{
		Name: "spoil",
		Forward: func(_ *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
			require.Equal(t, tensor.Float32, in[0].DType())
			return in[0].Exp()
		},
		Backward: func(_ *autograd.Context, _ struct{}, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
			bad, err := grad.MulScalar(math.NaN())
			return []*tensor.Tensor{bad}, err
		},
	}
	err := spoil.Apply(struct{}{}, g.Input(x, autograd.RequiresGrad())).Sum(nil, false).Backward()
	require.ErrorIs(t, err, autograd.ErrNaN)
	require.ErrorContains(t, err, "backward of spoil")
	require.ErrorContains(t, err, "function_test.go")
	require.Equal(t, 1, asked)
}

type casterFunc func(op string, in vars) (vars, error)

func (f casterFunc) Cast(op string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	return f(op, in)
}

// masked is dropout without scaling: random numbers that backward needs again.
var masked = autograd.Function[float64]{
	Name: "masked",
	Forward: func(c *autograd.Context, p float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
		mask, err := tensor.Bernoulli(c.Exec(), c.Generator(), p, in[0].DType(), in[0].Shape()...)
		if err != nil {
			return nil, err
		}
		y, err := in[0].Mul(mask)
		if c.GradEnabled() { // which takes the mask over
			c.Save(mask)
		} else {
			mask.Release()
		}
		return y, err
	},
	Backward: func(c *autograd.Context, _ float64, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		dx, err := grad.Mul(c.Saved(0))
		return []*tensor.Tensor{dx}, err
	},
}

// The numbers are the graph's: the seed decides, also when a checkpoint runs forward once more.
func TestFunction_DrawsFromTheGraphsGenerator(t *testing.T) {
	r := onHost(t)
	ones := keep(t)(tensor.Full(r.exec, 1, tensor.Float64, 64))
	run := func(seed uint64, checkpoint bool, opts ...autograd.Option) (value, grad []float64) {
		g := r.graph(append(opts, autograd.WithGenerator(tensor.NewGenerator(seed)))...)
		defer g.Release()
		x := g.Input(ones, autograd.RequiresGrad())
		apply := func(in vars) *autograd.Variable { return masked.Apply(0.5, in[0]) }
		y := apply(vars{x})
		if checkpoint {
			y = autograd.Checkpoint(apply, x)
		}
		value = values(t, must(y.Tensor()))
		if y.RequiresGrad() {
			require.NoError(t, y.Sum(nil, false).Backward())
			grad = values(t, x.Grad())
		}
		return value, grad
	}
	value, grad := run(3, false)
	require.Equal(t, value, grad, "the mask is the gradient")
	again, _ := run(3, false, autograd.NoGrad())
	require.Equal(t, value, again)
	other, _ := run(4, false)
	require.NotEqual(t, value, other)
	value, grad = run(3, true)
	require.Equal(t, value, grad)
}

// Results that are no quantities have no node of their own.
func TestGrad_OfAFunctionWithAResultOfIntegers(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	f := &autograd.Function[int]{
		Results: 2,
		ForwardAll: func(c *autograd.Context, _ int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			at, err := in[0].ArgMax(0, false)
			return []*tensor.Tensor{in[0].Retain(), at}, err
		},
		BackwardAll: func(_ *autograd.Context, _ int, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{grads[0].Retain()}, nil
		},
	}
	x := g.Input(r.tensor([]float64{1, 3}), autograd.RequiresGrad())
	out := f.ApplyAll(0, x)
	grads, err := autograd.Grad(vars{out[0].Sum(nil, false)}, vars{x})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, valuesOf(t, grads[0]))
}
