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
		s.err = &Error{Op: "NewSampler", Rank: -1, Detail: fmt.Sprintf("%d examples", n)}
	case ranks < 1 || rank < 0 || rank >= ranks:
		s.err = &Error{Op: "NewSampler", Rank: -1, Detail: fmt.Sprintf("of %d ranks there is no rank %d", ranks, rank)}
	}
	return s
}

// SetEpoch says which epoch comes next, from 0: each has an order of its own.
func (s *Sampler) SetEpoch(epoch int) {
	if s != nil {
		s.epoch = uint64(max(epoch, 0))
	}
}

// SamplerState is what decides how a Sampler deals, for checkpoints (checkpoint.State, in Checkpoint.Add). How far an epoch has come is the program's to note.
type SamplerState struct {
	Examples int    `json:"examples"`
	Shuffle  bool   `json:"shuffle"`
	Seed     uint64 `json:"seed"`
	Epoch    uint64 `json:"epoch"`
}

// State returns the state, which is that of all ranks.
func (s *Sampler) State() (SamplerState, error) {
	if err := s.sound("State"); err != nil {
		return SamplerState{}, err
	}
	return SamplerState{s.n, s.shuffle, s.seed, s.epoch}, nil
}

// CheckState refuses the state of a Sampler of another data set, or of one that does not shuffle where this one does.
func (s *Sampler) CheckState(v SamplerState) error {
	const op = "CheckState"
	if err := s.sound(op); err != nil {
		return err
	}
	if v.Examples != s.n || v.Shuffle != s.shuffle {
		return &Error{Op: op, Rank: s.rank, Detail: fmt.Sprintf("it is of a Sampler of %d examples, Shuffle %v; this one has %d, %v", v.Examples, v.Shuffle, s.n, s.shuffle)}
	}
	return nil
}

// LoadState goes on from a state: with its seed, in its epoch.
func (s *Sampler) LoadState(v SamplerState) error {
	if err := s.CheckState(v); err != nil {
		return err
	}
	s.seed, s.epoch = v.Seed, v.Epoch
	return nil
}

// sound is why there is no order.
func (s *Sampler) sound(op string) error {
	if s == nil || s.ranks < 1 && s.err == nil {
		return &Error{Op: op, Rank: -1, Detail: "the Sampler was not made by NewSampler"}
	}
	return s.err
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
	if err := s.sound("Order"); err != nil {
		return nil, err
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
