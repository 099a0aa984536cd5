package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// A refusal in place names what shares the memory, and what it recommends helps.
func TestReLUInPlace_OfAView_NamesWhatItIsAViewOf(t *testing.T) {
	r := newRig(t, host.New())
	l := nn.Linear(2, 3)
	require.NoError(t, l.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)))
	t.Cleanup(l.Release)
	g := r.graph()
	l.Forward(g.Input(zeros(t, r, f32, 2, 2, 2))).Flatten(1, -1).ReLUInPlace()
	require.ErrorIs(t, g.Err(), autograd.ErrInPlace)
	require.ErrorContains(t, g.Err(), "it shares its memory with float32[2, 2, 3], of which float32[2, 6] is a view (")
	require.ErrorContains(t, g.Err(), "in a Scope of its own")
	g.Release()

	g = r.graph()
	h := l.Forward(g.Input(zeros(t, r, f32, 2, 3, 2)))
	flat := h.Flatten(1, -1)
	h.ReLUInPlace()
	require.ErrorContains(t, g.Err(), "float32[2, 3, 3]: it shares its memory with ")
	require.NotNil(t, flat)
	g.Release()

	g = r.graph()
	x := g.Input(zeros(t, r, f32, 2, 2, 2))
	y := g.Scope(func() *autograd.Variable { return l.Forward(x).Flatten(1, -1) }).ReLUInPlace()
	require.NoError(t, y.Sum(nil, false).Backward())
	g.Release()
}
