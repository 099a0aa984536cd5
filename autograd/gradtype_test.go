package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// castLinear is a linear layer in bfloat16 of a weight and a bias in float32.
type castLinear struct {
	*rig
	w, b *autograd.Parameter
	x    *tensor.Tensor
}

func newCastLinear(t *testing.T, r *rig) *castLinear {
	gen := tensor.NewGenerator(3)
	random := func(shape ...int) *tensor.Tensor { return must(tensor.RandN(r.exec, gen, tensor.Float32, shape...)) }
	c := &castLinear{rig: r, w: autograd.NewParameter("w", random(3, 5)), b: autograd.NewParameter("b", random(3))}
	wide := random(7, 5)
	defer wide.Release()
	c.x = must(wide.To(tensor.BFloat16))
	t.Cleanup(func() {
		c.w.Release()
		c.b.Release()
		c.x.Release()
	})
	return c
}

// loss is the sum of the layer's results, after look has seen the casts. times is how often the layer is used.
func (c *castLinear) loss(g *autograd.Graph, times int, look func(w, b *autograd.Variable)) *autograd.Variable {
	w, b := g.Param(c.w).To(tensor.BFloat16), g.Param(c.b).To(tensor.BFloat16)
	look(w, b)
	y := g.Input(c.x).Linear(w, b)
	for range times - 1 {
		y = y.Add(g.Input(c.x).Linear(w, b))
	}
	return y.Sum(nil, false)
}

// want are the sums of x's columns: the gradient of the loss for each row of the weight.
func (c *castLinear) want(t *testing.T) []float64 {
	sums := make([]float64, 5)
	for i, v := range float64s(t, c.x) {
		sums[i%5] += v
	}
	return sums
}

func isBrain(v float64) bool { return math.Float32bits(float32(v))&0xffff == 0 }

// The product sums in float32, and the parameter's gradient is that sum: it is not rounded to bfloat16 on its way.
func TestGradType_WeightsGetWhatTheProductSumsUp(t *testing.T) {
	r := onHost(t)
	c := newCastLinear(t, r)
	for _, times := range []int{1, 2} {
		g := r.graph()
		require.NoError(t, c.loss(g, times, func(_, _ *autograd.Variable) {}).Backward())
		g.Release()
		got := float64s(t, c.w.Grad())
		rounded := true
		for i, want := range c.want(t) {
			for row := range 3 {
				require.InDelta(t, float64(times)*want, got[row*5+i], 1e-5)
			}
			rounded = rounded && isBrain(got[i])
		}
		require.False(t, rounded, "some of the sums have more digits than bfloat16: %v", got)
		require.Equal(t, tensor.Float32, c.w.Grad().DType())
		require.Equal(t, []float64{7 * float64(times), 7 * float64(times), 7 * float64(times)}, float64s(t, c.b.Grad()))
		c.w.ZeroGrad()
		c.b.ZeroGrad()
	}
}

// Who looks at the gradient of a cast sees it in the cast's type, and leaves the rounding in the parameter's.
func TestGradType_OfWhatIsLookedAtIsTheVariables(t *testing.T) {
	for name, look := range map[string]func(v *autograd.Variable, seen *tensor.DType){
		"hook": func(v *autograd.Variable, seen *tensor.DType) {
			v.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
				*seen = grad.DType()
				return nil, nil
			})
		},
		"RetainGrad": func(v *autograd.Variable, seen *tensor.DType) { v.RetainGrad() },
	} {
		r := onHost(t)
		c := newCastLinear(t, r)
		g := r.graph()
		var seen tensor.DType
		var cast *autograd.Variable
		require.NoError(t, c.loss(g, 1, func(w, _ *autograd.Variable) {
			cast = w
			look(w, &seen)
		}).Backward(), name)
		if grad := cast.Grad(); grad != nil {
			seen = grad.DType()
		}
		require.Equal(t, tensor.BFloat16, seen, name)
		for _, v := range float64s(t, c.w.Grad()) {
			require.True(t, isBrain(v), "%s: %v", name, v)
		}
		g.Release()
	}
	r := onHost(t)
	c := newCastLinear(t, r)
	g := r.graph()
	defer g.Release()
	var cast *autograd.Variable
	y := c.loss(g, 2, func(w, _ *autograd.Variable) { cast = w })
	grads, err := autograd.Grad([]*autograd.Variable{y}, []*autograd.Variable{cast})
	require.NoError(t, err)
	require.Equal(t, tensor.BFloat16, grads[0].DType(), "Grad")
}

// A pass that fails between the two gradients that one kernel computes leaves nothing behind.
func TestGradType_KeepsNothingWhenAHookFailsBetweenWeightAndBias(t *testing.T) {
	r := onSim(t)
	c := newCastLinear(t, r)
	before := r.allocated()
	g := r.graph()
	hook := c.w.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, tensor.ErrReleased })
	require.ErrorIs(t, c.loss(g, 1, func(_, _ *autograd.Variable) {}).Backward(), tensor.ErrReleased)
	g.Release()
	hook.Remove()
	c.w.ZeroGrad()
	c.b.ZeroGrad()
	require.Equal(t, before, r.allocated())
}
