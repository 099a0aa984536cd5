package peer

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

const (
	period  = 1048573 // after which elements repeat: a prime, so that rows differ
	samples = 512
	prime   = 2654435761
)

// NotFinite is the difference of results of which one is not a number, or infinite.
const NotFinite = 1e38

// value is element i of the tensors of a seed: a multiple of 2^-19 in [-1, 1). float32 holds it, TF32 does not, so products that were
// rounded show in the difference of results.
func value(seed, i uint64) float32 {
	h := uint32((i + seed*period) * prime)
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return float32(int(h&0xFFFFF)-0x80000) / 0x80000
}

// Fill is a tensor whose elements are a formula of their places, the same as filled's in torch/peer.py.
func Fill(e tensor.Exec, d tensor.DType, seed int, shape ...int) (*tensor.Tensor, error) {
	block := make([]float32, period)
	for i := range block {
		block[i] = value(uint64(seed), uint64(i))
	}
	n := tensor.Shape(shape).Len()
	return chain(func() (*tensor.Tensor, error) { return tensor.FromSlice(e, block[:min(n, period)], 1, min(n, period)) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(d) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Expand((n+t.Len()-1)/t.Len(), t.Len()) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Contiguous() },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Reshape(-1) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Narrow(0, 0, n) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Reshape(shape...) })
}

// Sample are elements of t at places that follow from its size, the same as sample's in torch/peer.py.
func Sample(t *tensor.Tensor) ([]float64, error) {
	n := t.Len()
	places := make([]int64, min(samples, n))
	for i := range places {
		places[i] = int64(i * prime % n)
	}
	index, err := tensor.FromSlice(t.Exec(), places, len(places))
	if err != nil {
		return nil, err
	}
	defer index.Release()
	picked, err := chain(func() (*tensor.Tensor, error) { return t.Reshape(-1) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.IndexSelect(0, index) },
		func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(tensor.Float32) })
	if err != nil {
		return nil, err
	}
	defer picked.Release()
	values, err := tensor.ToSlice[float32](picked)
	list := make([]float64, len(values))
	for i, v := range values {
		list[i] = float64(v)
	}
	return list, err
}

// chain makes a tensor of a tensor of a tensor, and releases those between.
func chain(first func() (*tensor.Tensor, error), then ...func(t *tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	t, err := first()
	for _, f := range then {
		if err != nil {
			return nil, err
		}
		before := t
		t, err = f(before)
		before.Release()
	}
	return t, err
}

// difference is how far ours is from theirs at most, in parts of the largest of theirs: NotFinite if there is nothing to compare, or
// something is not finite (in theirs: nil).
func difference(ours []float64, theirs []*float64) float64 {
	if len(ours) == 0 || len(ours) != len(theirs) {
		return NotFinite
	}
	apart, largest := 0.0, 0.0
	for i, o := range ours {
		if theirs[i] == nil || math.IsNaN(o) || math.IsInf(o, 0) {
			return NotFinite
		}
		apart, largest = max(apart, math.Abs(o-*theirs[i])), max(largest, math.Abs(*theirs[i]))
	}
	if apart == 0 {
		return 0
	}
	return min(NotFinite, apart/largest)
}
