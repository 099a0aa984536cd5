package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels/op"
)

// functionSet is a way to compute functions: the loops of an instruction set, or nil if this processor has none of them.
type functionSet struct {
	name string
	take func(v *vectorLoops)
}

// forFunctionSets runs a test with Go loops, and with each instruction set.
func forFunctionSets(t *testing.T, test func(t *testing.T)) {
	saved := vector
	defer func() { vector = saved }()
	sets := append([]functionSet{{"Go", func(v *vectorLoops) { v.functions, v.masked, v.expSum = false, false, nil }}}, functionSets()...)
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			if set.take == nil {
				t.Skipf("THIS PROCESSOR HAS NO %s: its functions are not tested", set.name)
			}
			vector = saved
			set.take(&vector)
			test(t)
		})
	}
}

// samples are numbers as functions meet them, and others.
func samples(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		switch rng.IntN(4) {
		case 0:
			v[i] = math.Float32frombits(rng.Uint32())
		case 1:
			v[i] = rng.Float32()
		default:
			v[i] = float32(4 * rng.NormFloat64())
		}
	}
	return v
}

func lengths() (list []int) {
	for n := range 41 {
		list = append(list, n)
	}
	return list
}

// specials are numbers at which functions bend, and the ends of those that there are.
var specials = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 3, -3, 6, 1e-40, -1e-40, 0x1p-149, 0x1p-1074, -0x1p-1074, 1e38, -1e38, math.MaxFloat32, -math.MaxFloat32,
	88.72284, -104, 710, -746, math.Inf(1), math.Inf(-1), math.NaN(), 0.99999994, 1.0000001, -math.Ln2, 0.75, -0.75, 1e-20, -1e20}

// bitsCount is how many elements whole slices have: the last vectors are not full.
const bitsCount = 1<<12 + 5

// bitsInputs are three inputs: all pairs of special numbers, and samples.
func bitsInputs[T float32 | float64](sample func(seed uint64) []T) (in [3][]T) {
	for k := range in {
		in[k] = sample(uint64(k + 1))
	}
	for i := range len(specials) * len(specials) {
		one, other := i%len(specials), i/len(specials)
		in[0][i], in[1][i], in[2][i] = T(specials[one]), T(specials[other]), T(specials[(one+5*other)%len(specials)])
	}
	return in
}

// sameBits says whether numbers have the same bits, or both are NaN.
func sameBits[T float32 | float64](a, b T) bool {
	return a == b && math.Signbit(float64(a)) == math.Signbit(float64(b)) || a != a && b != b
}

// requireFunction computes slices of all lengths from 0 to 70, and one long one, between guards, beside their inputs and in their place.
func requireFunction[T float32 | float64](t *testing.T, name string, in [3][]T, want []T, call func(dst, a, b, c []T)) {
	const guard, margin = 12345.678, 20
	memory := make([]T, len(want)+2*margin)
	check := func(n, offset, from int, inPlace bool) {
		all := memory[:n+2*margin]
		fillSlice(all, guard)
		first := margin - offset
		dst := all[first:][:n:n]
		a := in[0][from:][:n:n]
		if inPlace {
			copy(dst, a)
			a = dst
		}
		call(dst, a, in[1][from:][:n:n], in[2][from:][:n:n])
		for i, v := range dst {
			if w := want[from+i]; !sameBits(v, w) {
				require.Failf(t, "different bits", "%s of %g, %g, %g is %g, in Go %g; element %d of %d, in place %v", name, in[0][from+i], in[1][from+i], in[2][from+i], v, w, i, n, inPlace)
			}
		}
		for i, v := range all {
			if v != guard && (i < first || i >= first+n) {
				require.Failf(t, "wrote beside", "%s of %d elements: element %d, in place %v", name, n, i-first, inPlace)
			}
		}
	}
	for n := range 71 {
		check(n, n%3, n*59%(len(want)-n), n%2 == 1)
		check(n, n%5, n*97%(len(want)-n), n%2 == 0)
	}
	check(len(want), 1, 0, false)
	check(len(want), 0, 0, true)
}

// TestFunctions_HaveTheSameBitsEverywhere compares assembly with Go, of every length and at every place.
func TestFunctions_HaveTheSameBitsEverywhere(t *testing.T) {
	scalars := &functionScalars{narrow: [4]float32{0.75, 1.5, 0.25, 5}, wide: [4]float64{2.5}}
	in := bitsInputs(func(seed uint64) []float32 { return samples(bitsCount, seed) })
	want := make([][]float32, functionCount)
	for f := range functionID(functionCount) {
		want[f] = make([]float32, bitsCount)
		plainFunction(f, want[f], in[0], in[1], in[2], scalars)
	}
	forFunctionSets(t, func(t *testing.T) {
		for f := range functionID(functionCount) {
			if f != fnNormals && vector.functions {
				requireFunction(t, functionNames[f], in, want[f], func(dst, a, b, c []float32) { apply(f, dst, a, b, c, scalars) })
			}
		}
	})
}

func TestWideFunctions_HaveTheSameBitsEverywhere(t *testing.T) {
	in := bitsInputs(func(seed uint64) []float64 {
		v := make([]float64, bitsCount)
		wideSamples(rand.New(rand.NewPCG(seed, 4)), v, math.Inf(-1), math.Inf(1))
		return v
	})
	want := make([][]float64, wideFunctionCount)
	for f := range wideFunctionID(wideFunctionCount) {
		want[f] = make([]float64, bitsCount)
		plainWideFunction(f, want[f], in[0], in[1], in[2], nil)
	}
	forFunctionSets(t, func(t *testing.T) {
		for f := range wideFunctionID(wideFunctionCount) {
			requireFunction(t, wideFunctionNames[f], in, want[f], func(dst, a, b, c []float64) { applyWide(f, dst, a, b, c, nil) })
		}
	})
}

// TestNormals_HaveTheSameBitsEverywhere is that of normal numbers, which come in pairs, of whole blocks of random words.
func TestNormals_HaveTheSameBitsEverywhere(t *testing.T) {
	const guard = 12345.678
	rng := rand.New(rand.NewPCG(5, 6))
	words := make([]float32, 2048)
	for i := range words {
		words[i] = math.Float32frombits(rng.Uint32())
	}
	words[0], words[2], words[5] = 0, math.Float32frombits(math.MaxUint32), math.Float32frombits(math.MaxUint32)
	want := make([]float32, len(words))
	call := &op.Call{F: [8]float64{0.5, 1.5}}
	plainFunction(fnNormals, want, words, nil, nil, &functionScalars{narrow: [4]float32{0.5, 1.5}})
	forFunctionSets(t, func(t *testing.T) {
		for n := 4; n <= len(words); n += 4 {
			got := slices.Repeat([]float32{guard}, n+32)
			normalWords(got[:n:n], words[:n:n], call)
			for i, v := range got[:n] {
				require.True(t, sameBits(v, want[i]), "element %d of %d is %g, in Go %g", i, n, v, want[i])
			}
			for i, v := range got[n:] {
				require.True(t, v == guard, "wrote %g at %d of %d", v, n+i, n)
			}
			if n > 140 {
				n += 400
			}
		}
	})
}

// TestExpSum_HasTheSameBitsEverywhere compares sums and what is stored with those of Go.
func TestExpSum_HasTheSameBitsEverywhere(t *testing.T) {
	const guard = 12345.678
	rng := rand.New(rand.NewPCG(7, 8))
	v := make([]float32, rowGroup)
	for i := range v {
		v[i] = float32(20 * rng.NormFloat64())
	}
	saved := vector
	defer func() { vector = saved }()
	vector = vectorLoops{}
	want, sums := make([]float32, len(v)), make([]float64, len(v)+1)
	for n := range sums {
		sums[n] = expSumGroup32(want[:n], v[:n], 3)
	}
	vector = saved
	forFunctionSets(t, func(t *testing.T) {
		for n := 0; n < len(sums); n += 1 + n/71*13 {
			got := slices.Repeat([]float32{guard}, n+32)
			require.Equal(t, sums[n], expSumGroup32(got[:n:n], v[:n:n], 3), "the sum of %d", n)
			require.Equal(t, want[:n], got[:n])
			require.Equal(t, slices.Repeat([]float32{guard}, 32), got[n:], "wrote beside %d elements", n)
		}
	})
}
