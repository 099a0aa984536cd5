package fpstack

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const walks = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" // frame pointers are used

// both takes the same stack in both ways, from its caller outwards.
//
//go:noinline
func both(t *Table) (ID, []uintptr) {
	id := t.Here(0)
	var pcs [256]uintptr
	n := runtime.Callers(1, pcs[:])
	return id, pcs[:n]
}

// names of the functions of a stack, inlined ones included.
func names(pcs []uintptr) (list []string) {
	frames := runtime.CallersFrames(pcs)
	for more := len(pcs) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		list = append(list, f.Function)
	}
	return list
}

func tableNames(t *Table, id ID) (list []string) {
	for _, f := range t.Frames(id) {
		list = append(list, f.Function)
	}
	return list
}

// requireSame fails unless the walk found what the runtime finds. Only the first address differs: both is left by two calls.
func requireSame(t *testing.T, table *Table, id ID, want []uintptr) {
	t.Helper()
	require.NotZero(t, id)
	wantNames, got := slices.DeleteFunc(names(want), hidden), tableNames(table, id)
	if len(table.PCs(id)) == Depth {
		require.GreaterOrEqual(t, len(got), Depth-1)
		wantNames = wantNames[:len(got)]
	}
	require.Equal(t, wantNames, got)
}

// Small enough to be inlined into each other and into their caller.
func inlined1(t *Table) (ID, []uintptr) { return both(t) }
func inlined2(t *Table) (ID, []uintptr) { return inlined1(t) }

func TestFrames_ExpandsInlinedFunctions(t *testing.T) {
	table := NewTable(100)
	id, want := inlined2(table)
	requireSame(t, table, id, want)
	pkg := "github.com/cistern-ml/cistern/internal/fpstack."
	require.Equal(t, []string{pkg + "both", pkg + "inlined1", pkg + "inlined2", pkg + "TestFrames_ExpandsInlinedFunctions"},
		tableNames(table, id)[:4])
	frame := table.Frames(id)[0]
	require.True(t, strings.HasSuffix(frame.File, "fpstack_test.go"))
	require.NotZero(t, frame.Line)
}

func TestHere_EndsAtTheGoroutinesBase(t *testing.T) {
	table := NewTable(100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		id, want := both(table)
		requireSame(t, table, id, want)
		require.Len(t, table.Frames(id), 2)
	}()
	<-done
}

func TestHere_InDeferredFunctionsAndPanics(t *testing.T) {
	table := NewTable(100)
	check := func() {
		id, want := both(table)
		requireSame(t, table, id, want)
	}
	defer check()
	defer func() {
		require.Equal(t, "p", recover())
		check()
	}()
	defer check()
	reflect.ValueOf(check).Call(nil)
	panic("p")
}

// grow takes a stack at each of n levels with a kilobyte between them.
//
//go:noinline
func grow(t *testing.T, table *Table, n int) byte {
	var pad [1024]byte
	pad[n%len(pad)] = byte(n)
	id, want := both(table)
	requireSame(t, table, id, want)
	if n > 0 {
		pad[0] += grow(t, table, n-1)
	}
	id, want = both(table)
	requireSame(t, table, id, want)
	return pad[0] + pad[n%len(pad)]
}

func TestHere_AsTheStackGrows(t *testing.T) {
	done := make(chan struct{})
	go func() { // begins with a small stack
		defer close(done)
		grow(t, NewTable(1000), 100)
	}()
	<-done
}

func TestHere_WhileTheCollectorMovesStacks(t *testing.T) {
	table := NewTable(1000)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range 200 {
				done := make(chan struct{})
				go func() {
					defer close(done)
					deep(60, func() { runtime.Gosched() }) // a large stack, to be shrunk while the rest runs
					for n := range 20 {
						var first, second ID
						deep(n, func() { first = table.Here(0) })
						deep(n, func() { second = table.Here(0) })
						if first == 0 || len(table.PCs(first)) != len(table.PCs(second)) {
							t.Errorf("depth %d: %d and %d frames", n, len(table.PCs(first)), len(table.PCs(second)))
						}
					}
				}()
				<-done
			}
		})
	}
	collector := make(chan struct{})
	go func() {
		defer close(collector)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	group.Wait()
	close(stop)
	<-collector
	require.Less(t, table.Len(), 60, "two stacks for each depth, and no others")
}

// A frame pointer outside the goroutine's stack is not followed, whatever it is.
func TestCallers_SurvivesWrongFramePointers(t *testing.T) {
	if !walks {
		t.Skip("no frame pointers are used")
	}
	var pcs [Depth]uintptr
	heap := make([]uintptr, 1000)
	for _, from := range []uintptr{1, 7, 8, 4096, ^uintptr(0), ^uintptr(0) - 15, ^uintptr(0) >> 1, ^uintptr(0) >> 17,
		reflect.ValueOf(heap).Pointer(), reflect.ValueOf(callers).Pointer()} {
		n, hash := callers(from, &pcs)
		require.Zero(t, n, "%#x", from)
		require.Zero(t, hash)
	}
}

func TestTable_KeepsEachStackOnce(t *testing.T) {
	table := NewTable(100)
	var ids []ID
	for range 10 {
		ids = append(ids, table.Here(0))
	}
	require.NotZero(t, ids[0])
	require.Equal(t, slices.Repeat(ids[:1], 10), ids)
	require.Equal(t, 1, table.Len())
	require.NotEqual(t, ids[0], table.Here(0))
	require.Equal(t, 2, table.Len())
	require.Nil(t, table.Frames(0))
	require.Nil(t, table.PCs(3))
}

func TestTable_CountsWhatItCannotKeep(t *testing.T) {
	table := NewTable(3)
	var ids []ID
	for n := range 5 {
		deep(n, func() { ids = append(ids, table.Here(0)) })
	}
	require.Equal(t, []ID{1, 2, 3, 0, 0}, ids)
	require.Equal(t, int64(2), table.Dropped())
	deep(1, func() { require.Zero(t, table.Here(0)) }) // another caller
	for n := range 3 {
		deep(n, func() { table.Here(0) })
	}
	require.Equal(t, 3, table.Len())
}

func TestTable_WithOneBucketTellsStacksApart(t *testing.T) {
	table := NewTable(100)
	a := table.add(1, 0, []uintptr{1, 2, 3})
	b := table.add(1, 0, []uintptr{1, 2, 4})
	c := table.add(1, 0, []uintptr{1, 2})
	require.Equal(t, []ID{1, 2, 3}, []ID{a, b, c})
	require.Equal(t, a, table.add(1, 0, []uintptr{1, 2, 3}))
	require.Equal(t, []uintptr{1, 2, 4}, table.PCs(b))
}

func TestHere_ByManyGoroutinesGivesOneID(t *testing.T) {
	table := NewTable(100)
	var group sync.WaitGroup
	ids := make([]ID, 8)
	for i := range ids {
		group.Go(func() { ids[i] = table.Here(0) })
	}
	group.Wait()
	require.Equal(t, slices.Repeat(ids[:1], len(ids)), ids)
}

func TestHere_MakesNoGarbage(t *testing.T) {
	table := NewTable(100)
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Here(0) }))
}
