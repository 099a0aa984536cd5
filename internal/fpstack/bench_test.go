package fpstack

import (
	"fmt"
	"runtime"
	"testing"
)

// deep calls f with n more frames on the stack.
//
//go:noinline
func deep(n int, f func()) int {
	if n == 0 {
		f()
		return 0
	}
	return deep(n-1, f) + 1 // no tail call
}

func BenchmarkHere(b *testing.B) {
	for _, n := range []int{1, 10, 20, 40} {
		b.Run(fmt.Sprintf("depth=%d", n), func(b *testing.B) {
			t := NewTable(100)
			b.ReportAllocs()
			deep(n, func() {
				for range b.N {
					t.Here(0)
				}
			})
		})
		b.Run(fmt.Sprintf("runtime.Callers/depth=%d", n), func(b *testing.B) {
			var pcs [Depth]uintptr
			deep(n, func() {
				for range b.N {
					runtime.Callers(1, pcs[:])
				}
			})
		})
	}
}
