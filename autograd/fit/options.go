package fit

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Option changes a search.
type Option func(*search)

// Precisions are those that the program takes: Float32, without autocast, and Float16 and BFloat16. Without this option it is Float32 alone.
func Precisions(p ...tensor.DType) Option {
	return func(s *search) { s.precisions = slices.Clone(p) }
}

// Checkpointing says that the program takes Settings.Checkpoint: each precision is tried with and without it.
func Checkpointing() Option { return func(s *search) { s.checkpoint = true } }

// MaxBatch is the largest batch that is tried. Without this option it is 16,777,216.
func MaxBatch(n int) Option { return func(s *search) { s.most = n } }

// MinBatch is the smallest batch that is tried, with which the search begins, for programs that do not take one sample: nn.BatchNorm1d of [N, C] in training
// wants two. Without this option it is BatchStep's number.
func MinBatch(n int) Option { return func(s *search) { s.least = n } }

// BatchStep is by how much batches differ that are tried, as for batches that are divided among so many: with 8 they are 8, 16, 24 and so on. Without this
// option it is 1.
func BatchStep(n int) Option { return func(s *search) { s.stride = n } }

// Occupied is how many bytes of the device others hold: the driver's context, a screen, other processes. Without this option it is none.
func Occupied(bytes uint64) Option { return func(s *search) { s.occupied = bytes } }

// MaxSteps is how many steps a trial takes at most whose program ranges over Trial.Steps. Without this option it is 64. Most trials take three or four, as then
// memory repeats itself.
func MaxSteps(n int) Option { return func(s *search) { s.steps = n } }

// DeviceName is what the report calls the device, as in "RTX 4090".
func DeviceName(name string) Option { return func(s *search) { s.name = name } }

// Progress sets a function that is called after each trial that has told whether the batch fits. A trial that ends the search with another error has not.
func Progress(f func(t Trial, fits bool)) Option { return func(s *search) { s.progress = f } }

// defaultMost is the MaxBatch of a search that has none.
const defaultMost = 1 << 24

// check refuses options that leave nothing to search.
func (s *search) check() error {
	switch {
	case s.program == nil:
		return argumentErr("the program is nil")
	case s.capacity == 0:
		return argumentErr("a capacity of 0 bytes fits nothing")
	case s.occupied >= s.capacity:
		return argumentErr("others occupy %d bytes of a device of %d", s.occupied, s.capacity)
	case s.most < 1 || s.most > math.MaxInt/2:
		return argumentErr("MaxBatch is %d, must be at least 1 and at most half of the largest int", s.most)
	case s.stride < 1:
		return argumentErr("BatchStep is %d, must be at least 1", s.stride)
	case s.least < 1:
		return argumentErr("MinBatch is %d, must be at least 1", s.least)
	case s.least > s.most:
		return argumentErr("the smallest batch is %d, and MaxBatch is %d", s.least, s.most)
	case s.steps < 1:
		return argumentErr("MaxSteps is %d, must be at least 1", s.steps)
	case len(s.precisions) == 0:
		return argumentErr("there is no precision to try")
	}
	for i, p := range s.precisions {
		if p != tensor.Float32 && p != tensor.Float16 && p != tensor.BFloat16 {
			return argumentErr("precision %s; it is float32, float16 or bfloat16", p)
		}
		if slices.Contains(s.precisions[:i], p) {
			return argumentErr("precision %s is given twice", p)
		}
	}
	return nil
}

// settings are the combinations to try, the plain one first.
func (s *search) settings() (all []Settings) {
	for _, p := range s.precisions {
		for _, checkpoint := range []bool{false, true} {
			if checkpoint && !s.checkpoint {
				continue
			}
			for _, expandable := range []bool{false, true} {
				all = append(all, Settings{Precision: p, Checkpoint: checkpoint, Expandable: expandable})
			}
		}
	}
	return all
}
