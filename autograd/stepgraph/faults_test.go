package stepgraph_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

// failing runs a step whose nth call of the driver fails. It reports whether the step makes as many.
func failing(r *training, rig *cudatest.Rig, turn, nth, code int) (err error, reached bool) {
	x, y := r.batch(turn, rows)
	defer x.Release()
	defer y.Release()
	before := sum(rig.Calls())
	rig.Fail("*", nth, code)
	out, err := r.step.Run(x, y)
	reached = sum(rig.Calls())-before >= nth
	rig.ClearFaults()
	if err == nil {
		_, err = out[0].Item()
		require.NoError(r.t, err)
	}
	return err, reached
}

func sum(calls map[string]int) (n int) {
	for _, c := range calls {
		n += c
	}
	return n
}

// Each call of the driver fails in turn, while a step is captured and replayed for the first time. A step that fails has changed nothing, and the next one is
// captured, or taken eagerly.
func TestStep_FailsAtEveryCallAndLosesNothing(t *testing.T) {
	for _, code := range []int{1, 2} { // an invalid value, and no memory
		if testing.Short() && code != 2 {
			continue
		}
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			dev, rig := emulatedtest.NewPTX(t)
			rig.Expect("CUDA_ERROR")
			captured, eager := newTraining(t, dev, adamW), newTraining(t, dev, adamW)
			turn := 0
			follow := func() {
				_, err := eager.try(turn, rows, eager.step.Eager)
				require.NoError(t, err)
				require.Equal(t, eager.state(), captured.state())
				turn++
			}
			for range 3 {
				captured.take(turn)
				follow()
			}
			failed := 0
			for nth, reached := 1, true; reached; nth++ {
				before := captured.state()
				var err error
				err, reached = failing(captured, rig, turn, nth, code)
				if err != nil {
					failed++
					require.Equal(t, before, captured.state(), "call %d: %v", nth, err)
					var typed *stepgraph.Error
					require.ErrorAs(t, err, &typed)
					var driver *device.Error
					var oom *memory.OOMError
					require.True(t, errors.As(err, &driver) || errors.As(err, &oom), "call %d: %v", nth, err)
				} else {
					follow()
				}
				if captured.step.Stats().Graphs > 0 { // so that the next call is of a capture
					dict, err := captured.opt.StateDict()
					require.NoError(t, err)
					require.NoError(t, captured.opt.LoadStateDict(dict))
					captured.take(turn)
					follow()
				}
			}
			require.Greater(t, failed, 20)
			_, err := captured.try(turn, rows, captured.step.Eager)
			require.NoError(t, err)
			follow()
			captured.release()
			eager.release()
			nothingLeft(t, dev)
		})
	}
}

// A device without memory for the graph: the error is the allocator's, and the step goes on eagerly.
func TestStep_OutOfMemoryWhileCapturing(t *testing.T) {
	dev, _ := emulatedtest.NewPTX(t)
	r := newTraining(t, dev, adamW)
	for turn := range 3 {
		r.take(turn)
	}
	a, err := memory.For(dev)
	require.NoError(t, err)
	caching := a.(*memory.Caching)
	before := r.state()
	require.NoError(t, caching.EmptyCache())
	x, y := r.batch(3, rows)
	caching.SetMemoryLimit(uint64(caching.Stats().ReservedBytes.All.Current))
	_, err = r.step.Run(x, y)
	x.Release()
	y.Release()
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	caching.SetMemoryLimit(cudatest.Capacity)
	require.Equal(t, before, r.state())
	_, err = r.try(3, rows, r.step.Eager)
	require.NoError(t, err)
	r.take(4)
	require.Equal(t, 1, r.step.Stats().Captures)
	r.release()
	nothingLeft(t, dev)
}
