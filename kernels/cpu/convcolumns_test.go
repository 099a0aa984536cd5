package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// columnProblem is a random convolution with many outputs and few places.
func columnProblem(rng *rand.Rand) convProblem {
	p := randomProblem(rng)
	p.n, p.groups = 1+rng.IntN(9), 1+rng.IntN(2)
	p.c, p.o = p.groups*(1+rng.IntN(6)), p.groups*(leastColumnOutputs+rng.IntN(8))
	p.kh, p.kw = 1+rng.IntN(4), 2+rng.IntN(3)
	p.h, p.w = p.dilation[0]*(p.kh-1)+1+rng.IntN(5), p.dilation[1]*(p.kw-1)+1+rng.IntN(5)
	return p
}

func TestConvolutions_OfFewPlacesAreThoseByDefinition(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	columns, seeds := 0, uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := columnProblem(rng)
		o := p.operands(seed)
		want, name := o.want[op.Conv2DGradInput], fmt.Sprint(&p, " ", seed)
		out := watched[float32](len(want))
		c := p.call(t, o, op.Conv2DGradInput, out)
		if v := op.ConvolutionOf(c); isColumns(&v) {
			columns++
		}
		var got []float32
		for _, number := range []int{1, 3} {
			clear(out)
			workers(number, func() { launch(t, c) })
			requireClose(t, want, out, convTolerance, name)
			if got == nil {
				got = append(got, out...)
			}
			requireSame(t, got, out, name)
		}
		back := p.channelsLast(t, op.Conv2DGradInput, c, true)
		launch(t, c)
		clear(out)
		back()
		requireSame(t, got, out, name)
		require.Zero(t, g.check(), name)
		g.parts = nil
	}
	require.Greater(t, columns, int(seeds)/2)
}

func TestConvolutions_OfFewPlacesInFloat64AreThoseByDefinition(t *testing.T) {
	p := convProblem{3, 4, 7, 6, 300, 3, 2, [2]int{2, 1}, [2]int{1, 1}, [2]int{1, 2}, 1}
	o := p.operands(1)
	is, rs, ks := p.shapes()
	wide := func(v []float32) []float64 {
		w := make([]float64, len(v))
		for i, x := range v {
			w[i] = float64(x)
		}
		return w
	}
	want := o.want[op.Conv2DGradInput]
	out := make([]float64, len(want))
	c := &op.Call{Op: op.Conv2DGradInput, I: p.scalars(), Out: []op.View{viewOf(t, dtype.Float64, out, is[:]...)}, In: []op.View{
		viewOf(t, dtype.Float64, wide(o.gradient), rs[:]...), viewOf(t, dtype.Float64, wide(o.kernel), ks[:]...), viewOf(t, dtype.Float64, wide(o.back), p.c),
	}}
	v := op.ConvolutionOf(c)
	require.True(t, isColumns(&v))
	launch(t, c)
	require.InDeltaSlice(t, want, out, 1e-11)
}

func TestWithin_IsTheRangeOfThoseInside(t *testing.T) {
	for first := -9; first < 9; first++ {
		for step := 1; step < 4; step++ {
			for n := range 6 {
				for size := 1; size < 6; size++ {
					lo, hi := within(first, step, n, size)
					for i := range n {
						at := first + i*step
						require.Equal(t, at >= 0 && at < size, i >= lo && i < hi, "%d of %d, %d apart from %d on, in %d", i, n, step, first, size)
					}
					require.LessOrEqual(t, hi, n)
					require.GreaterOrEqual(t, lo, 0)
				}
			}
		}
	}
}
