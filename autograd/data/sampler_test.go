package data_test

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

type noSequence struct{}

func (noSequence) Len() int                        { return 3 }
func (noSequence) Order() (iter.Seq[int64], error) { return nil, nil }

func drawn(t *testing.T, s data.Sampler) []int64 {
	t.Helper()
	order, err := s.Order()
	require.NoError(t, err)
	all := slices.Collect(order)
	require.Len(t, all, s.Len())
	return all
}

func TestSamplers_OrderTheExamples(t *testing.T) {
	require.Equal(t, []int64{0, 1, 2, 3}, drawn(t, data.SequentialSampler(4)))
	require.Empty(t, drawn(t, data.SequentialSampler(-4)))
	gen := tensor.NewGenerator(5)
	s := data.RandomSampler(gen, 50)
	a, b := drawn(t, s), drawn(t, s)
	require.NotEqual(t, a, b)
	require.ElementsMatch(t, a, b)
	require.ElementsMatch(t, a, drawn(t, data.SequentialSampler(50)))
	index := []int64{9, 4, 4, 30, 7, 11, 12, 2}
	some := drawn(t, data.SubsetRandomSampler(gen, index))
	require.ElementsMatch(t, index, some)
	require.NotEqual(t, index, some)
}

// Counts of 20000 draws are within 4.5 standard deviations of what the weights say, with a seed.
func TestWeightedSampler_DrawsByWeight(t *testing.T) {
	weights := []float64{1, 0, 4, 2.5, 0, 0.5, 0}
	const n = 20000
	s, err := data.WeightedSampler(tensor.NewGenerator(11), weights, n, true)
	require.NoError(t, err)
	counts := make([]float64, len(weights))
	for _, i := range drawn(t, s) {
		counts[i]++
	}
	for i, w := range weights {
		p := w / 8
		require.InDelta(t, n*p, counts[i], 4.5*math.Sqrt(n*p*(1-p)), "example %d", i)
	}
	again, err := data.WeightedSampler(tensor.NewGenerator(11), weights, n, true)
	require.NoError(t, err)
	first := drawn(t, again)
	other, err := data.WeightedSampler(tensor.NewGenerator(11), weights, n, true)
	require.NoError(t, err)
	require.Equal(t, first, drawn(t, other))
	require.NotEqual(t, first, drawn(t, other), "each loop draws anew")
}

// The first of draws without replacement has the weights' probabilities, and the second given the first those of what is left.
func TestWeightedSampler_WithoutReplacement(t *testing.T) {
	weights := []float64{1, 0, 3, 2}
	s, err := data.WeightedSampler(tensor.NewGenerator(2), weights, 3, false)
	require.NoError(t, err)
	const n = 6000
	var first, second [4]float64
	for range n {
		order := drawn(t, s)
		require.ElementsMatch(t, []int64{0, 2, 3}, order)
		first[order[0]]++
		if order[0] == 2 {
			second[order[1]]++
		}
	}
	bound := func(n, p float64) float64 { return 4.5 * math.Sqrt(n*p*(1-p)) }
	for i, w := range weights {
		require.InDelta(t, n*w/6, first[i], bound(n, w/6))
	}
	require.InDelta(t, first[2]/3, second[0], bound(first[2], 1./3))
}

func TestWeightedSampler_RefusesWhatCannotBe(t *testing.T) {
	gen := tensor.NewGenerator(1)
	var bad *data.ArgumentError
	for _, weights := range [][]float64{{1, -1}, {math.NaN()}, {math.Inf(1)}, {math.MaxFloat64, math.MaxFloat64}, {0, 0}, {}} {
		_, err := data.WeightedSampler(gen, weights, 1, true)
		require.ErrorAs(t, err, &bad, "%v", weights)
	}
	_, err := data.WeightedSampler(gen, []float64{1, 0, 1}, 3, false)
	require.ErrorContains(t, err, "3 examples cannot be drawn from 2")
	_, err = data.WeightedSampler(gen, []float64{1}, -1, true)
	require.ErrorAs(t, err, &bad)
	var value *tensor.ValueError
	_, err = data.WeightedSampler(nil, []float64{1}, 1, true)
	require.ErrorAs(t, err, &value)
	none, err := data.WeightedSampler(gen, nil, 0, true)
	require.NoError(t, err)
	require.Empty(t, drawn(t, none))
}

func TestLoader_ReadsWhatSamplersChoose(t *testing.T) {
	e, alloc := newExec(t, host.New())
	for workers := range 3 {
		l := data.NewLoader(e.Device(), numbers(t, 9), 2, data.WithAllocator(alloc), data.Workers(workers),
			data.WithSampler(data.SequentialSampler(5)))
		require.Equal(t, 3, l.Len())
		require.Equal(t, [][]int64{{0, 1}, {2, 3}, {4}}, read(t, l))
		require.NoError(t, l.Close())
		l = data.NewLoader(e.Device(), numbers(t, 9), 0, data.WithAllocator(alloc), data.Workers(workers), data.WithBatchSampler(uneven{}))
		require.Equal(t, 2, l.Len())
		require.Equal(t, [][]int64{{8, 8, 1}, {0}}, read(t, l))
		require.Contains(t, l.String(), "9 examples in 2 batch")
		require.NoError(t, l.Close())
	}
}

type uneven struct{}

func (uneven) Len() int { return 2 }
func (uneven) Batches() (iter.Seq[[]int64], error) {
	return slices.Values([][]int64{{8, 8, 1}, {0}}), nil
}

func TestBatchSampler_DropsWhatIsNotFull(t *testing.T) {
	for n := range 9 {
		for _, drop := range []bool{false, true} {
			b := data.NewBatchSampler(data.SequentialSampler(n), 3, drop)
			batches, err := b.Batches()
			require.NoError(t, err)
			all := slices.Collect(batches)
			require.Len(t, all, b.Len())
			total := n
			if drop {
				total = n / 3 * 3
			}
			require.Len(t, slices.Concat(all...), total)
		}
	}
	_, err := data.NewBatchSampler(nil, 1, false).Batches()
	require.Error(t, err)
	_, err = data.NewBatchSampler(data.SequentialSampler(1), 0, false).Batches()
	require.Error(t, err)
}

// classes are the last arrays of a source's examples.
func classes(t *testing.T, src data.Source) (all []int64) {
	t.Helper()
	for i := range int64(src.Len()) {
		ex, err := src.Example(context.Background(), i, rand.New(rand.NewPCG(1, 2)))
		require.NoError(t, err)
		v, err := data.Elements[int64](ex[len(ex)-1])
		require.NoError(t, err)
		all = append(all, v...)
	}
	return all
}

func TestSources_AreDividedAndJoined(t *testing.T) {
	part, err := data.Subset(source(10), []int64{7, 1, 1})
	require.NoError(t, err)
	require.Equal(t, []int64{7, 1, 1}, classes(t, part))
	both, err := data.Concat(source(3), data.Func(0, nil), part, source(2))
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 2, 7, 1, 1, 0, 1}, classes(t, both))
	parts, err := data.RandomSplit(tensor.NewGenerator(1), source(10), 6, 0, 4)
	require.NoError(t, err)
	a, b := classes(t, parts[0]), classes(t, parts[2])
	require.Len(t, a, 6)
	require.Empty(t, classes(t, parts[1]))
	require.ElementsMatch(t, append(a, b...), classes(t, source(10)))
	last := data.Map(source(3), func(ex data.Example, _ *rand.Rand) (data.Example, error) { return ex[2:], nil })
	require.Equal(t, []int64{0, 1, 2}, classes(t, last))

	var bad *data.ArgumentError
	for _, src := range []data.Source{part, both} {
		for _, i := range []int64{-1, int64(src.Len())} {
			_, err = src.Example(context.Background(), i, nil)
			require.ErrorAs(t, err, &bad)
		}
	}
	_, err = data.Subset(source(3), []int64{3})
	require.ErrorAs(t, err, &bad)
	_, err = data.RandomSplit(tensor.NewGenerator(1), source(3), 1, 1)
	require.ErrorAs(t, err, &bad)
	_, err = data.RandomSplit(tensor.NewGenerator(1), source(3), 4, -1)
	require.ErrorAs(t, err, &bad)
	_, err = data.Concat(source(1), nil)
	require.ErrorAs(t, err, &bad)
	_, err = data.Concat(data.Func(math.MaxInt, nil), data.Func(1, nil))
	require.ErrorAs(t, err, &bad)
	_, err = data.Func(1, nil).Example(context.Background(), 0, nil)
	require.ErrorAs(t, err, &bad)
	_, err = data.Map(nil, nil).Example(context.Background(), 0, nil)
	require.ErrorAs(t, err, &bad)
	require.Zero(t, data.Map(nil, nil).Len())
}

func TestArray_HoldsEveryType(t *testing.T) {
	e, _ := newExec(t, host.New())
	check := func(a data.Array, err error) {
		t.Helper()
		require.NoError(t, err)
		batch, err := data.Stack([]data.Example{{a}, {a}})
		require.NoError(t, err)
		require.Equal(t, append(tensor.Shape{2}, a.Shape()...), batch[0].Shape())
		x, err := batch[0].Tensor(e)
		require.NoError(t, err)
		defer x.Release()
		require.Equal(t, a.DType(), x.DType())
		got, err := x.Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{1, 0, 1, 1, 0, 1}, got)
	}
	check(data.NewArray([]float32{1, 0, 1}))
	check(data.NewArray([]float64{1, 0, 1}, 1, 3))
	check(data.NewArray([]int64{1, 0, 1}))
	check(data.NewArray([]int32{1, 0, 1}))
	check(data.NewArray([]uint8{1, 0, 1}, 3, 1))
	check(data.NewArray([]bool{true, false, true}))
	check(data.NewArray([]tensor.Float16Bits{tensor.Float16Of(1), 0, tensor.Float16Of(1)}))
	check(data.NewArray([]tensor.BFloat16Bits{tensor.BFloat16Of(1), 0, tensor.BFloat16Of(1)}))
	one := data.Scalar(int64(3))
	require.Equal(t, "int64[]", one.String())
	require.Equal(t, 1, one.Len())
	var shape *tensor.ShapeError
	_, err := data.NewArray([]uint8{1, 2, 3}, 2)
	require.ErrorAs(t, err, &shape)
	_, err = data.NewArray([]uint8{1, 2, 3}, -1, -3)
	require.ErrorAs(t, err, &shape)
	var dtype *tensor.DTypeError
	_, err = data.Elements[float32](one)
	require.ErrorAs(t, err, &dtype)
	_, err = data.Array{}.Tensor(e)
	require.Error(t, err)
	_, err = one.Tensor(tensor.Exec{})
	require.Error(t, err)
	require.Zero(t, data.Array{}.Len())
}
