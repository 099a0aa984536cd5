package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

// A replayed step is one launch of a graph, beside the copies of the inputs and of what replays take from memory, and the events that order it behind the
// default stream.
func TestStep_ReplayIsOneLaunch(t *testing.T) {
	dev, rig := emulatedtest.NewPTX(t)
	r := newTraining(t, dev, adamW)
	x, y := r.batch(0, rows)
	for range 5 {
		_, err := r.step.Run(x, y)
		require.NoError(t, err)
	}
	calls := func(f func() error) map[string]int {
		before := rig.Calls()
		require.NoError(t, f())
		made := map[string]int{}
		for name, n := range rig.Calls() {
			if n -= before[name]; n > 0 && name != "cuCtxSetCurrent" {
				made[name] = n
			}
		}
		return made
	}
	replayed := calls(func() error { _, err := r.step.Run(x, y); return err })
	require.Equal(t, 1, replayed["cuGraphLaunch"])
	require.Zero(t, replayed["cuLaunchKernel"])
	require.Equal(t, 2, replayed["cuMemcpyDtoDAsync_v2"], "the inputs")
	require.Equal(t, 1, replayed["cuMemcpyHtoDAsync_v2"], "settings and seed")
	eager := calls(func() error { _, err := r.step.Eager(x, y); return err })
	require.Greater(t, eager["cuLaunchKernel"], 20)
	t.Log("replayed:", replayed, "eager:", eager)
	x.Release()
	y.Release()
	r.release()
	nothingLeft(t, dev)
}

// The memory of a step is taken once: what eager runs have cached goes back before the capture.
func TestStep_TakesItsMemoryOnce(t *testing.T) {
	dev, _ := emulatedtest.NewPTX(t, func(l *fakecuda.Library) {
		l.Set("instant_launch", "1") // kernels do nothing: it is about memory
		l.Capacity(0, 1<<30)
	})
	r := newTraining(t, dev, adamW)
	a, err := memory.For(dev)
	require.NoError(t, err)
	for turn := range 3 {
		_, err := r.try(turn, 1<<18, r.step.Run) // so that activations are what takes memory
		require.NoError(t, err)
	}
	eager := a.Stats().ReservedBytes.All.Current
	for turn := range 3 {
		_, err := r.try(turn, 1<<18, r.step.Run)
		require.NoError(t, err)
		reserved := a.Stats().ReservedBytes.All.Current
		require.LessOrEqual(t, reserved, eager+eager/4)
	}
	require.Equal(t, 3, r.step.Stats().Replays)
	r.release()
	nothingLeft(t, dev)
}
