package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/tensor"
)

// scaledProduct is scale * a * exp(b), of which it saves a and the result.
func scaledProduct(plain bool) *autograd.Function[float64] {
	f := &autograd.Function[float64]{
		Name: "product",
		Forward: func(c *autograd.Context, scale float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
			e, err := in[1].Exp()
			if err != nil {
				return nil, err
			}
			if err = e.MulScalarInPlace(scale); err != nil {
				e.Release()
				return nil, err
			}
			y, err := in[0].Mul(e)
			c.Save(in[0], y, e)
			return y, err
		},
		BackwardVariables: func(c *autograd.Context, scale float64, grads []*autograd.Variable) []*autograd.Variable {
			e := c.SavedVariable(1).Div(c.SavedVariable(0)) // what was saved of it is a constant
			return []*autograd.Variable{grads[0].Mul(e), grads[0].Mul(c.SavedVariable(1))}
		},
	}
	if plain {
		f.Backward = func(c *autograd.Context, _ float64, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
			da, err := grad.Mul(c.Saved(2))
			if err != nil {
				return nil, err
			}
			db, err := grad.Mul(c.Saved(1))
			return []*tensor.Tensor{da, db}, err
		}
	}
	return f
}

// turning has two results, and saves both inputs.
var turning = &autograd.Function[struct{}]{
	Name: "turning", Results: 2,
	ForwardAll: func(c *autograd.Context, _ struct{}, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		c.Save(in...)
		sin, err := in[1].Sin()
		if err != nil {
			return nil, err
		}
		defer sin.Release()
		cos, err := in[1].Cos()
		if err != nil {
			return nil, err
		}
		defer cos.Release()
		x, err := in[0].Mul(cos)
		if err != nil {
			return nil, err
		}
		y, err := in[0].Mul(sin)
		return []*tensor.Tensor{x, y}, err
	},
	BackwardVariables: func(c *autograd.Context, _ struct{}, grads []*autograd.Variable) []*autograd.Variable {
		r, a := c.SavedVariable(0), c.SavedVariable(1)
		var dr, da *autograd.Variable
		add := func(to **autograd.Variable, v *autograd.Variable) {
			if *to == nil {
				*to = v
			} else {
				*to = (*to).Add(v)
			}
		}
		if g := grads[0]; g != nil {
			add(&dr, g.Mul(a.Cos()))
			add(&da, g.Mul(a.Sin()).Mul(r).Neg())
		}
		if g := grads[1]; g != nil {
			add(&dr, g.Mul(a.Sin()))
			add(&da, g.Mul(a.Cos()).Mul(r))
		}
		if !c.NeedsGrad(0) {
			dr = nil
		}
		return []*autograd.Variable{dr, da}
	},
}

func TestFunction_WithBackwardVariablesHasSecondDerivatives(t *testing.T) {
	for name, f := range map[string]gradcheck.Func{
		"variables alone": func(v vars) variable { return scaledProduct(false).Apply(2, v[0], v[1]) },
		"Backward too":    func(v vars) variable { return scaledProduct(true).Apply(2, v[0], v[1]) },
		"one variable":    func(v vars) variable { return scaledProduct(true).Apply(3, v[0], v[0]).Mul(v[1]) },
		"broadcast":       func(v vars) variable { return scaledProduct(false).Apply(2, v[0].Unsqueeze(0).Expand(2, 3), v[1]) },
		"two results":     func(v vars) variable { xy := turning.ApplyAll(struct{}{}, v...); return xy[0].Mul(xy[1]).Add(xy[1]) },
		"one of two":      func(v vars) variable { return turning.ApplyAll(struct{}{}, v...)[1] },
		"of a constant": func(v vars) variable {
			return turning.ApplyAll(struct{}{}, v[0].Graph().Ones(tensor.Float64, 3), v[1])[1].Mul(v[0])
		},
		"in a checkpoint": func(v vars) variable {
			return autograd.Checkpoint(func(in vars) variable { return scaledProduct(true).Apply(2, in...) }, v...)
		},
		"within each other": func(v vars) variable { return scaledProduct(true).Apply(1, scaledProduct(false).Apply(2, v...), v[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			inputs := []*tensor.Tensor{r.tensor([]float64{0.5, -1.5, 2}), r.tensor([]float64{0.3, 0.7, -0.4})}
			options := gradcheck.Graph(func() []autograd.Option { return []autograd.Option{autograd.WithAllocator(r.alloc)} })
			require.NoError(t, gradcheck.Check(r.dev, f, inputs, options))
			require.NoError(t, gradcheck.CheckGradGrad(r.dev, f, inputs, options))
		})
	}
}

func TestFunction_ThirdDerivatives(t *testing.T) {
	for _, plain := range []bool{false, true} {
		r := onHost(t)
		g := r.graph()
		b := g.Input(r.tensor([]float64{0.5, -1}), autograd.RequiresGrad())
		a := g.Input(r.tensor([]float64{3, 2}))
		y := scaledProduct(plain).Apply(2, a, b)
		for range 3 {
			grads, err := autograd.Grad(vars{y.Sum(nil, false)}, vars{b}, autograd.CreateGraph())
			require.NoError(t, err)
			y = grads[0]
		}
		near(t, "third derivative", valuesOf(t, scaledProduct(plain).Apply(2, a, b)), valuesOf(t, y), 1e-14)
		g.Release()
	}
}

func TestFunction_BackwardVariablesMistakesAreErrors(t *testing.T) {
	r := onHost(t)
	other := r.graph()
	defer other.Release()
	foreign := other.Input(r.tensor([]float64{1, 1, 1}))
	for what, f := range map[string]func(c *autograd.Context, g *autograd.Variable) []*autograd.Variable{
		"returned 2 gradients for 1 inputs": func(_ *autograd.Context, g *autograd.Variable) []*autograd.Variable { return vars{g, g} },
		"different graphs":                  func(*autograd.Context, *autograd.Variable) []*autograd.Variable { return vars{foreign} },
		"gradient 0":                        func(*autograd.Context, *autograd.Variable) []*autograd.Variable { return vars{{}} },
		"broadcast":                         func(_ *autograd.Context, g *autograd.Variable) []*autograd.Variable { return vars{g.Narrow(0, 0, 2)} },
		"tensor 4 is not saved": func(c *autograd.Context, g *autograd.Variable) []*autograd.Variable {
			return vars{g.Mul(c.SavedVariable(4))}
		},
	} {
		for _, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
			fn := &autograd.Function[int]{Name: "wrong",
				Forward: func(c *autograd.Context, _ int, in []*tensor.Tensor) (*tensor.Tensor, error) {
					c.Save(in[0])
					return in[0].Exp()
				},
				BackwardVariables: func(c *autograd.Context, _ int, grads []*autograd.Variable) []*autograd.Variable {
					return f(c, grads[0])
				},
			}
			g := r.graph()
			x := g.Input(r.tensor([]float64{1, 2, 3}), autograd.RequiresGrad())
			require.ErrorContains(t, fn.Apply(0, x).Sum(nil, false).Backward(opts...), what)
			g.Release()
		}
	}
}
