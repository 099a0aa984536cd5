package data

import (
	"cmp"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Sampler chooses the examples of a loop and their order (torch.utils.data.Sampler).
type Sampler interface {
	// Len is the number of examples that a loop reads.
	Len() int
	// Order gives their numbers in the data set. Each loop calls it once, and the sequence is read in the loop's goroutine.
	Order() (iter.Seq[int64], error)
}

// BatchSampler chooses the batches of a loop (torch.utils.data.BatchSampler).
type BatchSampler interface {
	// Len is the number of batches in a loop.
	Len() int
	// Batches gives the numbers of the examples of each. The slices are the loader's from then on.
	Batches() (iter.Seq[[]int64], error)
}

// SequentialSampler reads examples 0..n-1 in their order.
func SequentialSampler(n int) Sampler { return sequential(n) }

type sequential int

func (n sequential) Len() int { return max(0, int(n)) }

func (n sequential) Order() (iter.Seq[int64], error) {
	return func(yield func(int64) bool) {
		for i := range int64(n) {
			if !yield(i) {
				return
			}
		}
	}, nil
}

// RandomSampler reads each of examples 0..n-1 once, in a new random order in each loop.
func RandomSampler(gen *tensor.Generator, n int) Sampler { return &shuffled{gen, n, nil} }

// SubsetRandomSampler reads each of the examples with the given numbers once, in a new random order in each loop.
func SubsetRandomSampler(gen *tensor.Generator, index []int64) Sampler {
	return &shuffled{gen, len(index), slices.Clone(index)}
}

type shuffled struct {
	gen   *tensor.Generator
	n     int
	index []int64 // nil for 0..n-1
}

func (s *shuffled) Len() int { return max(0, s.n) }

func (s *shuffled) Order() (iter.Seq[int64], error) {
	order, err := tensor.RandPerm(s.gen, s.n)
	if err != nil {
		return nil, err
	}
	if s.index != nil {
		for k, i := range order {
			order[k] = s.index[i]
		}
	}
	return slices.Values(order), nil
}

// WeightedSampler draws n examples in each loop, example i with probability weights[i] over their sum: with replacement each time anew, without
// it from those that are left. It is an *ArgumentError if a weight is negative or not finite, or if fewer than n are positive without
// replacement, or none is with it, and a *tensor.ValueError if there is no generator.
func WeightedSampler(gen *tensor.Generator, weights []float64, n int, replacement bool) (Sampler, error) {
	if gen == nil {
		return nil, &tensor.ValueError{Op: "WeightedSampler", Detail: "the generator is nil"}
	}
	s := &weighted{gen: gen, n: n, replacement: replacement, sums: make([]float64, len(weights))}
	positive, sum := 0, 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return nil, argumentErr("weight %d is %v; it must be finite and not negative", i, w)
		}
		if w > 0 {
			positive++
			s.last = i
		}
		sum += w
		s.sums[i] = sum
	}
	switch {
	case n < 0, positive == 0 && n > 0, !replacement && n > positive:
		return nil, argumentErr("%d examples cannot be drawn from %d of positive weight", n, positive)
	case math.IsInf(sum, 0):
		return nil, argumentErr("the sum of the weights is infinite")
	}
	s.weights = slices.Clone(weights)
	return s, nil
}

type weighted struct {
	gen         *tensor.Generator
	weights     []float64
	sums        []float64 // of the weights up to each
	last        int       // the last of positive weight
	n           int
	replacement bool
}

func (s *weighted) Len() int { return s.n }

func (s *weighted) Order() (iter.Seq[int64], error) {
	state := s.gen.Reserve(1)
	if !s.replacement {
		return slices.Values(s.without(numbersOf(state, 0))), nil
	}
	total := 0.0
	if len(s.sums) > 0 {
		total = s.sums[len(s.sums)-1]
	}
	return func(yield func(int64) bool) {
		r := numbersOf(state, 0)
		for range s.n {
			at := r.Float64() * total // below the sum of some example of positive weight, but for rounding
			i := sort.Search(len(s.sums), func(i int) bool { return s.sums[i] > at })
			if !yield(int64(min(i, s.last))) {
				return
			}
		}
	}, nil
}

// without draws without replacement: the n smallest of exponential times, of which example i's has rate weights[i], are those and in that
// order that repeated draws would give.
func (s *weighted) without(r *rand.Rand) []int64 {
	times := make([]float64, len(s.weights))
	order := make([]int64, 0, len(s.weights))
	for i, w := range s.weights {
		times[i] = r.ExpFloat64() / w
		if w > 0 {
			order = append(order, int64(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(times[a], times[b]) })
	return order[:s.n]
}

// NewBatchSampler cuts what s chooses into batches of size examples. The last one may have less, and is left out with dropLast.
func NewBatchSampler(s Sampler, size int, dropLast bool) BatchSampler {
	return &batched{s, size, dropLast}
}

type batched struct {
	s        Sampler
	size     int
	dropLast bool
}

func (b *batched) Len() int {
	if b.size < 1 || isnil.Value(b.s) {
		return 0
	}
	n := max(0, b.s.Len())
	if b.dropLast || n == 0 {
		return n / b.size
	}
	return (n-1)/b.size + 1
}

func (b *batched) Batches() (iter.Seq[[]int64], error) {
	if isnil.Value(b.s) {
		return nil, argumentErr("there is no sampler")
	}
	if b.size < 1 {
		return nil, argumentErr("batches of %d examples", b.size)
	}
	order, err := b.s.Order()
	if err != nil {
		return nil, err
	}
	if order == nil {
		return nil, argumentErr("the sampler's Order returned no sequence")
	}
	return func(yield func([]int64) bool) {
		var index []int64
		for i := range order {
			if index = append(index, i); len(index) < b.size {
				continue
			}
			if !yield(index) {
				return
			}
			index = make([]int64, 0, b.size)
		}
		if len(index) > 0 && !b.dropLast {
			yield(index)
		}
	}, nil
}

// numbersOf is the source of random numbers that belongs to a place in a loop, or in another sequence, whose generator was at state.
func numbersOf(state tensor.GeneratorState, place uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(state.Seed)^state.Offset, mix(place)^state.Seed))
}

// mix spreads a number over all bits, so that neighbours make unlike seeds (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
