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
			for rows := 1; rows <= 3; rows++ {
				for more := range 2 {
					down := 2*n + more + 3
					image, odd := watched[float32](1 + (rows-1)*down + 2*n + more)[1:], watched[float32](rows*n)
					for i := range image {
						image[i] = -1
						if r, x := i/down, i%down; x < n+more {
							image[i] = float32(1000*r + 2*x)
						}
					}
					for i := range odd {
						odd[i] = float32(1000*(i/n) + 2*(i%n) + 1)
					}
					interleave(rows, n, image, down, odd, more)
					for i, v := range image {
						want := float32(-1)
						if r, x := i/down, i%down; x < 2*n+more {
							want = float32(1000*r + x)
						}
						require.Equal(t, want, v, "%d of %d rows of %d", i, rows, n)
					}
					require.Zero(t, g.check(), n)
					g.parts = nil
				}
			}
		}
	}
	check()
	defer func(f func(rows, n int, image *float32, down int, odd *float32)) { interleaveRows = f }(interleaveRows)
	interleaveRows = nil
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
