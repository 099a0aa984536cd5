package examples

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What docs/memory.md shows of handles that nobody released.

// held says where the blocks were allocated that are in use now, and how many bytes are of each place.
func held(a *memory.Caching) map[string]uint64 {
	places := map[string]uint64{}
	for _, s := range a.Snapshot().Segments {
		for _, b := range s.Blocks {
			if b.State == memory.ActiveAllocated {
				places[stack(b.Frames)] += b.Size
			}
		}
	}
	return places
}

// forgotten says where the blocks were allocated that the garbage collector has freed, and how many are of each place.
func forgotten(a *memory.Caching) map[string]int {
	places, last := map[string]int{}, map[device.Ptr][]memory.Frame{}
	for _, trace := range a.Snapshot().DeviceTraces {
		for _, e := range trace {
			switch {
			case e.Action == memory.ActionAlloc:
				last[e.Addr] = e.Frames
			case e.Action == memory.ActionFreeRequested && slices.Equal(e.Frames, last[e.Addr]): // nobody called Release
				places[stack(e.Frames)]++
			}
		}
	}
	return places
}

// stack is a call stack as text, innermost first.
func stack(frames []memory.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Name, f.Filename, f.Line)
	}
	return b.String()
}

//go:noinline
func forget(t *testing.T, e tensor.Exec) {
	x, err := tensor.Zeros(e, tensor.Float32, 1000)
	require.NoError(t, err)
	_ = x
}

func TestMemory_FindsWhoForgotToRelease(t *testing.T) {
	dev, e := rig(t)
	require.NoError(t, memory.RecordHistory(dev, memory.HistoryOptions{}))
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	a := alloc.(*memory.Caching)
	x, err := tensor.Ones(e, tensor.Float32, 10)
	require.NoError(t, err)
	require.Len(t, held(a), 1)
	for place, bytes := range held(a) {
		require.Contains(t, place, "TestMemory_FindsWhoForgotToRelease")
		require.EqualValues(t, 512, bytes)
	}
	x.Release()
	require.Empty(t, held(a))

	forget(t, e)
	for deadline := time.Now().Add(10 * time.Second); a.Stats().NumDeferredFrees == 0 && time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
	}
	require.EqualValues(t, 1, a.Stats().NumDeferredFrees)
	require.NoError(t, a.EmptyCache())
	places := forgotten(a)
	require.Len(t, places, 1)
	for place, n := range places {
		require.Contains(t, place, "examples.forget")
		require.Contains(t, place, "forgotten_test.go:")
		require.Equal(t, 1, n)
	}
}

func TestMemory_ShowsCodeAsItIsInTheTree(t *testing.T) {
	doc, err := os.ReadFile("../docs/memory.md")
	require.NoError(t, err)
	tested, err := os.ReadFile("forgotten_test.go")
	require.NoError(t, err)
	blocks := codeOf.FindAllStringSubmatch(string(doc), -1)
	require.Len(t, blocks, 1)
	require.True(t, strings.Contains(string(tested), blocks[0][2]), "the test does not have this:\n%s", blocks[0][2])
}
