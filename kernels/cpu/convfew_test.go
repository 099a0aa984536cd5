package cpu

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

// fewGo is few3x32.
func fewGo(steps int, weights, image *float32, offsets *int, c *float32, ld int) {
	w := elementsAt(weights, fewOutputs*steps)
	for r := range fewOutputs {
		row := elementsAt(offsetElements(c, r*ld), fewColumns)
		clear(row)
		for l, at := range elementsAt(offsets, steps) {
			for j, v := range elementsAt(offsetElements(image, at), fewColumns) {
				row[j] += w[fewOutputs*l+r] * v
			}
		}
	}
}

func TestFew_IsThePortableLoop(t *testing.T) {
	if few3x32 == nil {
		t.Skip("no vectors")
	}
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		steps, ld := 1+rng.IntN(20), fewColumns+rng.IntN(9)
		offsets := make([]int, steps)
		for i := range offsets {
			offsets[i] = rng.IntN(70)
		}
		weights, image := watched[float32](fewOutputs*steps), watched[float32](70+fewColumns)
		for _, s := range [][]float32{weights, image} {
			for i := range s {
				s[i] = float32(rng.IntN(9) - 4) // sums are exact
			}
		}
		want, got := make([]float32, 2*ld+fewColumns), watched[float32](2*ld+fewColumns)
		clear(got)
		fewGo(steps, &weights[0], &image[0], &offsets[0], &want[0], ld)
		few3x32(steps, &weights[0], &image[0], &offsets[0], &got[0], ld)
		require.Equal(t, want, got, seed)
		require.Zero(t, g.check(), seed)
		g.parts = nil
	}
}

// Gradients of images of few channels, with the assembly, with the loop that it follows, and without.
func TestConvolutions_OfFewResultsAreThoseByDefinition(t *testing.T) {
	if few3x32 == nil {
		t.Skip("no vectors")
	}
	vector := few3x32
	defer func() { few3x32 = vector }()
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	var calls atomic.Int64
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 8))
		p := randomProblem(rng)
		p.n, p.groups, p.c, p.o = 1+rng.IntN(4), 1, 1+rng.IntN(3), 32+rng.IntN(40)
		if seed%20 == 0 {
			p.w += 300 * p.stride[1]
		}
		o := p.operands(seed)
		want := o.want[op.Conv2DGradInput]
		for _, f := range []func(int, *float32, *float32, *int, *float32, int){fewGo, nil, vector} {
			if few3x32 = f; f != nil {
				few3x32 = func(steps int, weights, image *float32, offsets *int, c *float32, ld int) {
					calls.Add(1)
					f(steps, weights, image, offsets, c, ld)
				}
			}
			var first []float32
			for _, number := range []int{1, 3} {
				out := watched[float32](len(want))
				workers(number, func() { launch(t, p.call(t, o, op.Conv2DGradInput, out)) })
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
