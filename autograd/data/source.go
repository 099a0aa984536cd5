package data

import (
	"context"
	"math/rand/v2"
	"sort"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Source is a data set whose examples are made one by one in host memory, by functions of the program: files that are decoded, say.
// NewSourceLoader reads it in batches.
type Source interface {
	// Len is the number of examples. It must not change while a loop reads them.
	Len() int
	// Example makes example i, 0..Len-1. All examples of a data set have as many arrays, in the same order. Workers call it at the same
	// time. ctx ends when the loop is left. r gives random numbers, for transforms: they depend on the loader's generator and on the
	// place of the example in the loop, but not on the workers. r is for this call alone.
	Example(ctx context.Context, i int64, r *rand.Rand) (Example, error)
}

// Func is a data set of n examples that f makes; see Source.
func Func(n int, f func(ctx context.Context, i int64, r *rand.Rand) (Example, error)) Source {
	return &funcSource{n, f}
}

type funcSource struct {
	n int
	f func(ctx context.Context, i int64, r *rand.Rand) (Example, error)
}

func (s *funcSource) Len() int { return s.n }

func (s *funcSource) Example(ctx context.Context, i int64, r *rand.Rand) (Example, error) {
	if s.f == nil {
		return nil, argumentErr("Func was given no function: it is nil")
	}
	return s.f(ctx, i, r)
}

// Map is src with its examples changed by f, which gets the random numbers that Source.Example has.
func Map(src Source, f func(ex Example, r *rand.Rand) (Example, error)) Source {
	return &mapped{src, f}
}

type mapped struct {
	src Source
	f   func(ex Example, r *rand.Rand) (Example, error)
}

func (s *mapped) Len() int {
	if isnil.Value(s.src) {
		return 0
	}
	return s.src.Len()
}

func (s *mapped) Example(ctx context.Context, i int64, r *rand.Rand) (Example, error) {
	if isnil.Value(s.src) || s.f == nil {
		return nil, argumentErr("Map was given no data set or no function")
	}
	ex, err := s.src.Example(ctx, i, r)
	if err != nil {
		return nil, err
	}
	return s.f(ex, r)
}

// Subset is the examples of src with the given numbers, in that order (torch.utils.data.Subset). index is not copied. It is an
// *ArgumentError if src has no such example.
func Subset(src Source, index []int64) (Source, error) {
	if isnil.Value(src) {
		return nil, argumentErr("Subset was given no data set")
	}
	n := int64(src.Len())
	for _, i := range index {
		if i < 0 || i >= n {
			return nil, argumentErr("Subset was given example %d of %d", i, n)
		}
	}
	return &subset{src, index}, nil
}

type subset struct {
	src   Source
	index []int64
}

func (s *subset) Len() int { return len(s.index) }

func (s *subset) Example(ctx context.Context, i int64, r *rand.Rand) (Example, error) {
	if i < 0 || i >= int64(len(s.index)) {
		return nil, outside(i, len(s.index))
	}
	return s.src.Example(ctx, s.index[i], r)
}

// RandomSplit divides src at random into parts of the given lengths, whose sum must be src.Len
// (torch.utils.data.random_split).
func RandomSplit(gen *tensor.Generator, src Source, lengths ...int) ([]Source, error) {
	if isnil.Value(src) {
		return nil, argumentErr("RandomSplit was given no data set")
	}
	left := src.Len()
	for _, n := range lengths {
		if n < 0 || n > left {
			return nil, argumentErr("RandomSplit of %d examples into %v", src.Len(), lengths)
		}
		left -= n
	}
	if left != 0 {
		return nil, argumentErr("RandomSplit of %d examples into %v, which leaves %d", src.Len(), lengths, left)
	}
	order, err := tensor.RandPerm(gen, src.Len())
	if err != nil {
		return nil, err
	}
	parts := make([]Source, len(lengths))
	for i, n := range lengths {
		parts[i] = &subset{src, order[:n:n]}
		order = order[n:]
	}
	return parts, nil
}

// Concat is the examples of all data sets, one after the other (torch.utils.data.ConcatDataset). Their lengths are taken now.
func Concat(srcs ...Source) (Source, error) {
	c := &concat{srcs: srcs, ends: make([]int64, len(srcs))}
	for k, s := range srcs {
		if isnil.Value(s) {
			return nil, argumentErr("Concat was given no data set as number %d", k)
		}
		n := int64(s.Len())
		if n < 0 || c.len+n < c.len {
			return nil, argumentErr("Concat was given a data set of %d examples after %d", n, c.len)
		}
		c.len += n
		c.ends[k] = c.len
	}
	return c, nil
}

type concat struct {
	srcs []Source
	ends []int64 // the number after each data set's last example
	len  int64
}

func (c *concat) Len() int { return int(c.len) }

func (c *concat) Example(ctx context.Context, i int64, r *rand.Rand) (Example, error) {
	if i < 0 || i >= c.len {
		return nil, outside(i, int(c.len))
	}
	k := sort.Search(len(c.ends), func(k int) bool { return i < c.ends[k] })
	if k > 0 {
		i -= c.ends[k-1]
	}
	return c.srcs[k].Example(ctx, i, r)
}

func outside(i int64, n int) error { return argumentErr("example %d of %d", i, n) }
