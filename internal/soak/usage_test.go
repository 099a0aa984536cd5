package soak_test

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// usage is what must not grow. What the operating system does not tell is 0.
type usage struct {
	device, reserved int64 // bytes that tensors hold, and that the allocator holds
	pinned           int64 // bytes of pinned memory in use
	heap             uint64
	resident         int64
	goroutines       int
	files            int
}

// How much more than after the warm-up is still flat: the heap and the process have caches that fill by and by.
const (
	heapSlack     = 8 << 20
	residentSlack = 64 << 20
	reservedSlack = 32 << 20
)

// measure waits until what was dropped has been found, and measures.
func (w *world) measure(t *testing.T) usage {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		x, err := tensor.Empty(w.exec, tensor.Float32, 1) // takes in what the safety net has queued
		require.NoError(t, err)
		x.Release()
		require.NoError(t, w.pool.EmptyCache())
		if w.allocated() == w.base && w.pool.Stats().ActiveBytes.Current == 0 {
			break
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	stats := w.alloc.Stats()
	return usage{
		device: stats.AllocatedBytes.All.Current, reserved: stats.ReservedBytes.All.Current, heap: m.HeapAlloc, goroutines: runtime.NumGoroutine(),
		pinned: w.pool.Stats().ActiveBytes.Current, resident: resident(), files: files(),
	}
}

func (w *world) allocated() int64 { return w.alloc.Stats().AllocatedBytes.All.Current }

// requireFlat fails if more is used now than was before.
func requireFlat(t *testing.T, before, now usage) {
	t.Helper()
	require.Equal(t, before.device, now.device, "bytes of the device")
	require.Equal(t, before.pinned, now.pinned, "bytes of pinned memory")
	require.LessOrEqual(t, now.reserved, before.reserved+reservedSlack, "bytes that the allocator holds")
	require.LessOrEqual(t, now.heap, before.heap+heapSlack, "bytes of the Go heap")
	require.LessOrEqual(t, now.resident, before.resident+residentSlack, "bytes of the process")
	require.LessOrEqual(t, now.goroutines, before.goroutines, "goroutines")
	require.LessOrEqual(t, now.files, before.files, "open files")
}

// resident is the memory of the process.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// files is how many files are open.
func files() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// pinnedOf is the pool of pinned memory of the world's device.
func pinnedOf(t *testing.T, w *world) *memory.Pinned {
	t.Helper()
	p, err := memory.PinnedFor(w.dev)
	require.NoError(t, err)
	return p
}
