package kerneltest

import (
	"iter"
	"math"
	"math/bits"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// philox is the function of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox4x32-10.
func philox(c0, c1, c2, c3, k0, k1 uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c0)
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}

// uniformAt is the uniform number of element i; the layout is that of philox.go in kernels/cpu.
func uniformAt(d dtype.DType, key, first int64, i int) float64 {
	n := uint64(first) + uint64(i/4)
	block := func(s uint32) uint32 {
		return philox(uint32(n), uint32(n>>32), s, 0, uint32(key), uint32(uint64(key)>>32))[i%4]
	}
	if d == dtype.Float64 {
		return float64((uint64(block(0))<<32|uint64(block(1)))>>11) / (1 << 53)
	}
	return float64(block(0)>>8) / (1 << 24)
}

// randoms are the cases of Uniform, Normal and Bernoulli.
func (m *maker) randoms() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, shape := range [][]int{{}, {0}, {1}, {3}, {4}, {5}, {2, 3}, {1023}, {1026}, {60_001}, {100, 700}} {
			for _, seed := range []int64{0, 42, -1, math.MaxInt64 - 5} {
				for _, offset := range []int64{0, 7, 1<<32 - 2, -2} {
					if count(shape) > 10_000 && (seed != 42 || offset != 7) {
						continue
					}
					emit(m.random(seed, offset, shape))
					if offset == 7 || len(shape) == 0 {
						emit(m.seeded(m.random(seed, offset, shape)))
					}
				}
			}
		}
	})
}

// seeded moves key and a part of the counter offset of a case to memory.
func (m *maker) seeded(c *testCase) *testCase {
	if c == nil {
		return nil
	}
	c.seed(0, 1)
	return c
}

// seed moves the key, one of the integers of the call, to memory, and a part of the counter offset, another one.
func (c *testCase) seed(key, offset int) {
	const shift = -1 << 40
	at := newTensor(dtype.Int64, contiguous, 2)
	at.values[0], at.values[1] = intValue(c.call.I[key]), intValue(shift)
	c.in = append(c.in, at)
	c.call.I[key], c.call.I[offset] = ^c.call.I[key], c.call.I[offset]-shift
}

func (m *maker) random(key, first int64, shape []int) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.call.I = ints8(key, first)
	c.call.F = floats8(-1, 3)
	if m.id == op.Uniform {
		c.call.F[2] = 3 - ulp(m.d, 3) // the largest below 3
		if first == 7 {               // few numbers, or one: many are rounded to the end
			c.call.F = floats8(1, 1+0x1p-7, 1+0x1p-7-ulp(m.d, 1))
		}
	}
	if m.id == op.Bernoulli {
		c.call.F = floats8(0.3)
	}
	c.out = []*tensor{newTensor(m.d, contiguous, shape...)}
	c.ulps = 4
	var a *tensor
	if m.id == op.Dropout {
		c.call.F = floats8(0.7, 1/0.7)
		a = newTensor(m.d, contiguous, shape...)
		a.fill(m.wild(m.d))
		c.in = []*tensor{a}
		c.alias = int(first & 1) // in place at every odd offset
	}
	want := make([]result, count(shape))
	for i := range want {
		u := uniformAt(m.d, key, first, i)
		switch m.id {
		case op.Uniform:
			f := c.call.F
			want[i] = scaled(min(f[0]+u*(f[1]-f[0]), f[2]), f[0], u*(f[1]-f[0]))
			want[i].most = f[2]
		case op.Bernoulli:
			want[i] = truth(u < 0.3)
		case op.Dropout:
			want[i] = result{value: value{f: a.values[i].f * float64(truth(u < 0.7).i) / 0.7}}
		case op.Normal:
			want[i] = scaled(-1+3*m.normalAt(key, first, i), 1, 3*6)
		}
	}
	c.want = [][]result{want}
	return c
}

func (m *maker) normalAt(key, first int64, i int) float64 {
	r := math.Sqrt(-2 * math.Log(1-uniformAt(m.d, key, first, i&^1)))
	angle := 2 * math.Pi * uniformAt(m.d, key, first, i|1)
	if i%2 == 0 {
		return r * math.Cos(angle)
	}
	return r * math.Sin(angle)
}
