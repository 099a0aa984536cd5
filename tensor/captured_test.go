package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestCopyOver_CopiesWithinAndBetweenDevices(t *testing.T) {
	key := training.Key{}
	here, other := onHost(t), host.New()
	defer func() { require.NoError(t, other.Close()) }()
	defer func() { require.NoError(t, memory.Drop(other)) }()
	there, err := tensor.On(other)
	require.NoError(t, err)
	to := iota(t, here.Exec, 2, 3)
	for _, e := range []tensor.Exec{here.Exec, there} {
		require.NoError(t, to.FillInPlace(-1))
		from, err := tensor.FromSlice(e, []float32{1, 4, 2, 5, 3, 6}, 3, 2)
		require.NoError(t, err)
		turned, err := from.Transpose(0, 1) // not contiguous
		require.NoError(t, err)
		require.NoError(t, tensor.CopyOver(key, to, turned))
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(t, to))
		before := to.Version()
		var shape *tensor.ShapeError
		require.ErrorAs(t, tensor.CopyOver(key, to, from), &shape)
		if e == there {
			require.Equal(t, before, to.Version())
		}
		turned.Release()
		from.Release()
		require.ErrorIs(t, tensor.CopyOver(key, to, from), tensor.ErrReleased)
	}
}

func TestPlace_IsThatOfTheMemory(t *testing.T) {
	key := training.Key{}
	b := onHost(t)
	x := iota(t, b.Exec, 4)
	same, copied := x.Retain(), must(t)(x.Clone())
	require.Equal(t, tensor.Place(key, x), tensor.Place(key, same))
	require.NotSame(t, tensor.Place(key, x), tensor.Place(key, copied))
	require.Nil(t, tensor.Place(key, nil))
	before := x.Version()
	tensor.Changed(key, same)
	require.Equal(t, before+1, x.Version())
	tensor.Changed(key, nil)
	same.Release()
}

// A generator that is captured goes back to where it was, and says so of a second capture.
func TestGenerator_IsAsBeforeAfterACapture(t *testing.T) {
	gen := tensor.NewGenerator(3)
	gen.Reserve(7)
	before := gen.State()
	end, ok := gen.BeginUse(training.Key{})
	require.True(t, ok)
	_, again := gen.BeginUse(training.Key{})
	require.False(t, again)
	gen.Reserve(5)
	require.Equal(t, before.Offset+5, gen.State().Offset)
	_, err := tensor.RandPerm(gen, 3)
	var refused *tensor.CaptureError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Site, "captured_test.go:")
	end()
	require.Equal(t, before, gen.State())
	_, ok = gen.BeginUse(training.Key{})
	require.True(t, ok)
}
