package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEverySecondRows_CopiesEverySecondElement(t *testing.T) {
	if everySecondRows == nil {
		t.Skip("no vectors")
	}
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	const rows, gap = 3, 5
	for n := leastSeconds; n < 70; n++ {
		for start := range 3 { // alignments
			from, to := 2*n-1+gap, n+gap
			src := watched[float32](start + (rows-1)*from + 2*n - 1)[start:]
			for i := range src {
				src[i] = float32(i)
			}
			dst := watched[float32]((rows-1)*to + n)
			everySecondRows(rows, n, &dst[0], 4*to, &src[0], 4*from)
			for i, v := range dst {
				row, column := i/to, i%to
				if column >= n {
					require.Zero(t, v, "%d of %d", i, n)
					continue
				}
				require.Equal(t, float32(row*from+2*column), v, "%d of %d", i, n)
			}
			require.Zero(t, g.check(), n)
			g.parts = nil
		}
	}
}

func TestToEverySecond_KeepsWhatIsBetween(t *testing.T) {
	if toEverySecond == nil {
		t.Skip("no vectors")
	}
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for n := leastSeconds; n < 70; n++ {
		for start := range 3 { // alignments
			src, dst := watched[float32](start + n)[start:], watched[float32](start + 2*n - 1)[start:]
			for i := range src {
				src[i] = float32(i + 1)
			}
			for i := range dst {
				dst[i] = -float32(i + 1)
			}
			toEverySecond(n, &dst[0], &src[0])
			for i, v := range dst {
				want := -float32(i + 1)
				if i%2 == 0 {
					want = float32(i/2 + 1)
				}
				require.Equal(t, want, v, "%d of %d", i, n)
			}
			require.Zero(t, g.check(), n)
			g.parts = nil
		}
	}
}
