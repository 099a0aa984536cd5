package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// wild are numbers of a type: all sizes, with NaN, infinities and zeros of floats, and the ends of integers.
func wild[T number](n int, seed uint64) []T {
	rng := rand.New(rand.NewPCG(seed, 2))
	special := []T{0, 1, lowest[T](), highest[T]()}
	if isFloat[T]() {
		nan, half, zero := math.NaN(), 0.5, math.Copysign(0, -1)
		special = append(special, T(nan), T(half), T(zero))
	}
	v := onHeap[T](n)
	for i := range v {
		switch rng.IntN(4) {
		case 0:
			v[i] = special[rng.IntN(len(special))]
		case 1:
			v[i] = T(rng.Uint64())
		default:
			v[i] = T(rng.NormFloat64() * 50)
		}
	}
	return v
}

// requireBits compares all bits, but those of NaN.
func requireBits[T number](t *testing.T, want, got []T, name string) {
	t.Helper()
	for i := range want {
		same := want[i] == got[i] && math.Signbit(float64(want[i])) == math.Signbit(float64(got[i]))
		if !same && (want[i] == want[i] || got[i] == got[i]) {
			require.Failf(t, "different bits", "%s: element %d of %d is %v, in Go %v", name, i, len(want), got[i], want[i])
		}
	}
}

// kept is the memory that views were made of last, more than a call has operands: a view has an address, which keeps nothing from the garbage collector.
var kept struct {
	sync.Mutex
	last [16]any
	next int
}

func keep(v any) {
	kept.Lock()
	defer kept.Unlock()
	kept.last[kept.next%len(kept.last)] = v
	kept.next++
}

// onHeap is memory whose address stays: stacks move.
func onHeap[T any](n int) []T {
	v := make([]T, n)
	keep(v)
	return v
}

// straight is a view of elements that lie side by side.
func straight[T any](d dtype.DType, v []T) op.View {
	keep(v)
	w := op.View{Ptr: addressAt(&v[0]), DType: d, NDim: 1}
	w.Shape[0], w.Strides[0] = len(v), 1
	return w
}

// callRow runs an operation of the row of a type.
func callRow[D, A any](t *testing.T, id op.ID, to dtype.DType, dst []D, from dtype.DType, in ...[]A) {
	t.Helper()
	c := &op.Call{Op: id, Out: []op.View{straight(to, dst)}, F: [8]float64{1, 1}, I: [8]int64{1, 1}}
	if id == op.AddScalar || id == op.MulScalar || id == op.DivScalar {
		c.F[0], c.I[0] = -2.5, -3
	}
	for _, v := range in {
		c.In = append(c.In, straight(from, v))
	}
	for _, r := range allRows() {
		if r.Op == id {
			require.NoError(t, r.Funcs[from](c))
			return
		}
	}
	require.Fail(t, "no such row")
}

var allRows = sync.OnceValue(Rows)

// agrees compares an operation with vectors and without, of all lengths and at odd places, between guards, and in place.
func agrees[T number](t *testing.T, id op.ID, d dtype.DType, inputs int) {
	t.Helper()
	name := fmt.Sprintf("%s of %s", id, d)
	for _, n := range append(lengths()[1:], 100, 1000, 3000) {
		for at := range 3 {
			in := [][]T{wild[T](n+at, 1)[at:], wild[T](n+at, 2)[at:]}[:inputs]
			want, memory := onHeap[T](n), onHeap[T](n+at+16)
			fillSlice(memory, 7)
			got := memory[at:][:n:n]
			withoutVectors(func() { callRow(t, id, d, want, d, in...) })
			callRow(t, id, d, got, d, in...)
			requireBits(t, want, got, name)
			for i, v := range memory {
				require.True(t, v == 7 || i >= at && i < at+n, "%s wrote beside its %d elements", name, n)
			}
			callRow(t, id, d, in[0], d, in...)
			requireBits(t, want, in[0], name+" in place")
		}
	}
}

func agreeAll[T number](t *testing.T, d dtype.DType, two, one []op.ID) {
	for _, id := range two {
		agrees[T](t, id, d, 2)
	}
	for _, id := range one {
		agrees[T](t, id, d, 1)
	}
}

func TestWords_HaveTheBitsOfTheLoops(t *testing.T) {
	two, one := []op.ID{op.Add, op.Sub, op.Mul, op.Maximum, op.Minimum}, []op.ID{op.Neg, op.Abs, op.AddScalar, op.MulScalar}
	agreeAll[float64](t, dtype.Float64, append(two[:5:5], op.Div), append(one[:4:4], op.Sqrt, op.DivScalar))
	two = append(two, op.BitwiseAnd, op.BitwiseOr, op.BitwiseXor)
	agreeAll[int64](t, dtype.Int64, two, one)
	agreeAll[int32](t, dtype.Int32, two, one)
	agreeAll[uint8](t, dtype.Uint8, two, one)
}

// comparesAlike compares with vectors and without, also with one number for all, between guards.
func comparesAlike[T number](t *testing.T, d dtype.DType) {
	t.Helper()
	for _, id := range []op.ID{op.Eq, op.Ne, op.Lt, op.Le, op.Gt, op.Ge} {
		for _, n := range append(lengths()[1:], 64, 100, 1000, 3000) {
			at := n % 3
			a, b := wild[T](n+at, 1)[at:], wild[T](n+at, 2)[at:]
			copy(b, a[:n/3])
			for range 2 { // of all, then of one number
				want, memory := onHeap[uint8](n), onHeap[uint8](n+at+16)
				fillSlice(memory, 7)
				got := memory[at:][:n:n]
				withoutVectors(func() { callRow(t, id, dtype.Bool, want, d, a, b) })
				callRow(t, id, dtype.Bool, got, d, a, b)
				require.Equal(t, want, got, "%s of %s, %d elements", id, d, n)
				for i, v := range memory {
					require.True(t, v == 7 || i >= at && i < at+n, "%s of %s wrote beside its %d elements", id, d, n)
				}
				fillSlice(b, b[n/2])
			}
		}
	}
}

func TestComparisons_AreThoseOfTheLoops(t *testing.T) {
	comparesAlike[float32](t, dtype.Float32)
	comparesAlike[float64](t, dtype.Float64)
	comparesAlike[int64](t, dtype.Int64)
	comparesAlike[int32](t, dtype.Int32)
}

func findsNaN[T float](t *testing.T, d dtype.DType) {
	t.Helper()
	for _, n := range append(lengths()[1:], 100, 3000) {
		at := n % 3
		v, memory := wild[T](n+at, 1)[at:], onHeap[uint8](n+at+16)
		fillSlice(memory, 7)
		check := func() {
			callRow(t, op.IsNaN, dtype.Bool, memory[at:][:n:n], d, v)
			for i, b := range memory {
				if i < at || i >= at+n {
					require.EqualValues(t, 7, b, "%d elements", n)
				} else {
					require.Equal(t, truth(math.IsNaN(float64(v[i-at]))), b, "%v", v[i-at])
				}
			}
		}
		check()
		withoutVectors(check)
	}
}

func TestIsNaN_IsTrueOfNaNAlone(t *testing.T) {
	findsNaN[float32](t, dtype.Float32)
	findsNaN[float64](t, dtype.Float64)
}

func TestLogical_IsThatOfBools(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range append(lengths(), 1000) {
		a, b, dst := make([]uint8, n), make([]uint8, n), make([]uint8, n)
		for i := range a {
			a[i], b[i] = uint8(rng.IntN(2)), uint8(rng.IntN(2))
		}
		for name, c := range map[string]struct {
			f    kernel2[uint8, uint8, uint8]
			want func(a, b bool) bool
		}{
			"and": {and, func(a, b bool) bool { return a && b }}, "or": {or, func(a, b bool) bool { return a || b }}, "xor": {xor, func(a, b bool) bool { return a != b }},
			"alike":   {alike, func(a, b bool) bool { return a == b }},
			"negated": {func(dst, a, _ []uint8, c *op.Call) { negated(dst, a, c) }, func(a, _ bool) bool { return !a }},
		} {
			check := func() {
				c.f(dst, a, b, nil)
				for i := range dst {
					require.Equal(t, truth(c.want(a[i] != 0, b[i] != 0)), dst[i], "%s of %d bools", name, n)
				}
			}
			check()
			withoutVectors(check)
		}
	}
}

func castsAgree[D, A number](t *testing.T, to, from dtype.DType, numbers func(n int, seed uint64) []A) {
	t.Helper()
	for _, n := range append(lengths()[1:], 100, 1000, 3000) {
		for at := range 2 {
			in := numbers(n+at, 5)[at:]
			if from == dtype.Bool {
				for i := range in {
					in[i] = A(i * i / 3 & 1)
				}
			}
			want, memory := onHeap[D](n), onHeap[D](n+at+32)
			fillSlice(memory, 7)
			withoutVectors(func() { callRow(t, op.Cast, to, want, from, in) })
			callRow(t, op.Cast, to, memory[at:][:n:n], from, in)
			requireBits(t, want, memory[at:], fmt.Sprintf("%s to %s", from, to))
			for i, v := range memory {
				require.True(t, v == 7 || i >= at && i < at+n, "%s to %s wrote beside its %d elements", from, to, n)
			}
		}
	}
}

func castsFrom[A number](t *testing.T, from dtype.DType, numbers func(n int, seed uint64) []A) {
	castsAgree[float32](t, dtype.Float32, from, numbers)
	castsAgree[float64](t, dtype.Float64, from, numbers)
	castsAgree[int64](t, dtype.Int64, from, numbers)
	castsAgree[int32](t, dtype.Int32, from, numbers)
	castsAgree[uint8](t, dtype.Uint8, from, numbers)
	castsAgree[uint8](t, dtype.Bool, from, numbers)
}

// Also of numbers that no integer is, which vectors leave to the loops.
func TestCasts_HaveTheBitsOfTheLoops(t *testing.T) {
	castsFrom(t, dtype.Float32, wild[float32])
	castsFrom(t, dtype.Float64, wild[float64])
	castsFrom(t, dtype.Int64, wild[int64])
	castsFrom(t, dtype.Int32, wild[int32])
	castsFrom(t, dtype.Uint8, wild[uint8])
	castsFrom(t, dtype.Bool, wild[uint8])
	castsFrom(t, dtype.Float32, func(n int, seed uint64) []float32 {
		v := wild[float32](n, seed)
		for i := range v {
			if !(math.Abs(float64(v[i])) < 1<<31) {
				v[i] = float32(i)
			}
		}
		if n > 2500 {
			v[2000] = 0x1p31
		}
		return v
	})
}

func TestReductions_OfOtherTypesAreThoseOfTheLoops(t *testing.T) {
	for _, n := range append(lengths(), 255, 512, 1000, 5000) {
		whole, wide, narrow := wild[int64](n, 1), wild[float64](n, 2), samples(n, 3)
		for i := range wide {
			if wide[i] == 0 { // of which either sign may come out
				wide[i] = 1
			}
		}
		acc, products := wild[int64](n, 4), wild[float64](n, 5)
		run := func() (results []float64, sums []int64) {
			a, b, m, p := append([]int64(nil), acc...), append([]int64(nil), acc...), append([]float64(nil), products...), append([]float64(nil), products...)
			mergeIntegers(a, whole)
			mergeIntegers(b, wild[int32](n, 6))
			mergeMax(m, wide)
			floatProdReducer[float32]().merge(p, narrow)
			results = append(m, p...)
			return append(results, maxOf(math.Inf(-1), wide), minOf(math.Inf(1), wide), sumGroup(wide)), append(append(a, b...), foldIntegers(3, whole), foldIntegers(3, wild[uint8](n, 7)))
		}
		got, gotSums := run()
		withoutVectors(func() {
			want, wantSums := run()
			requireBits(t, want, got, "a reduction")
			require.Equal(t, wantSums, gotSums)
		})
	}
}

// TestRemainders_AreExact compares with the loops: of quotients that are whole, next to whole, large, and of numbers that have none.
func TestRemainders_AreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var a, b []float32
	for range 200_000 {
		y := float32(math.Ldexp(1+float64(rng.IntN(1<<23))*0x1p-23, rng.IntN(40)-20)) * float32(1-2*rng.IntN(2))
		x := y * float32(rng.IntN(1<<rng.IntN(26)))
		a, b = append(a, math.Float32frombits(math.Float32bits(x)+uint32(rng.IntN(3))-1), float32(rng.NormFloat64())), append(b, y, float32(rng.NormFloat64()))
	}
	a, b = append(a, samples(100_000, 1)...), append(b, samples(100_000, 2)...)
	for name, f := range map[string][2]kernel2[float32, float32, float32]{
		"fmod":         {remainder32(fnFmod, modOf), fmod[float32]},
		"remainder":    {remainder32(fnRemainder, remainderOf[float32]), remainder[float32]},
		"floor divide": {remainder32(fnFloorDivide, floorDivideOf[float32]), floorDivide[float32]},
	} {
		want, got := make([]float32, len(a)), append([]float32(nil), a...)
		f[1](want, a, b, nil)
		f[0](got, got, b, nil) // in place
		requireBits(t, want, got, name)
	}
}

// Running sums and products of four rows, of one, and across are the same.
func TestScans_OfFourRowsAreThoseOfOne(t *testing.T) {
	v := normalSamples(103)
	scansAlike(t, v, running[float32, float64, float32]{along: sumsAlong[float32, float64, float32], across: sumsAcross[float32, float64, float32], four: cumSumFour[float32, float64, float32]})
	scansAlike(t, v, running[float32, float64, float32]{start: 1, along: productsAlong[float32, float64, float32], across: productsAcross[float32, float64, float32], four: cumProdFour[float32]})
	scansAlike(t, wild[int64](103, 1), running[int64, int64, int64]{along: sumsAlong[int64, int64, int64], across: sumsAcross[int64, int64, int64], four: cumSumFour[int64, int64, int64]})
	scansAlike(t, wild[uint8](103, 1), running[uint8, int64, int64]{along: sumsAlong[uint8, int64, int64], across: sumsAcross[uint8, int64, int64], four: cumSumFour[uint8, int64, int64]})
}

func scansAlike[T, A, D number](t *testing.T, v []T, r running[T, A, D]) {
	n := len(v) - 3
	var four [4][]D
	for i := range four {
		four[i] = make([]D, n)
	}
	r.four(four[0], four[1], four[2], four[3], v[:n], v[1:][:n], v[2:][:n], v[3:][:n])
	for k, got := range four {
		row, want := v[k:][:n], make([]D, n)
		r.along(r.start, want, row)
		require.Equal(t, want, got)
		acc := []A{r.start}
		for i := range row {
			one := make([]D, 1)
			r.across(acc, one, row[i:i+1])
			require.Equal(t, want[i], one[0])
		}
	}
}
