package cpu

import "math/bits"

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): a function from
// a counter of 128 bits and a key of 64 bits to four words of 32 random bits. There is no state, so any element of any
// tensor can be computed by itself, on any device, in any order.
//
// The layout that all devices share, for a call with key I[0] and offset I[1]:
//
//	block n has the counter words (low and high half of I[1]+n, s, 0) and the key words (low and high half of I[0])
//	element i uses word i%4 of block i/4 with s = 0: call it w
//	Float64 needs more bits and uses the same word of the block with s = 1 too: call it v
//
//	Uniform    u = (w>>8) * 2^-24, and for Float64 u = (w*2^32 + v)>>11 * 2^-53, so that u is in [0, 1)
//	           the result is F[0] + u*(F[1]-F[0]), rounded, and at most F[2]
//	Normal     elements 2j and 2j+1 are r*cos(t) and r*sin(t), where r = sqrt(-2*log(1-u)) with the u of element 2j and
//	           t = 2*pi*u with the u of element 2j+1
//	Bernoulli  u < F[0], with the u of Float32 for all types but Float64
//
// A call of n elements uses the offsets I[1] to I[1]+(n+3)/4-1: the next call should start behind them.

const (
	philoxM0 = 0xD2511F53
	philoxM1 = 0xCD9E8D57
	philoxW0 = 0x9E3779B9 // golden ratio
	philoxW1 = 0xBB67AE85 // sqrt(3)-1
)

// philox is the function itself.
func philox(c [4]uint32, k0, k1 uint32) [4]uint32 {
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for range 10 {
		h0, l0 := bits.Mul32(philoxM0, c0)
		h1, l1 := bits.Mul32(philoxM1, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += philoxW0
		k1 += philoxW1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// philoxBlocks fills dst, whole blocks of it, with the words of blocks first, first+1, ... of the layout above.
func philoxBlocks(dst []uint32, key, first uint64, s uint32) {
	if n := len(dst) / 16 * 4; vector.philox != nil && n > 0 {
		vector.philox(n, &dst[0], key, first, s)
		dst = dst[4*n:]
		first += uint64(n)
	}
	for ; len(dst) >= 4; dst = dst[4:] {
		b := philox([4]uint32{uint32(first), uint32(first >> 32), s, 0}, uint32(key), uint32(key>>32))
		copy(dst, b[:])
		first++
	}
}

// uniform24 is the u of Float32 of a word; the product is exact.
func uniform24(w uint32) float32 { return float32(w>>8) * 0x1p-24 }

// uniform53 is the u of Float64 of two words; the product is exact.
func uniform53(w, v uint32) float64 { return float64((uint64(w)<<32|uint64(v))>>11) * 0x1p-53 }
