//go:build linux && amd64

package fakecuda

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lanes runs PTX that makes a value of at most three others, for all of them at once: one warp, and a few lanes more. PTX sees its
// operands as a, b, c and its result as d, registers of the given types; values are their bits.
func (c *cu) lanes(types, code string, operands ...[]uint64) []uint64 {
	c.t.Helper()
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 n)\n{\n")
	b.WriteString(".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<16>;\n")
	names := strings.Fields(types)
	for i, t := range names {
		fmt.Fprintf(&b, ".reg .%s %s;\n", t, string("dabc"[i]))
	}
	b.WriteString("mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; setp.ge.u32 %p0, %r0, %r1; @%p0 ret;\n")
	b.WriteString("ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd1, %rd1, %rd2; mul.lo.s64 %rd2, %rd2, 3; add.s64 %rd0, %rd0, %rd2;\n")
	width := func(t string) string { return "u" + t[1:] }
	for i, t := range names[1:] {
		fmt.Fprintf(&b, "ld.global.%s %c, [%%rd0+%d];\n", width(t), "abc"[i], 8*i)
	}
	fmt.Fprintf(&b, "%s\nst.global.%s [%%rd1], d;\nret;\n}\n", code, width(names[0]))
	n := len(operands[0])
	in := make([]uint64, 3*n)
	for i := range n {
		for k := range operands {
			in[3*i+k] = operands[k][i]
		}
	}
	var f uintptr
	out := upload(c, make([]uint64, n))
	c.ok(c.ModuleFunction(&f, c.module(b.String()), "k"))
	c.ok(c.try(f, dim{1, 1, 1}, dim{uint32(n+31) / 32 * 32, 1, 1}, 0, 0, upload(c, in), out, uint32(n)))
	c.ok(c.CtxSynchronize())
	return download[uint64](c, out, n)
}

// onInterpreter starts a driver that runs PTX.
func onInterpreter(t *testing.T) *cu {
	c := start(t)
	c.interpreter = true
	c.lib.Set("ptx", "1")
	c.lib.Set("races", "1")
	return c
}

// all pairs of two lists, as operands.
func pairs(v []uint64) (a, b []uint64) {
	for _, x := range v {
		for _, y := range v {
			a, b = append(a, x), append(b, y)
		}
	}
	return a, b
}

func f32(x float32) uint64 { return uint64(math.Float32bits(x)) }
func f64(x float64) uint64 { return math.Float64bits(x) }

var (
	words32  = []uint64{0, 1, 2, 7, 31, 32, 33, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x12345678}
	words64  = []uint64{0, 1, 3, 63, 64, 65, 1<<63 - 1, 1 << 63, math.MaxUint64, 0x123456789abcdef0}
	floats32 = []uint64{f32(0), 0x80000000, f32(1), f32(-2.5), 1, 0x80000001, 0x007fffff, f32(math.MaxFloat32), 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345}
	floats64 = []uint64{f64(0), 1 << 63, f64(1), f64(-2.5), 1, f64(math.MaxFloat64), f64(math.Inf(1)), f64(math.Inf(-1)), f64(math.NaN()), 0xfff8000000000123}
)

// canonical32 is what a GPU writes for a float32.
func canonical32(x float32) uint64 {
	if x != x {
		return 0x7fffffff
	}
	return f32(x)
}

func canonical64(x float64) uint64 {
	if x != x {
		return 0x7fffffffffffffff
	}
	return f64(x)
}

func of32(b uint64) float32 { return math.Float32frombits(uint32(b)) }
func of64(b uint64) float64 { return math.Float64frombits(b) }

// fma32 rounds once: the product of two float32 is exact in float64, and the sum of that with a float32 is rounded to odd there.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if math.IsInf(s, 0) || s != s || p == 0 || c == 0 {
		return float32(s)
	}
	t := s - p
	if err := (p - (s - t)) + (c - t); err != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), err))
	}
	return float32(s)
}

func TestInterpreter_ArithmeticOfTwoOperands(t *testing.T) {
	type b = uint64
	shift := func(s, x b, width uint) b { // PTX: a count beyond the register shifts all out
		if s >= b(width) {
			return 0
		}
		return x << s
	}
	for _, test := range []struct {
		types, code string
		values      []b
		want        func(x, y b) b
	}{
		{"b32 b32 b32", "add.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(x + y)) }},
		{"b32 b32 b32", "sub.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(x - y)) }},
		{"b32 b32 b32", "mul.lo.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(x * y)) }},
		{"b32 b32 b32", "mul.hi.u32 d, a, b;", words32, func(x, y b) b { return x * y >> 32 }},
		{"b32 b32 b32", "mul.hi.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(int64(int32(x)) * int64(int32(y)) >> 32)) }},
		{"b64 b32 b32", "mul.wide.s32 d, a, b;", words32, func(x, y b) b { return b(int64(int32(x)) * int64(int32(y))) }},
		{"b64 b32 b32", "mul.wide.u32 d, a, b;", words32, func(x, y b) b { return x * y }},
		{"b32 b32 b32", "min.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(min(int32(x), int32(y)))) }},
		{"b32 b32 b32", "max.u32 d, a, b;", words32, func(x, y b) b { return max(x, y) }},
		{"b32 b32 b32", "shl.b32 d, a, b;", words32, func(x, y b) b { return b(uint32(shift(y, x, 32))) }},
		{"b32 b32 b32", "shr.u32 d, a, b;", words32, func(x, y b) b { return x >> y }},
		{"b32 b32 b32", "shr.s32 d, a, b;", words32, func(x, y b) b { return b(uint32(int32(x) >> min(y, 31))) }},
		{"b32 b32 b32", "xor.b32 d, a, b;", words32, func(x, y b) b { return x ^ y }},
		{"b64 b64 b64", "mul.lo.s64 d, a, b;", words64, func(x, y b) b { return x * y }},
		{"b64 b64 b64", "max.s64 d, a, b;", words64, func(x, y b) b { return b(max(int64(x), int64(y))) }},
		{"b32 b32 b32", "setp.lt.s32 %p1, a, b; selp.b32 d, 1, 0, %p1;", words32, func(x, y b) b { return one(int32(x) < int32(y)) }},
		{"b32 b32 b32", "setp.hs.u32 %p1, a, b; selp.b32 d, 1, 0, %p1;", words32, func(x, y b) b { return one(x >= y) }},
		{"f32 f32 f32", "add.rn.f32 d, a, b;", floats32, func(x, y b) b { return canonical32(of32(x) + of32(y)) }},
		{"f32 f32 f32", "sub.rn.f32 d, a, b;", floats32, func(x, y b) b { return canonical32(of32(x) - of32(y)) }},
		{"f32 f32 f32", "mul.rn.f32 d, a, b;", floats32, func(x, y b) b { return canonical32(of32(x) * of32(y)) }},
		{"f32 f32 f32", "div.rn.f32 d, a, b;", floats32, func(x, y b) b { return canonical32(of32(x) / of32(y)) }},
		{"f32 f32 f32", "fma.rn.f32 d, a, b, b;", floats32, func(x, y b) b { return canonical32(fma32(of32(x), of32(y), of32(y))) }},
		{"f64 f64 f64", "fma.rn.f64 d, a, b, a;", floats64, func(x, y b) b { return canonical64(math.FMA(of64(x), of64(y), of64(x))) }},
		{"f64 f64 f64", "div.rn.f64 d, a, b;", floats64, func(x, y b) b { return canonical64(of64(x) / of64(y)) }},
		{"b32 f32 f32", "setp.lt.f32 %p1, a, b; selp.b32 d, 1, 0, %p1;", floats32, func(x, y b) b { return one(of32(x) < of32(y)) }},
		{"b32 f32 f32", "setp.geu.f32 %p1, a, b; selp.b32 d, 1, 0, %p1;", floats32, func(x, y b) b { return one(!(of32(x) < of32(y))) }},
		{"b32 f32 f32", "setp.equ.f32 %p1, a, b; selp.b32 d, 1, 0, %p1;", floats32, func(x, y b) b { return one(of32(x) == of32(y) || of32(x) != of32(x) || of32(y) != of32(y)) }},
		{"b32 f32 f32", "setp.ne.f32 %p1, a, b; selp.b32 d, 1, 0, %p1;", floats32, func(x, y b) b { return one(of32(x) < of32(y) || of32(x) > of32(y)) }},
		{"b32 f32 f32", "setp.nan.f32 %p1, a, b; selp.b32 d, 1, 0, %p1;", floats32, func(x, y b) b { return one(of32(x) != of32(x) || of32(y) != of32(y)) }},
		{"b32 f32 f32", "setp.num.f32 %p1, a, b; not.pred %p2, %p1; selp.b32 d, 1, 0, %p2;", floats32, func(x, y b) b { return one(of32(x) != of32(x) || of32(y) != of32(y)) }},
		{"f32 f32 f32", "max.NaN.f32 d, a, b;", floats32, func(x, y b) b {
			if of32(x) != of32(x) || of32(y) != of32(y) {
				return 0x7fffffff
			}
			return maxNumber(x, y)
		}},
		{"f32 f32 f32", "max.f32 d, a, b;", floats32, func(x, y b) b { return maxNumber(x, y) }},
	} {
		t.Run(test.code, func(t *testing.T) {
			c := onInterpreter(t)
			x, y := pairs(test.values)
			got := c.lanes(test.types, test.code, x, y)
			for i := range got {
				require.Equal(t, test.want(x[i], y[i]), got[i], "%#x, %#x", x[i], y[i])
			}
		})
	}
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// maxNumber is the larger one; a number if one of the two is; +0 is larger than -0.
func maxNumber(x, y uint64) uint64 {
	a, b := of32(x), of32(y)
	switch {
	case a != a && b != b:
		return 0x7fffffff
	case a != a:
		return y
	case b != b:
		return x
	case a == b:
		return x & y // only zeros differ
	case a > b:
		return x
	}
	return y
}

func TestInterpreter_OperationsOnBits(t *testing.T) {
	c := onInterpreter(t)
	values := []uint64{0, 0x80000000, 0x12345678, 0xffffffff, 0x00f0}
	got := c.lanes("b32 b32", "bfe.u32 d, a, 4, 8;", values)
	require.Equal(t, []uint64{0, 0, 0x67, 0xff, 0xf}, got)
	got = c.lanes("b32 b32", "bfe.s32 d, a, 4, 4;", values)
	require.Equal(t, []uint64{0, 0, 7, 0xffffffff, 0xffffffff}, got)
	got = c.lanes("b32 b32", "bfe.u32 d, a, 28, 8;", values)
	require.Equal(t, []uint64{0, 8, 1, 15, 0}, got)
	got = c.lanes("b32 b32", "bfi.b32 d, 3, a, 8, 4;", values)
	require.Equal(t, []uint64{0x300, 0x80000300, 0x12345378, 0xfffff3ff, 0x3f0}, got)
	got = c.lanes("b32 b32", "clz.b32 d, a;", values)
	require.Equal(t, []uint64{32, 0, 3, 0, 24}, got)
	got = c.lanes("b32 b32", "popc.b32 d, a;", values)
	require.Equal(t, []uint64{0, 1, 13, 32, 4}, got)
	got = c.lanes("b32 b32", "prmt.b32 d, a, 0x0a0b0c0d, 0x4150;", values)
	require.Equal(t, []uint64{0x0d000c00, 0x0d000c00, 0x0d560c78, 0x0dff0cff, 0x0d000cf0}, got)
	got = c.lanes("b32 b32", "shf.l.wrap.b32 d, a, a, 36;", values)
	require.Equal(t, []uint64{0, 8, 0x23456781, 0xffffffff, 0xf00}, got)
	got = c.lanes("b32 b32", "lop3.b32 d, a, 0x0ff0, 0xffff0000, 0xd8;", values) // c ? b : a would be 0xca; this is a & ~b | b & c
	for i, x := range values {
		want := uint32(0)
		for bit := range 32 {
			k := uint32(x)>>bit&1<<2 | 0x0ff0>>bit&1<<1 | 0xffff0000>>bit&1
			want |= 0xd8 >> k & 1 << bit
		}
		require.Equal(t, uint64(want), got[i])
	}
}

func TestInterpreter_Conversions(t *testing.T) {
	c := onInterpreter(t)
	x := []uint64{f32(0), f32(2.5), f32(-2.5), f32(3.5), f32(1e10), f32(-1e10), 0x7f800000, 0xff800000, 0x7fc00000, f32(0.99)}
	signed := func(v ...int32) []uint64 {
		out := make([]uint64, len(v))
		for i := range v {
			out[i] = uint64(uint32(v[i]))
		}
		return out
	}
	require.Equal(t, signed(0, 2, -2, 3, math.MaxInt32, math.MinInt32, math.MaxInt32, math.MinInt32, 0, 0), c.lanes("b32 f32", "cvt.rzi.s32.f32 d, a;", x))
	require.Equal(t, signed(0, 2, -2, 4, math.MaxInt32, math.MinInt32, math.MaxInt32, math.MinInt32, 0, 1), c.lanes("b32 f32", "cvt.rni.s32.f32 d, a;", x))
	require.Equal(t, []uint64{0, 2, 0, 3, 0xffffffff, 0, 0xffffffff, 0, 0, 0}, c.lanes("b32 f32", "cvt.rzi.u32.f32 d, a;", x))
	require.Equal(t, uint64(1)<<63, c.lanes("b64 f32", "cvt.rzi.s64.f32 d, a;", x)[8], "not a number")
	require.Equal(t, f32(-3), c.lanes("f32 f32", "cvt.rmi.f32.f32 d, a;", x)[2])
	require.Equal(t, f32(-2), c.lanes("f32 f32", "cvt.rpi.f32.f32 d, a;", x)[2])
	n := []uint64{0, 16777217, math.MaxUint64, 1 << 63, 16777219}
	require.Equal(t, []uint64{f32(0), f32(16777216), f32(18446744073709551616), f32(9223372036854775808), f32(16777220)}, c.lanes("f32 b64", "cvt.rn.f32.u64 d, a;", n))
	require.Equal(t, f32(-9223372036854775808), c.lanes("f32 b64", "cvt.rn.f32.s64 d, a;", n)[3])
	// Twice rounded these would be one off: through float32 both lie in the middle of two halves.
	d := []uint64{f64(1 + 0x1p-11 + 0x1p-40), f64(1 + 3*0x1p-11 - 0x1p-40), f64(65519.99), f64(65520), f64(math.NaN())}
	require.Equal(t, []uint64{0x3c01, 0x3c01, 0x7bff, 0x7c00, 0x7fff}, c.lanes("b16 f64", "cvt.rn.f16.f64 d, a;", d))
	require.Equal(t, []uint64{0x3f80, 0x3f80, 0x4780, 0x4780, 0x7fff}, c.lanes("b16 f64", "cvt.rn.bf16.f64 d, a;", d))
	require.Equal(t, signed(-1, 127, -128), c.lanes("b32 b16", "cvt.s32.s16 d, a;", []uint64{0xffff, 127, 0xff80}))
}

// Every half precision value, both ways, in the interpreter's own instructions.
func TestInterpreter_ConvertsEveryHalf(t *testing.T) {
	c := onInterpreter(t)
	for from := 0; from < 1<<16; from += 1024 {
		bits := make([]uint64, 1024)
		for i := range bits {
			bits[i] = uint64(from + i)
		}
		values := c.lanes("f32 b16", "cvt.f32.f16 d, a;", bits)
		back := c.lanes("b16 f32", "cvt.rn.f16.f32 d, a;", values)
		brains := c.lanes("b16 f32", "cvt.rn.bf16.f32 d, a;", shifted(bits))
		for i, b := range bits {
			want := halfValue(uint16(b)) // of what is not a number only that is defined
			require.Equal(t, canonical32(want), canonical32(of32(values[i])), "%#x", b)
			require.Equal(t, uint64(canonical(uint16(b), 0x7c00)), back[i], "%#x", b)
			require.Equal(t, uint64(canonical(uint16(b), 0x7f80)), brains[i], "%#x", b)
		}
	}
}

// What the manual says of its error is all that kernels may rely on: here it does err.
func TestInterpreter_ApproximatesAsBadlyAsItMay(t *testing.T) {
	c := onInterpreter(t)
	x := []uint64{f32(0), 0x80000000, 0x7f800000, 0x7fc00000, 1, f32(0x1p127)}
	require.Equal(t, []uint64{0x7f800000, 0xff800000, 0, 0x7fffffff, 0x7f800000, 0}, c.lanes("f32 f32", "rcp.approx.ftz.f32 d, a;", x))
	x = make([]uint64, 1000)
	for i := range x {
		x[i] = f32(1 + float32(i)/7)
	}
	off := map[int32]int{}
	for i, r := range c.lanes("f32 f32", "rcp.approx.ftz.f32 d, a;", x) {
		off[int32(r)-int32(f32(1/of32(x[i])))]++
	}
	require.Len(t, off, 3)
	for _, by := range []int32{-1, 0, 1} {
		require.Greater(t, off[by], 200, by)
	}
}

func shifted(v []uint64) []uint64 {
	out := make([]uint64, len(v))
	for i := range v {
		out[i] = v[i] << 16
	}
	return out
}
