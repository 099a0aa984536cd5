package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

// narrowProblem is a random convolution whose groups have few channels or results.
func narrowProblem(rng *rand.Rand) convProblem {
	p := randomProblem(rng)
	p.n = 1 + rng.IntN(3)
	if rng.IntN(3) > 0 {
		p.groups = 2 + rng.IntN(6)
		p.c, p.o = p.groups, p.groups*(1+rng.IntN(4))
	} else {
		p.groups, p.c, p.o = 1, 1+rng.IntN(12), 1+rng.IntN(3)
	}
	if rng.IntN(2) == 0 {
		p.w = max(p.w, 8+rng.IntN(60))
	}
	return p
}

func TestConvolutions_ByBandsAreThoseByDefinition(t *testing.T) {
	if vector.taps == nil {
		t.Skip("no vectors")
	}
	taps, dots := vector.taps, vector.tapDots
	defer func() { vector.taps, vector.tapDots = taps, dots }()
	var sums, products atomic.Int64
	counted := func(c *tapCall) { sums.Add(1); taps(c) }
	countedDots := func(c *dotCall) { products.Add(1); dots(c) }
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := narrowProblem(rng)
		o := p.operands(seed)
		vector.taps, vector.tapDots = counted, countedDots
		if seed%4 == 0 {
			vector.taps, vector.tapDots = nil, nil
		}
		for _, id := range []op.ID{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
			want := o.want[id]
			name := fmt.Sprint(id, " ", &p, " ", seed)
			out := watched[float32](len(want))
			c := p.call(t, o, id, out)
			launch(t, c)
			requireClose(t, want, out, convTolerance, name)
			require.Zero(t, g.check(), name)

			// What lies beside the places that a result reads does not reach it, be it infinite.
			at := rng.IntN(len(o.image))
			if id == op.Conv2DGradInput || len(o.gradient) == 0 {
				continue
			}
			before := o.image[at]
			o.image[at] = float32(math.Inf(1))
			again := watched[float32](len(want))
			c.Out = p.call(t, o, id, again).Out
			launch(t, c)
			o.image[at] = before
			reads := map[int]bool{}
			p.each(func(i, r, k int) {
				if i == at {
					reads[map[bool]int{true: r, false: k}[id == op.Conv2D]] = true
				}
			})
			for i := range out {
				if !reads[i] {
					require.Equal(t, out[i], again[i], "%s: element %d", name, i)
				}
			}
		}
		g.parts = nil
	}
	require.Greater(t, sums.Load(), int64(1000))
	require.Greater(t, products.Load(), int64(1000))
}
