//go:build !race && (linux || darwin)

package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatch_MakesNoHeapAllocation(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcmp"})
	data := []byte("some bytes")
	words, starts := make([]uint64, 12), []uint16{0, 2, 4}
	allocs := testing.AllocsPerRun(100, func() {
		b := l.Batch()
		b.Add(compare, b.Out(0), b.Out(1), 8)
		b.Add(compare, b.Bytes(data), b.Bytes(data), 10)
		b.Params(words, starts)
		if _, r := b.Run(); r != Success {
			t.Fail()
		}
		b.Release()
	})
	require.Zero(t, allocs)
}
