//go:build linux && amd64

package fakecuda

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConversions_AreExactUpAndToNearestEvenDown(t *testing.T) {
	c := start(t)
	c.demo("")
	const n = 1 << 16
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(uint32(i)<<16 | uint32(i)*40503&0xffff)
	}
	f16s, bf16s, back, down := c.alloc(4*n), c.alloc(4*n), c.alloc(4*n), c.alloc(4*n)
	c.launch("convert", n/256, 256, f16s, bf16s, back, upload(c, x), down)
	h, b := download[float32](c, f16s, n), download[float32](c, bf16s, n)
	backs, downs := download[uint16](c, back, 2*n), download[uint16](c, down, 2*n)
	for i := range n {
		bits := uint16(i)
		require.Equal(t, math.Float32bits(halfValue(bits)), math.Float32bits(h[i]), "f16 %#x", bits)
		require.Equal(t, uint32(bits)<<16, math.Float32bits(b[i]), "bf16 %#x", bits)
		require.Equal(t, canonical(bits, 0x7c00), backs[2*i], "f16 %#x", bits)
		require.Equal(t, canonical(bits, 0x7f80), backs[2*i+1], "bf16 %#x", bits)
		require.Equal(t, nearest(x[i], h), downs[2*i], "f16 of %v", x[i])
		require.Equal(t, nearest(x[i], b), downs[2*i+1], "bf16 of %v", x[i])
	}
}

// halfValue is the definition of half precision.
func halfValue(b uint16) float32 {
	sign, exponent, mantissa := 1-2*float64(b>>15), int(b>>10&31), float64(b&0x3ff)
	switch {
	case exponent == 31 && mantissa != 0:
		return math.Float32frombits(uint32(b&0x8000)<<16 | 0x7f800000 | uint32(b&0x3ff)<<13)
	case exponent == 31:
		return float32(math.Inf(int(sign)))
	case exponent == 0:
		return float32(math.Copysign(math.Ldexp(mantissa, -24), sign))
	}
	return float32(sign * math.Ldexp(1024+mantissa, exponent-25))
}

// canonical is bits, or 0x7fff for a NaN, which is what a GPU makes of it.
func canonical(bits, infinity uint16) uint16 {
	if bits&0x7fff > infinity {
		return 0x7fff
	}
	return bits
}

// nearest finds the 16-bit float nearest to x by bisection in the table of their values, ties to even; the magnitudes 0..
// infinity are ascending.
func nearest(x float32, values []float32) uint16 {
	if x != x {
		return 0x7fff
	}
	infinity := 0
	for !math.IsInf(float64(values[infinity]), 1) {
		infinity += 0x80
	}
	m, sign := math.Abs(float64(x)), uint16(math.Float32bits(x)>>16&0x8000)
	lo, hi := 0, infinity
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; float64(values[mid]) <= m {
			lo = mid
		} else {
			hi = mid
		}
	}
	above := float64(values[hi])
	if hi == infinity { // rounding goes as if the exponent went on
		above = 2*float64(values[lo]) - float64(values[lo-1])
	}
	if math.IsInf(m, 1) {
		return sign | uint16(infinity)
	}
	switch below := float64(values[lo]); {
	case m-below > above-m, m-below == above-m && lo%2 == 1:
		return sign | uint16(hi)
	}
	return sign | uint16(lo)
}
