package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

// A training step of attention over 512 keys, whose scores would be 512*512*4 bytes a head.
func TestSelfAttention_HoldsItsOperandItsResultAndANumberForEachRow(t *testing.T) {
	r := onSim(t)
	const rows, heads, size = 512, 4, 16
	const qkv, out, lse = rows * 3 * heads * size * 4, rows * heads * size * 4, rows * heads * 4
	x := r.zeros(tensor.Float32, 1, rows, 3*heads*size)
	base := r.allocated()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad()).SelfAttention(heads, heads, autograd.AttnDropout(0.1))
	require.EqualValues(t, base+out+lse, r.allocated())
	loss := v.Sum(nil, false)
	r.resetPeak()
	require.NoError(t, loss.Backward())
	// The gradient of the operand beside what forward saved. That of the result is a scalar, expanded, which joined heads copy.
	require.LessOrEqual(t, r.peak(), int64(base+out+lse+qkv+out+4*scalar))
	require.EqualValues(t, base+qkv+scalar, r.allocated(), "the gradient, and the loss")
}

func TestAttention_DrawsAgainWhatACheckpointDrew(t *testing.T) {
	r := onHost(t)
	x := r.random(1, 2, 6, 12)
	run := func(f func(v *autograd.Variable) *autograd.Variable) (out, grad []float64) {
		g := r.graph(autograd.WithGenerator(tensor.NewGenerator(11)))
		defer g.Release()
		v := g.Input(x, autograd.RequiresGrad())
		y := f(v).Keep()
		require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
		return valuesOf(t, y), values(t, v.Grad())
	}
	attend := func(v *autograd.Variable) *autograd.Variable {
		return v.SelfAttention(2, 2, autograd.AttnDropout(0.5)).Dropout(0.5)
	}
	out, grad := run(attend)
	again, gradAgain := run(func(v *autograd.Variable) *autograd.Variable {
		return autograd.Checkpoint(func(in vars) *autograd.Variable { return attend(in[0]) }, v)
	})
	require.Equal(t, out, again)
	require.Equal(t, grad, gradAgain)
}

func TestAttention_WithoutGradientsSavesNothing(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2, 6, 12))
	before := inspect.Owned(g)
	y := x.SelfAttention(2, 2)
	require.False(t, y.RequiresGrad())
	require.Equal(t, before+1, inspect.Owned(g))
}

func TestSelfAttention_RefusesWhatIsNotHeadsBesideEachOther(t *testing.T) {
	r := onHost(t)
	for _, heads := range [][2]int{{3, 3}, {0, 1}, {2, 0}, {3, 2}} {
		g := r.graph()
		err := g.Input(r.random(1, 2, 6, 14)).SelfAttention(heads[0], heads[1]).Graph().Err()
		var shape *tensor.ShapeError
		require.ErrorAs(t, err, &shape, "%v", heads)
		g.Release()
	}
}
