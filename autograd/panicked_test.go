package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// A panic passes through Backward as it is, and the graph's error has its text: also out of the second run of a checkpoint, and of Grad.
func TestBackward_APanicsTextIsTheGraphsError(t *testing.T) {
	bad := func(*tensor.Tensor) (*tensor.Tensor, error) { panic("at the worst moment") }
	for name, pass := range map[string]func(x *autograd.Variable){
		"hook": func(x *autograd.Variable) {
			y := x.Exp()
			y.RegisterHook(bad)
			_ = y.Sum(nil, false).Backward()
		},
		"Grad": func(x *autograd.Variable) {
			y := x.Exp()
			y.RegisterHook(bad)
			_, _ = autograd.Grad([]*autograd.Variable{y.Sum(nil, false)}, []*autograd.Variable{x})
		},
		"CreateGraph": func(x *autograd.Variable) {
			y := x.Exp()
			y.RegisterHook(bad)
			_ = y.Sum(nil, false).Backward(autograd.CreateGraph())
		},
		"checkpoint": func(x *autograd.Variable) {
			_ = autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
				y := in[0].Exp()
				if y.RequiresGrad() {
					y.RegisterHook(bad)
				}
				return y
			}, x).Sum(nil, false).Backward()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			x := g.Input(r.tensor([]float64{1, 2}, 2), autograd.RequiresGrad())
			require.PanicsWithValue(t, "at the worst moment", func() { pass(x) })
			require.ErrorIs(t, g.Err(), autograd.ErrPanicked)
			require.ErrorContains(t, g.Err(), "a backward pass was ended by a panic: at the worst moment")
		})
	}
}
