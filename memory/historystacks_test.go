package memory

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// top is the name of a stack's innermost function, with the last part of its package.
func top(frames []Frame) string {
	if len(frames) == 0 {
		return ""
	}
	return path.Base(frames[0].Name)
}

//go:noinline
func allocHere(r *rig, bytes uint64) Block {
	b, err := r.a.Alloc(bytes, r.stream(0))
	require.NoError(r.t, err)
	return b
}

//go:noinline
func freeHere(r *rig, b Block) { require.NoError(r.t, r.a.Free(b)) }

//go:noinline
func emptyHere(r *rig) { require.NoError(r.t, r.a.EmptyCache()) }

func TestHistory_KeepsStacksAsTheContextSays(t *testing.T) {
	const a, f, e = "memory.allocHere", "memory.freeHere", "memory.emptyHere"
	for _, c := range []struct {
		context               HistoryContext
		block, alloc          string // of the block and the segment; of their entries
		free, completed, gone string // of the entries
	}{
		{ContextNone, "", "", "", "", ""},
		{ContextState, a, "", "", "", ""},
		{ContextAlloc, a, a, a, a, a}, // as in PyTorch: entries for the end have the stack of the beginning
		{ContextAll, a, a, f, f, e},
	} {
		for _, mode := range []HistoryMode{HistoryAll, HistoryState} {
			r := traceRig(t, gib, HistoryOptions{Enabled: mode, Context: c.context})
			b := allocHere(r, 1000)
			seg := r.a.Snapshot().Segments[0]
			require.Equal(t, c.block, top(seg.Frames))
			require.Equal(t, c.block, top(seg.Blocks[0].Frames))
			require.Empty(t, seg.Blocks[1].Frames)
			freeHere(r, b)
			emptyHere(r)
			if mode == HistoryState {
				require.Empty(t, r.trace())
				continue
			}
			var tops []string
			for _, e := range r.trace() {
				if e.Action != ActionSnapshot {
					tops = append(tops, top(e.Frames))
				}
			}
			require.Equal(t, []string{c.alloc, c.alloc, c.free, c.completed, c.gone}, tops)
		}
	}
}

func TestHistory_OfADeferredFreeHasTheStackOfTheAllocation(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	b := allocHere(r, 1000)
	r.a.FreeLater(b)
	r.alloc(3*mib, 0)
	e := r.trace()[2]
	require.Equal(t, ActionFreeRequested, e.Action)
	require.Equal(t, "memory.allocHere", top(e.Frames))
}

func TestFrames_HaveFileLineAndCallers(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	allocHere(r, 1000)
	frames := r.a.Snapshot().Segments[0].Blocks[0].Frames
	require.Equal(t, "github.com/cistern-ml/cistern/memory.allocHere", frames[0].Name)
	require.Equal(t, "historystacks_test.go", path.Base(frames[0].Filename))
	require.Positive(t, frames[0].Line)
	require.Equal(t, "memory.TestFrames_HaveFileLineAndCallers", top(frames[1:]))
}

func TestBlockError_NamesBothPlacesIfTheyAreKnown(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	b := allocHere(r, 1000)
	freeHere(r, b)
	var holders []Block
	for len(holders) == 0 || holders[len(holders)-1].b != b.b { // until the object that stood for it has another block
		holders = append(holders, r.alloc(mib, 0))
	}
	for _, c := range []struct {
		err  error
		what string
	}{{r.a.Free(b), "double free"}, {r.a.RecordStream(b, r.stream(1)), "use after free"}} {
		var be *BlockError
		require.ErrorAs(t, c.err, &be)
		require.Equal(t, "memory.allocHere", top(be.Allocated))
		require.Equal(t, "memory.freeHere", top(be.Freed))
		require.ErrorContains(t, c.err, fmt.Sprintf("%s: block of 1024 bytes at %#x, allocated at memory.allocHere (historystacks_test.go:%d) < "+
			"memory.TestBlockError_NamesBothPlacesIfTheyAreKnown (", c.what, uintptr(b.Ptr()), be.Allocated[0].Line))
		require.ErrorContains(t, c.err, fmt.Sprintf(", freed at memory.freeHere (historystacks_test.go:%d) < ", be.Freed[0].Line))
	}
	r.free(holders...)
	var be *BlockError
	require.ErrorAs(t, r.a.Free(b), &be)
	require.Empty(t, be.Allocated, "the object has forgotten")
	require.Empty(t, be.Freed)
	require.False(t, strings.Contains(be.Error(), "allocated at"))
}

func TestBlockError_OfAFreeThatWasNotRecordedNamesNothing(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	b := r.alloc(1000, 0)
	r.free(b)
	c := r.alloc(1000, 0)
	r.a.StopHistory()
	r.free(c)
	var be *BlockError
	require.ErrorAs(t, r.a.Free(c), &be)
	require.Empty(t, be.Allocated)
	require.Empty(t, be.Freed)
}

func TestOnOOM_IsToldWithoutLocks(t *testing.T) {
	r := traceRig(t, 64*mib, HistoryOptions{})
	var told []*OOMError
	r.a.OnOOM(func(e *OOMError) {
		told = append(told, e)
		require.NotEmpty(t, r.a.Snapshot().DeviceTraces)
		require.NoError(t, r.a.Free(r.alloc(1000, 0)), "it may use the allocator")
	})
	order := 0
	r.a.OnOOM(func(*OOMError) { order = len(told) })
	r.alloc(1000, 0)
	require.Empty(t, told)

	_, err := r.tryAlloc(100*mib, 0)
	require.Len(t, told, 1)
	require.Equal(t, 1, order, "in the order of registration")
	require.Same(t, told[0], requireOOM(t, err, ErrDeviceFull))

	_, err = r.tryAlloc(maxRequest, 0)
	require.Len(t, told, 2)
	require.Same(t, told[1], requireOOM(t, err, ErrDeviceFull))

	require.Error(t, r.a.Reserve(100*mib, r.stream(0)))
	require.Len(t, told, 3)

	r.dev.Inject(func(sim.Call) error { return errBroken })
	_, err = r.tryAlloc(30*mib, 0)
	require.ErrorIs(t, err, errBroken)
	require.Len(t, told, 3, "other errors are not for it")
}

var errBroken = errors.New("broken")
