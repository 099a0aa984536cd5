package memory

import (
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// What history costs a pair of Alloc and Free, by context.
func BenchmarkHistory(b *testing.B) {
	for _, c := range []struct {
		name    string
		options *HistoryOptions
	}{
		{"off", nil},
		{"state", &HistoryOptions{Enabled: HistoryState, Context: ContextState}},
		{"all,context=none", &HistoryOptions{Context: ContextNone}},
		{"all,context=state", &HistoryOptions{Context: ContextState}},
		{"all,context=alloc", &HistoryOptions{Context: ContextAlloc}},
		{"all,context=all", &HistoryOptions{Context: ContextAll}},
	} {
		for _, levels := range []int{1, 15} {
			b.Run(c.name+depthName(levels), func(b *testing.B) {
				a := benchAllocator(b)
				if c.options != nil {
					require.NoError(b, a.RecordHistory(*c.options))
				}
				s := &fakeStream{}
				for range DefaultHistoryEntries { // until entries are dropped
					h, _ := a.Alloc(4096, s)
					_ = a.Free(h)
				}
				b.ReportAllocs()
				nested(levels, func() {
					for b.Loop() {
						h, _ := a.Alloc(4096, s)
						_ = a.Free(h)
					}
				})
			})
		}
	}
}

func depthName(levels int) string {
	if levels == 1 {
		return "/shallow"
	}
	return "/deep"
}

// nested calls f with n more frames on the stack.
//
//go:noinline
func nested(n int, f func()) int {
	if n == 0 {
		f()
		return 0
	}
	return nested(n-1, f) + 1 // no tail call
}

// A snapshot of a full trace and a thousand blocks: the part under the locks, all of it, and writing it.
func BenchmarkSnapshot100kEntries(b *testing.B) {
	a := benchAllocator(b)
	require.NoError(b, a.RecordHistory(HistoryOptions{}))
	s := &fakeStream{}
	nested(15, func() {
		for range 1000 {
			_, _ = a.Alloc(4096, s)
		}
		for range DefaultHistoryEntries {
			h, _ := a.Alloc(4096, s)
			_ = a.Free(h)
		}
	})
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			a.copyState(nil, true)
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			a.Snapshot()
		}
	})
	snapshot := a.Snapshot()
	b.Run("pickle", func(b *testing.B) {
		for b.Loop() {
			_ = snapshot.WritePickle(io.Discard)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			_ = snapshot.WriteJSON(io.Discard)
		}
	})
}

// Two streams at work with everything recorded: what they share is a counter, and now and then the queue of chunks.
func BenchmarkHistory_TwoStreams(b *testing.B) {
	a := benchAllocator(b)
	require.NoError(b, a.RecordHistory(HistoryOptions{}))
	var group sync.WaitGroup
	for id := range 2 {
		s := &fakeStream{id: device.StreamID(id + 1)}
		group.Go(func() {
			for range b.N {
				h, _ := a.Alloc(4096, s)
				_ = a.Free(h)
			}
		})
	}
	group.Wait()
}
