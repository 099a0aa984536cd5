package tensor_test

import (
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestGenerator_TheSameStateGivesTheSameNumbers(t *testing.T) {
	for _, set := range settings {
		t.Run(set.name, func(t *testing.T) {
			b := set.bench(t)
			gen := tensor.NewGenerator(42)
			first := values(t, must(t)(tensor.RandN(b.Exec, gen, tensor.Float32, 10)))
			state := gen.State()
			require.Equal(t, tensor.GeneratorState{Seed: 42, Offset: 3}, state, "10 words are 3 blocks of 4")
			second := values(t, must(t)(tensor.RandN(b.Exec, gen, tensor.Float32, 10)))
			require.NotEqual(t, first, second)
			gen.SetState(state)
			require.Equal(t, second, values(t, must(t)(tensor.RandN(b.Exec, gen, tensor.Float32, 10))))
			again := tensor.NewGenerator(42)
			require.Equal(t, first, values(t, must(t)(tensor.RandN(b.Exec, again, tensor.Float32, 2, 5))))
			other := tensor.NewGenerator(43)
			require.NotEqual(t, first, values(t, must(t)(tensor.RandN(b.Exec, other, tensor.Float32, 10))))
		})
	}
}

func TestGenerator_UsesByGoroutinesDoNotShareBlocks(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(1)
	var wg sync.WaitGroup
	parts := make(tensors, 8)
	for i := range parts {
		wg.Go(func() { parts[i], _ = tensor.Rand(b.Exec, gen, tensor.Float64, 101) })
	}
	wg.Wait()
	var all []float64
	for _, p := range parts {
		all = append(all, values(t, must(t)(p, nil))...)
	}
	require.EqualValues(t, 8*26, gen.State().Offset)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), 8*101, "a number was drawn twice")
}

// moments are mean and standard deviation.
func moments(v []float64) (mean, std float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std)
}

func TestRandom_HasTheRightDistribution(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(5)
	const n = 20000
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		u := values(t, must(t)(tensor.Uniform(b.Exec, gen, -1, 3, dt, n)))
		mean, std := moments(u)
		require.InDelta(t, 1, mean, 0.05)
		require.InDelta(t, 4/math.Sqrt(12), std, 0.05)
		require.GreaterOrEqual(t, slices.Min(u), -1.0)
		mean, std = moments(values(t, must(t)(tensor.Normal(b.Exec, gen, 2, 0.5, dt, n))))
		require.InDelta(t, 2, mean, 0.02)
		require.InDelta(t, 0.5, std, 0.02)
		mean, _ = moments(values(t, must(t)(tensor.Bernoulli(b.Exec, gen, 0.3, dt, n))))
		require.InDelta(t, 0.3, mean, 0.02)
		u = values(t, must(t)(tensor.Rand(b.Exec, gen, dt, n)))
		require.Less(t, slices.Max(u), 1.0+1e-9)
		mean, std = moments(values(t, must(t)(tensor.RandN(b.Exec, gen, dt, n))))
		require.InDelta(t, 0, mean, 0.03)
		require.InDelta(t, 1, std, 0.03)
	}
	mean, _ := moments(values(t, must(t)(tensor.Bernoulli(b.Exec, gen, 0.3, tensor.Bool, n))))
	require.InDelta(t, 0.3, mean, 0.02)
	require.Equal(t, []float64{1, 1, 1}, values(t, must(t)(tensor.Bernoulli(b.Exec, gen, 1, tensor.Bool, 3))))
}

// uniformRanges are ranges that the types hold; in the last ones there are few numbers, or one, of narrow types.
var uniformRanges = [][2]float64{{0, 1}, {-1, 3}, {-3, -1}, {-1, 0}, {0.1, 0.3}, {1, 1 + 0x1p-22}, {1, 1.0000001}, {-2, -1.99}, {0, 0x1p-24}, {5, 5}, {-30000, 30000},
	{2049, 2051}, {257, 258}, {0, 0.1}}

func TestUniform_IsInItsRange(t *testing.T) {
	b := onHost(t)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		for _, r := range uniformRanges {
			edges := values(t, must(t)(must(t)(tensor.FromSlice(b.Exec, r[:], 2)).To(dt)))
			u := values(t, must(t)(tensor.Uniform(b.Exec, tensor.NewGenerator(5), r[0], r[1], dt, 5000)))
			require.GreaterOrEqual(t, slices.Min(u), edges[0], "%s %v", dt, r)
			if edges[0] == edges[1] {
				require.Equal(t, edges[0], slices.Max(u), "%s %v", dt, r)
			} else {
				require.Less(t, slices.Max(u), edges[1], "%s %v", dt, r)
			}
		}
	}
}

// torch.empty(n, dtype=torch.float16).uniform_(2049, 2051) has 2048, 2050 and 2052.
func TestUniform_RoundsItsBoundsToTheType(t *testing.T) {
	b := onHost(t)
	for dt, want := range map[tensor.DType][]float64{tensor.Float16: {2048, 2050}, tensor.BFloat16: {2048}, tensor.Float64: {2049, 2050}} {
		u := values(t, must(t)(tensor.Uniform(b.Exec, tensor.NewGenerator(5), 2049, 2051, dt, 5000)))
		found := map[float64]bool{}
		for _, v := range u {
			found[math.Floor(v)] = true
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(found)), "%s", dt)
	}
}

func TestUniform_RefusesRangesBeyondTheType(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(1)
	for _, c := range []struct {
		lo, hi float64
		dt     tensor.DType
	}{
		{0, 65505, tensor.Float16}, {-70000, 0, tensor.Float16}, {-40000, 40000, tensor.Float16}, {0, 1e39, tensor.Float32}, {-3e38, 3e38, tensor.Float32},
		{0, 3.4e38, tensor.BFloat16}, {-1e308, 1e308, tensor.Float64}, {math.Inf(-1), 0, tensor.Float64}, {0, math.Inf(1), tensor.Float32}, {math.NaN(), 1, tensor.Float32},
	} {
		_, err := tensor.Uniform(b.Exec, gen, c.lo, c.hi, c.dt, 3)
		var value *tensor.ValueError
		require.ErrorAs(t, err, &value, "%v", c)
		require.ErrorContains(t, err, "Uniform")
	}
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32} {
		u := values(t, must(t)(tensor.Uniform(b.Exec, gen, -32752, 32752, dt, 100)))
		require.Less(t, slices.Max(u), 32752.0)
	}
	require.Less(t, slices.Max(values(t, must(t)(tensor.Uniform(b.Exec, gen, 0, 65504, tensor.Float16, 100)))), 65504.0)
}

func TestRandom_RefusesWrongArguments(t *testing.T) {
	b := onHost(t)
	gen := tensor.NewGenerator(1)
	var value *tensor.ValueError
	var dtype *tensor.DTypeError
	_, err := tensor.Rand(b.Exec, nil, tensor.Float32, 2)
	require.ErrorAs(t, err, &value)
	_, err = tensor.Uniform(b.Exec, gen, 2, 1, tensor.Float32, 2)
	require.ErrorAs(t, err, &value)
	_, err = tensor.Normal(b.Exec, gen, 0, math.NaN(), tensor.Float32, 2)
	require.ErrorAs(t, err, &value)
	_, err = tensor.Bernoulli(b.Exec, gen, 1.5, tensor.Float32, 2)
	require.ErrorAs(t, err, &value)
	_, err = tensor.Rand(b.Exec, gen, tensor.Int64, 2)
	require.ErrorAs(t, err, &dtype)
	_, err = tensor.RandN(b.Exec, gen, tensor.Bool, 2)
	require.ErrorAs(t, err, &dtype)
	require.Zero(t, gen.State().Offset, "a refused call consumes nothing")
}

func TestRandPerm_IsAPermutationOfTheGenerator(t *testing.T) {
	gen := tensor.NewGenerator(9)
	p := permutation(t, gen, 1000)
	require.EqualValues(t, 500, gen.State().Offset)
	q := permutation(t, gen, 1000)
	require.NotEqual(t, p, q)
	require.Equal(t, p, permutation(t, tensor.NewGenerator(9), 1000))
	slices.Sort(q)
	for i, v := range q {
		require.EqualValues(t, i, v)
	}
	require.Empty(t, permutation(t, gen, 0))
	require.Equal(t, []int64{0}, permutation(t, gen, 1))

	// Each of the six orders of three appears equally often.
	counts := map[[3]int64]int{}
	for range 6000 {
		v := permutation(t, gen, 3)
		counts[[3]int64(v)]++
	}
	require.Len(t, counts, 6)
	for order, n := range counts {
		require.InDelta(t, 1000, n, 150, "%v", order)
	}
}

func permutation(t *testing.T, gen *tensor.Generator, n int) []int64 {
	t.Helper()
	p, err := tensor.RandPerm(gen, n)
	require.NoError(t, err)
	return p
}

func TestRandPerm_RefusesWhatGoCannotHold(t *testing.T) {
	var bad *tensor.ValueError
	for _, n := range []int{-1, 1 << 31, math.MaxInt} {
		_, err := tensor.RandPerm(tensor.NewGenerator(1), n)
		require.ErrorAs(t, err, &bad, n)
	}
	_, err := tensor.RandPerm(nil, 3)
	require.ErrorAs(t, err, &bad)
}
