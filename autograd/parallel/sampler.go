package parallel

import (
	"fmt"
	"iter"

	"github.com/cistern-ml/cistern/tensor"
)

// SamplerOption changes how a Sampler deals.
type SamplerOption func(*Sampler)

// Shuffle deals the examples out in a random order, which seed and epoch decide, the same on all ranks. Without it they come in their own order.
func Shuffle(seed uint64) SamplerOption {
	return func(s *Sampler) { s.shuffle, s.seed = true, seed }
}

// DropLast leaves the examples at the end out that do not go to all ranks. By default those at the start are dealt out twice to fill up.
func DropLast() SamplerOption { return func(s *Sampler) { s.drop = true } }

// Sampler deals the examples of a data set out to the ranks, as PyTorch's DistributedSampler does: example i of an epoch's order goes to rank i mod ranks, and all
// ranks get as many. It is a data.Sampler.
type Sampler struct {
	n, rank, ranks int
	shuffle, drop  bool
	seed, epoch    uint64
	err            error
}

// NewSampler makes one for a rank, from 0, of a number of ranks, and a data set of n examples. What cannot be is the error of Order.
func NewSampler(n, rank, ranks int, opts ...SamplerOption) *Sampler {
	s := &Sampler{n: n, rank: rank, ranks: ranks}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	switch {
	case n < 0:
		s.err = &Error{Op: "NewSampler", Rank: rank, Detail: fmt.Sprintf("%d examples", n)}
	case ranks < 1 || rank < 0 || rank >= ranks:
		s.err = &Error{Op: "NewSampler", Rank: rank, Detail: fmt.Sprintf("of %d ranks there is none of this number", ranks)}
	}
	return s
}

// SetEpoch says which epoch comes next, from 0: each has an order of its own.
func (s *Sampler) SetEpoch(epoch int) {
	if s != nil {
		s.epoch = uint64(max(epoch, 0))
	}
}

// Len is how many examples a rank gets: n/ranks, rounded up, or down with DropLast.
func (s *Sampler) Len() int {
	switch {
	case s == nil || s.err != nil || s.ranks < 1:
		return 0
	case s.drop:
		return s.n / s.ranks
	}
	return (s.n + s.ranks - 1) / s.ranks
}

// Order implements data.Sampler.
func (s *Sampler) Order() (iter.Seq[int64], error) {
	if s == nil || s.ranks < 1 && s.err == nil {
		return nil, &Error{Op: "Order", Detail: "the Sampler was not made by NewSampler"}
	}
	if s.err != nil {
		return nil, s.err
	}
	var order []int64
	if s.shuffle {
		var err error
		if order, err = tensor.RandPerm(tensor.NewGenerator(s.seed+s.epoch), s.n); err != nil {
			return nil, err
		}
	}
	count, n := s.Len(), s.n
	return func(yield func(int64) bool) {
		for k := range count {
			i := int64((s.rank + k*s.ranks) % n) // beyond the end it starts again
			if order != nil {
				i = order[i]
			}
			if !yield(i) {
				return
			}
		}
	}, nil
}
