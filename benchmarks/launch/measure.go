package main

import (
	"context"
	"runtime"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	inARow     = 200 // calls before a wait: a driver's queue takes about a thousand
	rows, cols = 64, 32
	streamRuns = 5
)

// operation is what is measured; the script has the same names.
type operation struct {
	name string
	call func() (*tensor.Tensor, error)
}

// operands are what the operations work on.
type operands struct{ x, y, row, w, turned *tensor.Tensor }

func newOperands(e tensor.Exec) (o *operands, err error) {
	o = new(operands)
	for _, t := range []struct {
		to    **tensor.Tensor
		shape []int
	}{{&o.x, []int{rows, cols}}, {&o.y, []int{rows, cols}}, {&o.row, []int{cols}}, {&o.w, []int{cols, rows}}} {
		if *t.to, err = tensor.Ones(e, tensor.Float32, t.shape...); err != nil {
			o.release()
			return nil, err
		}
	}
	if o.turned, err = o.x.Transpose(0, 1); err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.x, o.y, o.row, o.w, o.turned} {
		t.Release()
	}
}

func (o *operands) operations() []operation {
	return []operation{
		{"add", func() (*tensor.Tensor, error) { return o.x.Add(o.y) }},
		{"add row", func() (*tensor.Tensor, error) { return o.x.Add(o.row) }},
		{"add transposed", func() (*tensor.Tensor, error) { return o.turned.Add(o.w) }},
		{"mul scalar", func() (*tensor.Tensor, error) { return o.x.MulScalar(2) }},
		{"relu", o.x.ReLU},
		{"softmax", func() (*tensor.Tensor, error) { return o.x.Softmax(1) }},
		{"sum of rows", func() (*tensor.Tensor, error) { return o.x.Sum([]int{1}, false) }},
		{"matmul", func() (*tensor.Tensor, error) { return o.x.MatMul(o.w) }},
		{"transposed copy", o.turned.Clone},
	}
}

// measure runs everything. With an error it returns what was measured before.
func (o *options) measure() (r *report, err error) {
	err = harness.On(o.Device, func(e tensor.Exec, spec device.Spec) error {
		in, err := newOperands(e.Owned()) // all that is made is released here
		if err != nil {
			return err
		}
		defer in.release()
		r = &report{Head: o.Head(e.Device())}
		for _, p := range in.operations() {
			x, err := o.measureOne(e.Stream(), p)
			if err == nil {
				r.Results = append(r.Results, x)
			} else if err := r.Failed.Add(e.Device(), p.name, err); err != nil {
				return err
			}
			if err := harness.WriteJSON(o.JSON, r); err != nil {
				return err
			}
		}
		o.addPyTorch(r, spec)
		return r.Failed.Err()
	})
	return r, err
}

func (o *options) measureOne(s device.Stream, p operation) (*result, error) {
	call := func() error {
		t, err := p.call()
		t.Release()
		return err
	}
	x := &result{Operation: p.name}
	many := make([]float64, streamRuns)
	for i := range many {
		var err error
		if many[i], err = timing.Each(s, o.Duration, call); err != nil {
			return nil, err
		}
	}
	x.Stream = spreadOf(many)
	var err error
	if x.Call, err = o.rows(s, inARow, false, call); err != nil {
		return nil, err
	}
	if x.Wait, err = o.rows(s, 1, true, call); err != nil {
		return nil, err
	}
	x.Allocs, err = allocations(s, call)
	return x, err
}

// rows times n calls in a row on an idle stream, with the wait for the last one or without.
func (o *options) rows(s device.Stream, n int, wait bool, call func() error) (spread, error) {
	seconds := make([]float64, o.Runs)
	for i := range seconds {
		begin := time.Now()
		for range n {
			if err := call(); err != nil {
				return spread{}, err
			}
		}
		took := time.Since(begin)
		if err := s.Synchronize(context.Background()); err != nil {
			return spread{}, err
		}
		if wait {
			took = time.Since(begin)
		}
		seconds[i] = took.Seconds() / float64(n)
	}
	return spreadOf(seconds), nil
}

// allocations are those of one call on Go's heap. Other goroutines hardly run.
func allocations(s device.Stream, call func() error) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range inARow {
		if err := call(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / inARow, s.Synchronize(context.Background())
}
