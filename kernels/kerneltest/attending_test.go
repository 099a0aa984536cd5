package kerneltest

import (
	"math"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// attendingOf is the reference of a case of Attention.
func attendingOf(m *maker, c *testCase) *attending {
	if c.call.I[3] != 0 { // what is in memory goes back to the scalars
		last := len(c.in) - 1
		seed := c.in[last].values
		c.in, c.call.I[1], c.call.I[2], c.call.I[3] = c.in[:last], seed[0].i, c.call.I[2]+seed[1].i, 0
	}
	q, k, v := c.in[0], c.in[1], c.in[2]
	a := &attending{m: m, c: c, q: q, k: k, v: v, mask: c.in[3:], out: c.out[0], lse: c.out[1]}
	a.s = attentionSize{q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]}
	a.kind = attentionKind{causal: c.call.I[0] != 0, dropout: c.call.F[1]}
	if len(a.mask) > 0 {
		a.kind.mask = "float"
		if a.mask[0].dtype == dtype.Bool {
			a.kind.mask = "bool"
		}
	}
	return a
}

// weights are those of a row, before they are divided by their sum.
func (a *attending) weights(b, h, t int) (list []float64, sum float64) {
	most := a.scores(b, h, t)
	for s, score := range a.score {
		p := 0.0
		if !math.IsInf(score, -1) {
			p = math.Exp(score - most)
		}
		sum += p
		list = append(list, p*a.keep(b, h, t, s))
	}
	return list, sum
}

// The tolerance must take in every way in which weights may be rounded to half precision, and nothing else is rounded here: as they are, and
// all of them by half an ulp in the direction that moves the result farthest.
func TestAttention_ToleratesWeightsOfHalfPrecision(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16} {
		m := newMaker(op.Attention, d)
		m.every = 97 // then a row of two keys, on which few errors cancel, is off by 1.7 ulps of float16 on tensor cores
		for c := range m.cases() {
			a := attendingOf(m, c)
			if a.s.t*a.s.s > 5000 {
				continue // a second and more for each
			}
			a.each(func(b, h, row int) {
				weights, sum := a.weights(b, h, row)
				for e := range a.s.e {
					var got, farthest float64
					for s, w := range weights {
						v := a.v.at(b, h/(a.s.h/a.s.g), s, e).f
						got += round(d, w) * v
						farthest += w * v
						if w != round(d, w) {
							farthest += ulp(d, w) / 2 * math.Abs(v)
						}
					}
					want := c.want[0][a.out.position(b, h, row, e)]
					for _, x := range []float64{got, farthest} {
						x = round(d, x/max(sum, 0x1p-1000))
						require.True(t, near(d, want, x, c.ulps), "%s: at %d %d %d %d: %g, want %g (scale %g)", c, b, h, row, e, x, want.f, want.scale)
					}
				}
			})
		}
	}
}
