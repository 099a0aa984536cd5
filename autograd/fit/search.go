package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// search is one call of Largest.
type search struct {
	program    Program
	capacity   uint64
	occupied   uint64
	precisions []tensor.DType
	checkpoint bool
	least      int // batches are least, least+stride and so on up to most
	stride     int
	most       int
	steps      int // of a trial, at most
	name       string
	progress   func(t Trial, fits bool)
	config     string // what the environment sets of the allocators, known after a trial
}

// Largest finds the largest batch of a program on a device of so many bytes, under each combination of the settings that the program takes. The package
// comment says what the largest is. The error is an *ArgumentError, one that is that of the context to errors.Is, once that is done, or a *TrialError; what
// was found until then is in the report, which is never nil.
func Largest(ctx context.Context, capacity uint64, program Program, opts ...Option) (*Report, error) {
	s := &search{program: program, capacity: capacity, precisions: []tensor.DType{tensor.Float32}, stride: 1, most: defaultMost, steps: defaultSteps}
	s.least = unset
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	if s.least == unset {
		s.least = s.stride
	}
	r := &Report{Capacity: capacity}
	if why := isnil.Why("context", ctx); why != "" {
		return r, argumentErr("%s", why)
	}
	if err := s.check(); err != nil {
		return r, err
	}
	r.Device, r.Occupied = s.name, s.occupied
	for _, settings := range s.settings() {
		result, err := s.of(ctx, settings)
		r.AllocatorConfig = s.config
		if err != nil {
			return r, err
		}
		r.Results = append(r.Results, result)
	}
	return r, nil
}

// unset is a MinBatch that no option can give: one of 0 is refused.
const unset = math.MinInt

// batches is how many there are to try, and batch the one of a number from 1 on.
func (s *search) batches() int    { return (s.most-s.least)/s.stride + 1 }
func (s *search) batch(n int) int { return s.least + (n-1)*s.stride }

// of searches under one combination of settings.
func (s *search) of(ctx context.Context, settings Settings) (Result, error) {
	r := Result{Precision: settings.Precision.String(), Checkpoint: settings.Checkpoint, Expandable: settings.Expandable}
	fit := map[int]outcome{} // by the batch's number
	n, err := largest(s.batches(), func(n int) (bool, error) {
		r.Trials++
		batch := s.batch(n)
		o, err := s.run(ctx, settings, batch, nil)
		if err == nil && o.oom == nil {
			fit[n] = o
		} else if err == nil && (r.TooLarge == 0 || batch < r.TooLarge) {
			r.TooLarge, r.Err = batch, o.oom
		}
		return err == nil && o.oom == nil, err
	})
	if err != nil || n == 0 {
		return r, err
	}
	r.LargestBatch, r.AtMax = s.batch(n), n == s.batches()
	r.Steps, r.Steady, r.LeftEarly = fit[n].steps, fit[n].steady, fit[n].left
	if err := s.look(ctx, settings, &r, n, fit); err != nil {
		return r, err
	}
	return r, nil
}

// below is the largest power of two below a number whose batch was tried and fits, 0 if there is none.
func below(n int, fit map[int]outcome) int {
	for less := 1 << bits.Len(uint(n-1)) / 2; less > 0; less /= 2 {
		if _, ok := fit[less]; ok {
			return less
		}
	}
	return 0
}

// perSample is what a sample more takes, from a batch that fits and a smaller one.
func perSample(batch int, bytes int64, less int, before int64) int64 {
	if less == 0 {
		return 0
	}
	return (bytes - before) / int64(batch-less)
}

// look runs the largest batch again, that of number n, for its figures.
func (s *search) look(ctx context.Context, settings Settings, r *Result, n int, fit map[int]outcome) error {
	o, err := s.again(ctx, settings, r.LargestBatch, fit[n].loops)
	if err != nil {
		return err
	}
	r.PeakAllocated, r.PeakReserved, r.Reads = o.allocated, o.reserved, o.reads
	r.AtPeak = partsOf(o.report)
	less := below(n, fit)
	if less == 0 {
		return nil
	}
	before := fit[less]
	if o.reset { // so it does there, and the statistics of that trial are not all that there was
		if before, err = s.again(ctx, settings, s.batch(less), before.loops); err != nil {
			return err
		}
	}
	r.PerSample = perSample(r.LargestBatch, o.allocated, s.batch(less), before.allocated)
	return nil
}

// again runs a batch that fits once more, for so many steps in each loop, with a record of its memory.
func (s *search) again(ctx context.Context, settings Settings, batch int, loops []int) (outcome, error) {
	o, err := s.run(ctx, settings, batch, &loops)
	if err == nil && o.oom != nil {
		err = &TrialError{Settings: settings, Batch: batch, Err: fmt.Errorf("it fitted at first, and did not when it was run once more for its figures: %w", o.oom)}
	}
	return o, err
}

// run is one trial, with its errors and its progress.
func (s *search) run(ctx context.Context, settings Settings, batch int, plan *[]int) (outcome, error) {
	t := Trial{Batch: batch, Settings: settings}
	o, err := s.try(ctx, t, plan)
	if done := ctx.Err(); err != nil && (done == nil || !errors.Is(err, done)) {
		if batch == 1 {
			err = fmt.Errorf("%w (if the program does not take a batch of 1: MinBatch begins with a larger one)", err)
		}
		err = &TrialError{Settings: settings, Batch: batch, Err: err}
	}
	if s.progress != nil && err == nil { // after another error it is not known whether the batch fits
		s.progress(t, o.oom == nil)
	}
	return o, err
}

// What the search for a number is bounded by.
const (
	beyond  = 4  // how many batches above one that fits must not fit
	lonely  = 64 // the largest power of two that is tried where the first batch does not fit
	climbs  = 16 // of one at a time, before the search goes up in strides again
	strides = 4  // how often it does
)

// largest returns a number up to most for which fits holds while it does not for the next ones, as far as these are at most most: 0 if it holds for none that
// is tried. How often it asks grows with the logarithm of most: where numbers that fit go on to follow ones that do not, it ends with one of them.
func largest(most int, fits func(n int) (bool, error)) (int, error) {
	a := &ascent{most: most, fits: fits, known: map[int]bool{}}
	a.stride()
	for left := strides; ; left-- {
		if found := a.climb(); !found || left == 0 || a.err != nil {
			break
		}
		a.stride()
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.good, nil
}

// ascent is the search of largest. After an error it asks no more.
type ascent struct {
	most  int
	fits  func(n int) (bool, error)
	known map[int]bool
	good  int // the largest that is known to fit
	err   error
}

// try reports whether n fits, and keeps it if it does.
func (a *ascent) try(n int) bool {
	ok, seen := a.known[n]
	if !seen && a.err == nil {
		ok, a.err = a.fits(n)
		a.known[n] = ok
	}
	if ok = ok && a.err == nil; ok {
		a.good = max(a.good, n)
	}
	return ok
}

// stride goes up from what fits by 1, 2, 4 and so on until one does not fit, and bisects what is between. From nothing these are the powers of two.
func (a *ascent) stride() {
	from, bad := a.good, a.most+1
	for by := 1; a.good < a.most; by *= 2 {
		if n := min(from+by, a.most); !a.try(n) {
			bad = n
			break
		}
	}
	for bad-a.good > 1 && a.err == nil {
		if middle := a.good + (bad-a.good)/2; !a.try(middle) {
			bad = middle
		}
	}
}

// climb tries those just above what fits, and goes on from there if one does. It reports whether it ended for having found many, or the first, by
// itself.
func (a *ascent) climb() (found bool) {
	if a.good == 0 {
		return a.first()
	}
	for n, times := a.good+1, 0; n <= min(a.good+beyond, a.most) && a.err == nil; n++ {
		if a.try(n) {
			if times++; times == climbs {
				return true
			}
		}
	}
	return false
}

// first looks for one that fits where 1 does not, as of programs that divide something by the batch: not among all of them.
func (a *ascent) first() bool {
	for n := 2; n <= min(1+beyond, a.most); n++ {
		if a.try(n) {
			return true
		}
	}
	for n := 2 * beyond; n <= min(lonely, a.most); n *= 2 {
		if a.try(n) {
			return true
		}
	}
	return false
}
