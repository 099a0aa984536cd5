package autograd_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Errors that no operation is the cause of have the program's line too.
func TestErrors_OfPassesAndAccessorsHaveTheProgramsLine(t *testing.T) {
	r := onHost(t)
	at := regexp.MustCompile(`callsite_test\.go:\d+`)
	leaf := func(g *autograd.Graph) *autograd.Variable {
		return g.Input(r.random(1, 2, 3), autograd.RequiresGrad())
	}
	ended := func(g *autograd.Graph) (v *autograd.Variable) {
		g.Scope(func() *autograd.Variable { v = leaf(g).Exp(); return nil })
		return v
	}
	for want, fail := range map[string]func(g *autograd.Graph) error{
		"trying to backward through the graph a second time at HERE: the tensors that exp saved were freed by the first Backward; " +
			"pass RetainGraph() to it if the graph is needed again": func(g *autograd.Graph) error {
			v := leaf(g).Exp().Sum(nil, false)
			require.NoError(t, v.Backward())
			return v.Backward()
		},
		"Item at HERE: value of float64[2, 3] was released: the scope that made it has ended; return it from the scope to keep it": func(g *autograd.Graph) error {
			_, err := ended(g).Item()
			return err
		},
		"autograd: exp(float64[2, 3]) at HERE: input 0: value of float64[2, 3] was released: the scope that made it has ended; return it from " +
			"the scope to keep it": func(g *autograd.Graph) error {
			return ended(g).Exp().Backward()
		},
		"detach at HERE: value of float64[2, 3] was released: its graph was released": func(g *autograd.Graph) error {
			v := leaf(g)
			g.Release()
			v.Detach()
			return g.Err()
		},
		"Input at HERE: value was released: its graph was released": func(g *autograd.Graph) error {
			g.Release()
			leaf(g)
			return g.Err()
		},
		"autograd: Backward of float64[2, 3], which is not one element, needs WithGradient, at HERE": func(g *autograd.Graph) error {
			return leaf(g).Exp().Backward()
		},
		"autograd: Backward of a variable that depends on no leaf that requires a gradient, at HERE": func(g *autograd.Graph) error {
			return g.Input(r.random(1, 1)).Exp().Backward()
		},
		"autograd: RetainGrad of a variable that does not require a gradient, at HERE": func(g *autograd.Graph) error {
			g.Input(r.random(1, 1)).RetainGrad()
			return g.Err()
		},
		"autograd: RegisterHook of a variable that does not require a gradient, at HERE": func(g *autograd.Graph) error {
			g.Input(r.random(1, 1)).RegisterHook(func(t *tensor.Tensor) (*tensor.Tensor, error) { return nil, nil })
			return g.Err()
		},
		"autograd: Grad with respect to a variable that does not require a gradient: the graph was made with NoGrad, at HERE": func(*autograd.Graph) error {
			g := r.graph(autograd.NoGrad())
			defer g.Release()
			x := leaf(g)
			_, err := autograd.Grad([]*autograd.Variable{x.Sum(nil, false)}, []*autograd.Variable{x})
			return err
		},
		"autograd: Grad with respect to a variable that does not require a gradient: the first run of a Checkpoint's function records nothing; " +
			"compute what Grad is for outside of it, or in a graph of its own, at HERE": func(g *autograd.Graph) (err error) {
			autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
				_, err = autograd.Grad([]*autograd.Variable{in[0].Sum(nil, false)}, in)
				return in[0]
			}, leaf(g))
			return err
		},
		"autograd: Grad without outputs, at HERE": func(*autograd.Graph) error {
			_, err := autograd.Grad(nil, nil)
			return err
		},
		"autograd: Grad at HERE: nil variable": func(g *autograd.Graph) error {
			_, err := autograd.Grad([]*autograd.Variable{leaf(g).Sum(nil, false)}, []*autograd.Variable{nil})
			return err
		},
		"autograd: Grad at HERE: variables belong to different graphs": func(g *autograd.Graph) error {
			other := r.graph()
			defer other.Release()
			_, err := autograd.Grad([]*autograd.Variable{leaf(g).Sum(nil, false)}, []*autograd.Variable{leaf(other)})
			return err
		},
		"autograd: Backward at HERE: backward inside of a backward pass of the same graph": func(g *autograd.Graph) (inner error) {
			v := leaf(g).Sum(nil, false)
			v.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { inner = v.Backward(); return nil, nil })
			require.NoError(t, v.Backward())
			return inner
		},
	} {
		g := r.graph()
		require.Equal(t, want, at.ReplaceAllString(fail(g).Error(), "HERE"))
		g.Release()
	}
}

// The module of the operation is named, as in other errors of backward.
func TestSecondBackward_NamesTheModule(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2), autograd.RequiresGrad())
	v := g.ModuleScope(spot("h.3"), func() *autograd.Variable { return x.Exp() }).Sum(nil, false)
	require.NoError(t, v.Backward())
	var second *autograd.SecondBackwardError
	require.ErrorAs(t, v.Backward(), &second)
	require.Equal(t, "h.3", second.Module)
	require.Contains(t, second.Error(), "the tensors that exp in h.3 saved")
	require.True(t, second.Site.Known())
}
