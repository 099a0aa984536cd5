package fit

import (
	"context"
	"math/bits"

	"github.com/cistern-ml/cistern/tensor"
)

// search is one call of Largest.
type search struct {
	program    Program
	capacity   uint64
	occupied   uint64
	precisions []tensor.DType
	checkpoint bool
	most       int
	steps      int // of a trial, at most
	name       string
	progress   func(t Trial, fits bool)
}

// Largest finds the largest batch of a program on a device of so many bytes, under each combination of the settings that the program takes. The package
// comment says what the largest is. The error is an *ArgumentError, that of the context, or a *TrialError; what was found until
// then is in the report, which is never nil.
func Largest(ctx context.Context, capacity uint64, program Program, opts ...Option) (*Report, error) {
	s := &search{program: program, capacity: capacity, precisions: []tensor.DType{tensor.Float32}, most: defaultMost, steps: defaultSteps}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	r := &Report{Capacity: capacity}
	if err := s.check(); err != nil {
		return r, err
	}
	r.Device, r.Occupied = s.name, s.occupied
	for _, settings := range s.settings() {
		result, err := s.of(ctx, settings)
		if err != nil {
			return r, err
		}
		r.Results = append(r.Results, result)
	}
	return r, nil
}

// of searches under one combination of settings.
func (s *search) of(ctx context.Context, settings Settings) (Result, error) {
	r := Result{Precision: settings.Precision.String(), Checkpoint: settings.Checkpoint, Expandable: settings.Expandable}
	fit := map[int]outcome{}
	batch, err := largest(s.most, func(batch int) (bool, error) {
		r.Trials++
		o, err := s.run(ctx, settings, batch, 0)
		if err == nil && o.oom == nil {
			fit[batch] = o
		} else if err == nil && (r.TooLarge == 0 || batch < r.TooLarge) {
			r.TooLarge, r.Err = batch, o.oom
		}
		return err == nil && o.oom == nil, err
	})
	if err != nil {
		return r, err
	}
	r.LargestBatch, r.AtMax = batch, batch == s.most
	if batch == 0 {
		return r, nil
	}
	r.Steps, r.Steady = fit[batch].steps, fit[batch].steady
	if err := s.look(ctx, settings, &r); err != nil {
		return r, err
	}
	r.PerSample = perSample(batch, r.PeakAllocated, fit)
	return r, nil
}

// perSample is what a sample more takes, from a batch that fits and the largest power of two below it that was tried and fits.
func perSample(batch int, bytes int64, fit map[int]outcome) int64 {
	for less := 1 << bits.Len(uint(batch-1)) / 2; less > 0; less /= 2 {
		if before, ok := fit[less]; ok {
			return (bytes - before.allocated) / int64(batch-less)
		}
	}
	return 0
}

// look runs the largest batch again, for its figures.
func (s *search) look(ctx context.Context, settings Settings, r *Result) error {
	steps := r.Steps
	if steps == 0 {
		steps = -1 // the program counts them itself
	}
	o, err := s.run(ctx, settings, r.LargestBatch, steps)
	if err != nil {
		return err
	}
	r.PeakAllocated, r.PeakReserved, r.Reads = o.allocated, o.reserved, o.reads
	r.AtPeak = partsOf(o.report)
	return nil
}

// run is one trial, with its errors and its progress.
func (s *search) run(ctx context.Context, settings Settings, batch, steps int) (outcome, error) {
	t := Trial{Batch: batch, Settings: settings}
	o, err := s.try(ctx, t, steps)
	if err != nil && ctx.Err() == nil {
		err = &TrialError{Settings: settings, Batch: batch, Err: err}
	}
	if s.progress != nil {
		s.progress(t, err == nil && o.oom == nil)
	}
	return o, err
}

// beyond is how many batches above one that fits must not fit.
const beyond = 4

// largest returns a number up to most for which fits holds while it does not for the next ones, as far as these are at most most: 0 if it holds for none that
// is tried.
func largest(most int, fits func(n int) (bool, error)) (int, error) {
	good, bad := 0, most+1
	known := map[int]bool{}
	try := func(n int) (bool, error) {
		if ok, seen := known[n]; seen {
			return ok, nil
		}
		ok, err := fits(n)
		known[n] = ok
		return ok, err
	}
	for n := 1; ; n = min(2*n, most) {
		ok, err := try(n)
		if err != nil {
			return 0, err
		}
		if !ok {
			bad = n
			break
		}
		if good = n; n == most {
			return most, nil
		}
	}
	for bad-good > 1 {
		middle := good + (bad-good)/2
		ok, err := try(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			good = middle
		} else {
			bad = middle
		}
	}
	for n := good + 1; n <= min(good+beyond, most); n++ {
		ok, err := try(n)
		if err != nil {
			return 0, err
		}
		if ok {
			good = n
		}
	}
	return good, nil
}
