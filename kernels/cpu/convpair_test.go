package cpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

func TestInterleave_PutsElementsBetweenThoseAtTheFront(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	check := func() {
		for n := 1; n < 70; n++ {
			for size := 2 * n; size <= 2*n+1; size++ {
				row, odd := watched[float32](size + 1)[1:], watched[float32](n)
				for i := range odd {
					row[i], odd[i] = float32(2*i), float32(2*i+1)
				}
				if size > 2*n {
					row[n] = float32(2 * n)
				}
				interleave(row, odd)
				for i, v := range row {
					require.Equal(t, float32(i), v, "%d of %d", i, size)
				}
				require.Zero(t, g.check(), size)
				g.parts = nil
			}
		}
	}
	check()
	defer func(f func(n int, row, odd *float32)) { interleaveVector = f }(interleaveVector)
	interleaveVector = nil
	check()
}

// Rows of even and odd widths, kernels with all phases and with some, a stride in one dimension, and rows that are cut.
func TestConvolutions_OfPairsOfPhasesAreThoseByDefinition(t *testing.T) {
	for _, p := range []convProblem{
		{2, 16, 16, 32, 24, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 1},
		{1, 9, 11, 21, 17, 5, 4, [2]int{2, 2}, [2]int{2, 1}, [2]int{1, 1}, 1},
		{2, 10, 7, 2, 8, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 1},
		{1, 8, 6, 19, 12, 3, 3, [2]int{1, 2}, [2]int{1, 0}, [2]int{1, 1}, 1},
		{1, 8, 6, 20, 12, 9, 1, [2]int{1, 2}, [2]int{4, 0}, [2]int{1, 1}, 1},
		{1, 8, 12, 20, 12, 3, 3, [2]int{4, 2}, [2]int{1, 1}, [2]int{1, 1}, 1},
		{2, 16, 8, 27, 20, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{3, 3}, 1},
		{2, 16, 8, 27, 20, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{2, 2}, 1},
		{1, 8, 3, 530, 8, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 1},
		{1, 24, 8, 40, 32, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 2},
	} {
		o := p.operands(1)
		id := op.Conv2DGradInput
		g := &guards{}
		watch = g.add
		out := watched[float32](len(o.want[id]))
		launch(t, p.call(t, o, id, out))
		watch = nil
		require.Zero(t, g.check(), &p)
		requireClose(t, o.want[id], out, 5e-6, fmt.Sprint(&p))

		last := make([]float32, len(out)) // whose columns do not lie side by side: each phase alone
		c := p.call(t, o, id, last)
		back := p.channelsLast(t, id, c, true)
		launch(t, c)
		back()
		requireClose(t, o.want[id], last, 5e-6, fmt.Sprint(&p))
	}
}
