package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

// correlateGo is a kernel for tiles of so many columns.
func correlateGo(columns int) correlateKernel {
	return correlateKernel{columns, func(c *correlateCall) { correlateTileGo(c, columns) }}
}

func correlateTileGo(c *correlateCall, columns int) {
	const size = 4
	sums := elementsAt(c.sums, correlateRows*columns)
	total := make([]float32, correlateRows*columns)
	b, at := c.b, 0
	for range c.planes {
		for range c.lines {
			for range c.places {
				for r, from := range elementsAt(c.offsets, correlateRows) {
					for j, v := range elementsAt(b, columns) {
						total[r*columns+j] += *offsetElements(c.a, (from+at)/size) * v
					}
				}
				b = offsetElements(b, columns)
				at += c.step
			}
			at += c.lineSkip
		}
		at += c.planeSkip
	}
	for i, v := range total {
		sums[i] += v
	}
}

func TestCorrelate_IsThePortableLoop(t *testing.T) {
	if len(correlateKernels) == 0 {
		t.Skip("no vectors")
	}
	for _, k := range correlateKernels {
		t.Run(fmt.Sprint(k.columns), func(t *testing.T) { testCorrelateKernel(t, k) })
	}
}

func testCorrelateKernel(t *testing.T, k correlateKernel) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := correlateCall{planes: 1 + rng.IntN(3), lines: 1 + rng.IntN(5), places: 1 + rng.IntN(9)}
		step, line, plane := 1+rng.IntN(3), rng.IntN(7), rng.IntN(5)
		c.step, c.lineSkip, c.planeSkip = 4*step, 4*line, 4*plane
		reach := c.planes * (c.lines*(c.places*step+line) + plane)
		var offsets [correlateRows]int
		for r := range offsets {
			offsets[r] = 4 * rng.IntN(20)
		}
		few := func(s []float32) *float32 { // sums are exact
			for i := range s {
				s[i] = float32(rng.IntN(9) - 4)
			}
			return &s[0]
		}
		c.a, c.b = few(watched[float32](reach+20)), few(watched[float32](c.planes*c.lines*c.places*k.columns))
		c.offsets = &offsets[0]
		want, got := make([]float32, correlateRows*k.columns), watched[float32](correlateRows*k.columns)
		few(want)
		copy(got, want)
		c.sums = &want[0]
		correlateGo(k.columns).tile(&c)
		c.sums = &got[0]
		k.tile(&c)
		require.Equal(t, want, got, seed)
		require.Zero(t, g.check(), seed)
		g.parts = nil
	}
}

// Gradients of kernels with and without padding, strides and dilations, of one tap and of many, with the assembly and without.
func TestConvolutions_ByCorrelationAreThoseByDefinition(t *testing.T) {
	if len(correlateKernels) == 0 {
		t.Skip("no vectors")
	}
	vector := correlateKernels
	defer func() { correlateKernels = vector }()
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	var calls atomic.Int64
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 6))
		p := randomProblem(rng)
		p.n = 1 + rng.IntN(4)
		p.o += 16 * p.groups
		if rng.IntN(2) == 0 {
			p.kh, p.kw, p.padding, p.dilation = 1, 1, [2]int{}, [2]int{1, 1}
			p.c += p.groups * rng.IntN(40)
		}
		if seed%3 == 0 { // for wide kernels
			p.o = 32 * p.groups
		}
		if p.kh == 3 && p.kw == 3 {
			p.stride[0] = 2
		}
		if seed%20 == 0 {
			p.h, p.w = p.h+40, p.w+620
			p.c, p.o = p.groups*(1+rng.IntN(3)), p.groups*12
		}
		o := p.operands(seed)
		want := o.want[op.Conv2DGradWeight]
		for _, list := range [][]correlateKernel{{correlateGo(16)}, nil, vector[:1], vector} {
			correlateKernels = slices.Clone(list)
			for i, k := range list {
				correlateKernels[i].tile = func(c *correlateCall) { calls.Add(1); k.tile(c) }
			}
			var first []float32
			for _, number := range []int{1, 3} {
				out := watched[float32](len(want))
				workers(number, func() { launch(t, p.call(t, o, op.Conv2DGradWeight, out)) })
				requireClose(t, want, out, convTolerance, fmt.Sprint(&p, " ", seed))
				require.Zero(t, g.check(), "%s %d", &p, seed)
				if first == nil {
					first = out
				}
				requireSame(t, first, out, p.String())
			}
		}
		g.parts = nil
	}
	require.Greater(t, calls.Load(), int64(1000))
}
