//go:build linux && amd64

package fakecuda

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// halves16 are the values of all 16-bit floats of both kinds, by their bits.
func halves16() (f16s, bf16s []float32) {
	f16s, bf16s = make([]float32, 1<<16), make([]float32, 1<<16)
	for i := range f16s {
		f16s[i], bf16s[i] = halfValue(uint16(i)), math.Float32frombits(uint32(i)<<16)
	}
	return f16s, bf16s
}

// A pair has the first operand in its upper half, as the manual says, and rounds like one conversion does.
func TestInterpreter_RoundsTwoFloatsToAPairOfHalves(t *testing.T) {
	f16s, bf16s := halves16()
	values := append([]uint64{
		f32(65519.99), f32(65520), f32(0x1p-25), f32(0x1.8p-24), f32(1 + 0x1p-11), f32(1 + 3*0x1p-11), f32(1 + 0x1p-8), f32(1 + 3*0x1p-8), 0x7f7fffff,
	}, floats32...)
	x, y := pairs(values)
	for code, table := range map[string][]float32{"cvt.rn.f16x2.f32 d, a, b;": f16s, "cvt.rn.bf16x2.f32 d, a, b;": bf16s} {
		t.Run(code, func(t *testing.T) {
			got := onInterpreter(t).lanes("b32 f32 f32", code, x, y)
			for i := range got {
				want := uint64(nearest(of32(x[i]), table))<<16 | uint64(nearest(of32(y[i]), table))
				require.Equal(t, want, got[i], "%g, %g", of32(x[i]), of32(y[i]))
			}
		})
	}
}

// 2^x errs by as much as the manual says that it may, on both sides; what it makes of special values is exact.
func TestInterpreter_PowersOfTwoAreAsBadAsTheyMayBe(t *testing.T) {
	c := onInterpreter(t)
	const code = "ex2.approx.ftz.f32 d, a;"
	special := []uint64{f32(0), 0x80000000, 1, 0x80000001, 0x7f800000, 0xff800000, 0x7fc00000, f32(-127), f32(-1000), f32(129)}
	require.Equal(t, []uint64{f32(1), f32(1), f32(1), f32(1), 0x7f800000, 0, 0x7fffffff, 0, 0, 0x7f800000}, c.lanes("f32 f32", code, special))
	x := make([]uint64, 1000)
	for i := range x {
		x[i] = f32(float32(i)/4.1 - 121)
	}
	var below, above int
	for i, bits := range c.lanes("f32 f32", code, x) {
		exact := math.Exp2(float64(of32(x[i])))
		off := (float64(of32(bits)) - exact) / exact
		require.LessOrEqual(t, math.Abs(off), 0x1p-22, "2^%g", of32(x[i]))
		if off < -0x1p-23 {
			below++
		}
		if off > 0x1p-23 {
			above++
		}
	}
	require.Greater(t, below, 200)
	require.Greater(t, above, 200)
}

// Addresses of copies and of ldmatrix may be a number of bytes beyond a register; they must be multiples of 16 all the same.
func TestInterpreter_CopiesAndMatricesAtADisplacement(t *testing.T) {
	const code = `mov.u64 %rd6, shared; cvt.u32.u64 %r1, %rd6; mul.lo.u32 %r2, %r0, 16; and.b32 %r2, %r2, 127; add.s32 %r3, %r1, %r2;
	cvt.u64.u32 %rd7, %r2; add.s64 %rd7, %rd0, %rd7;
	setp.lt.u32 %p1, %r0, 8;
	@%p1 cp.async.cg.shared.global [%r3+128], [%rd7+FROM], 16, 16;
	cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
	ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3+AT];
	st.global.u32 [%rd8], %r4;`
	of := func(from, at string) string {
		return "add.s64 %rd8, %rd1, %rd2; " + strings.NewReplacer("FROM", from, "AT", at).Replace(code)
	}
	words := make([]uint32, 64)
	for i := range words {
		words[i] = uint32(1000 + i)
	}
	c := onInterpreter(t)
	out := c.alloc(128)
	c.ok(c.try(c.kernel(of("32", "128")), dim{1, 1, 1}, dim{32, 1, 1}, 0, 0, upload(c, words), out))
	c.ok(c.CtxSynchronize())
	require.Equal(t, words[8:40], download[uint32](c, out, 32), "matrices of 8 rows of 16 bytes, lane by lane")
	for name, code := range map[string]string{"copy": of("8", "128"), "matrix": of("16", "136")} {
		t.Run(name, func(t *testing.T) {
			c := onInterpreter(t)
			c.stops(716, c.kernel(code), 32, []any{upload(c, words), c.alloc(128)}, "is not a multiple of 16")
		})
	}
}
