package matrix_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// lacking is an allocator that fails once it is asked to.
type lacking struct {
	memory.Allocator
	calls, failAt int
}

func (a *lacking) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.calls++; a.calls == a.failAt {
		return memory.Block{}, &memory.OOMError{Requested: bytes}
	}
	return a.Allocator.Alloc(bytes, s)
}

// Wherever memory is missing, forward or backward, the graph gives everything back.
func TestFunctions_KeepNoMemoryWhenItIsMissing(t *testing.T) {
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	a := &lacking{Allocator: inner}
	for name, f := range functions {
		failed := 0
		for nth := 1; ; nth++ {
			g := autograd.NewGraph(dev, autograd.WithAllocator(a))
			m := array{[]int{2, 2}, []float64{3, 1, 1, 2}}.leaf(t, g, tensor.Float32)
			a.calls, a.failAt = 0, nth
			err := f([]*autograd.Variable{m, m}).Sum(nil, false).Backward()
			a.failAt = 0
			g.Release()
			require.Zero(t, inner.Stats().AllocatedBytes.All.Current, "%s, allocation %d", name, nth)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, memory.ErrOutOfMemory)
			failed++
		}
		require.Greater(t, failed, 2, name)
	}
	require.NoError(t, inner.Close())
	require.NoError(t, dev.Close())
}
