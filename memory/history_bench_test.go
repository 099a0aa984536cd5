package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
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
