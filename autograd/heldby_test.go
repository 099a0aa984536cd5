package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The error of a full device names the program's line, and not the method that the compiler has put before the library's own.
func TestOOM_NamesTheProgramsLine(t *testing.T) {
	dev := sim.New(64 * device.MiB)
	a, err := memory.For(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Drop(dev) })
	require.NoError(t, a.(*memory.Caching).RecordHistory(memory.HistoryOptions{}))
	e, err := tensor.On(dev)
	require.NoError(t, err)
	x, err := tensor.Zeros(e, tensor.Float32, 4, 64, 64, 64)
	require.NoError(t, err)
	defer x.Release()
	g := autograd.NewGraph(dev)
	defer g.Release()
	y := g.Input(x)
	for range 20 {
		y = y.BatchNorm(nil, nil, nil, nil, true, 0.1, 1e-5)
	}
	var oom *memory.OOMError
	require.True(t, errors.As(g.Err(), &oom), "%v", g.Err())
	require.Contains(t, oom.Error(), "The most is held by heldby_test.go:")
}
