package tensor_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Whoever comes first: a handle that Retain returned holds the memory, or is released.
func TestRetain_RacingTheLastReleaseGetsTheMemoryOrNothing(t *testing.T) {
	b := onHost(t)
	live := func() int64 { return b.alloc.Stats().Allocation.All.Current }
	base := live()
	var held, late int
	for i := range 4000 {
		x, err := tensor.Zeros(b.Exec, tensor.Float32, 4)
		require.NoError(t, err)
		var start, done sync.WaitGroup
		start.Add(1)
		done.Go(func() {
			start.Wait()
			x.Release()
		})
		start.Done()
		for range i % 20 { // to come at another time each turn
			runtime.Gosched()
		}
		h := x.Retain()
		done.Wait()
		if h.Released() {
			late++
			require.Equal(t, base, live())
		} else {
			held++
			require.Equal(t, base+1, live(), "the handle is not released, and its memory is free")
			require.NoError(t, h.FillInPlace(1))
		}
		h.Release()
		require.Equal(t, base, live())
	}
	t.Log(held, "held,", late, "came too late")
}
