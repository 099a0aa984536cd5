package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// memcpy is the operation that the others are compared with.
const memcpy = "memcpy"

// warmUp is how many times as long as a run the copies last that do not count.
const warmUp = 10

// scene is what an operation works on, of a size and type. What it makes lasts until end.
type scene struct {
	tensor.Exec
	gen   *tensor.Generator
	dtype tensor.DType
	bytes uint64
	undo  []func()
}

// rows of so many elements are as many as the size holds.
func (s *scene) rows(width int) int { return int(s.bytes) / s.dtype.Size() / width }

func (s *scene) later(f func()) { s.undo = append(s.undo, f) }

func (s *scene) keep(t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	if err == nil {
		s.later(t.Release)
	}
	return t, err
}

func (s *scene) matrix(width int) (*tensor.Tensor, error) {
	return s.keep(tensor.RandN(s.Exec, s.gen, s.dtype, s.rows(width), width))
}

func (s *scene) row(width int) (*tensor.Tensor, error) {
	return s.keep(tensor.RandN(s.Exec, s.gen, s.dtype, width))
}

// block is memory without a tensor.
func (s *scene) block() (memory.Block, error) {
	b, err := s.Allocator().Alloc(s.bytes, s.Stream())
	if err == nil {
		s.later(func() { s.Allocator().FreeLater(b) })
	}
	return b, err
}

func (s *scene) end() {
	for _, f := range s.undo {
		f()
	}
}

// measure runs everything.
func (o *options) measure() (r *report, err error) {
	err = harness.On(o.Device, func(e tensor.Exec, spec device.Spec) error {
		r = &report{Head: o.Head(e.Device())}
		for _, size := range o.sizes {
			for _, d := range o.types {
				if err := o.measureType(r, &scene{Exec: e, gen: tensor.NewGenerator(1), dtype: d, bytes: size}); err != nil {
					return fmt.Errorf("%s of %s: %w", device.FormatBytes(size), d, err)
				}
			}
		}
		if err := e.Allocator().EmptyCache(); err != nil { // PyTorch needs memory too
			return err
		}
		if err := harness.WriteJSON(o.JSON, r); err != nil { // whatever becomes of PyTorch
			return err
		}
		o.addPyTorch(r, spec)
		r.compare()
		return nil
	})
	return r, err
}

// measureType measures all operations, or those of -only and memcpy. Each has a scene of its own. A device that had nothing to do is
// slow at first, so copies that do not count go before.
func (o *options) measureType(r *report, of *scene) error {
	warm := options{Flags: harness.Flags{Runs: 1, Duration: warmUp * o.Duration}}
	if _, err := warm.measureOne(operations()[0], &scene{Exec: of.Exec, gen: of.gen, dtype: of.dtype, bytes: of.bytes}); err != nil {
		return err
	}
	for _, p := range operations() {
		if p.only != 0 && p.only != of.dtype || p.name != memcpy && !o.only.MatchString(p.name) {
			continue
		}
		seconds, err := o.measureOne(p, &scene{Exec: of.Exec, gen: of.gen, dtype: of.dtype, bytes: of.bytes})
		if err != nil { // costs no other its numbers
			r.Failed = append(r.Failed, fmt.Sprintf("%s of %s: %v", p.name, of.dtype, err))
			continue
		}
		r.Results = append(r.Results, newResult(p, of, seconds))
	}
	return nil
}

func (o *options) measureOne(p operation, s *scene) ([]float64, error) {
	defer s.end()
	call, err := p.start(s)
	if err != nil {
		return nil, err
	}
	seconds := make([]float64, o.Runs)
	for i := range seconds {
		if seconds[i], err = timing.Each(s.Stream(), o.Duration, call); err != nil {
			return nil, err
		}
	}
	return seconds, nil
}

func newResult(p operation, s *scene, seconds []float64) *result {
	x := &result{Operation: p.name, Type: s.dtype.String(), Size: s.bytes, Bytes: uint64(p.matrices * float64(s.bytes)), Spread: timing.Of(seconds)}
	x.GBs = x.rate(x.Microseconds)
	return x
}
