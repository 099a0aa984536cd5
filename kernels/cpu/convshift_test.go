package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCopySeconds_CopiesEverySecondElement(t *testing.T) {
	vector := everySecond
	defer func() { everySecond = vector }()
	if vector == nil {
		t.Skip("no vectors")
	}
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for n := 1; n < 70; n++ {
		for start := range 3 { // alignments
			src := watched[float32](start + 2*n - 1)[start:]
			for i := range src {
				src[i] = float32(i)
			}
			dst := watched[float32](n)
			copySeconds(dst, src)
			for i, v := range dst {
				require.Equal(t, float32(2*i), v, "%d of %d", i, n)
			}
			require.Zero(t, g.check(), n)
			g.parts = nil
		}
	}
}
