package main

import (
	"fmt"
	"regexp"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/tensor"
)

// subject is a way to compute products.
type subject struct {
	name   string
	choose func() // makes the device compute so
	only   tensor.DType
}

// subjects are the ways of a device.
func subjects(dev device.Device) (list []subject, library string) {
	d, ok := dev.(*cuda.Device)
	if !ok {
		return []subject{{name: "host", choose: func() {}}}, ""
	}
	use := func(library, tf32 bool) func() {
		return func() {
			d.UseBLAS(library)
			d.SetAllowTF32(tf32)
		}
	}
	b := d.BLAS()
	list = []subject{{name: "own", choose: use(false, false)}}
	if b.Reason == nil {
		list = append(list, subject{name: "cublas", choose: use(true, false)}, subject{name: "cublas tf32", choose: use(true, true), only: tensor.Float32})
	}
	return list, folders.ReplaceAllString(b.String(), "")
}

// folders are what says where a machine keeps its libraries.
var folders = regexp.MustCompile(`/[^ ,]*/`)

// warmUp is how many times as long as a run the products last that do not count.
const warmUp = 3

// Problems that others look for.
const (
	product = "product"
	oneRow  = "one row"
	onePass = "bias, GELU: one pass"
)

// shape is that of a product: a of m by k, b of n by k.
type shape struct{ m, n, k int }

func (s shape) String() string { return fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k) }

// problem is what is computed.
type problem struct {
	name    string
	m, n, k int
	run     func(o *operands) (*tensor.Tensor, error)
}

// problems of a shape.
func problems(s shape) []problem {
	m, n, k := s.m, s.n, s.k
	linear := func(o *operands) (*tensor.Tensor, error) { return tensor.Linear(o.a, o.b, nil) }
	return []problem{
		{product, m, n, k, linear},
		{oneRow, 1, n, k, func(o *operands) (*tensor.Tensor, error) { return tensor.Linear(o.row, o.b, nil) }},
		{onePass, m, n, k, func(o *operands) (*tensor.Tensor, error) {
			return tensor.LinearAct(o.a, o.b, o.bias, tensor.ActGELUTanh)
		}},
		{"bias, GELU: two passes", m, n, k, func(o *operands) (*tensor.Tensor, error) {
			y, err := tensor.Linear(o.a, o.b, o.bias)
			if err != nil {
				return nil, err
			}
			defer y.Release()
			return y.GELUTanh()
		}},
	}
}

// operands are of one shape and type.
type operands struct{ a, b, row, bias *tensor.Tensor }

func newOperands(e tensor.Exec, d tensor.DType, s shape) (o *operands, err error) {
	gen := tensor.NewGenerator(uint64(s.n))
	o = new(operands)
	defer func() {
		if err != nil {
			o.release()
			o = nil
		}
	}()
	if o.a, err = tensor.RandN(e, gen, d, s.m, s.k); err != nil {
		return o, err
	}
	if o.b, err = tensor.RandN(e, gen, d, s.n, s.k); err != nil {
		return o, err
	}
	if o.row, err = o.a.Narrow(0, 0, 1); err != nil {
		return o, err
	}
	o.bias, err = tensor.RandN(e, gen, d, s.n)
	return o, err
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.a, o.b, o.row, o.bias} {
		t.Release()
	}
}

// measure runs everything. With an error it returns what was measured before.
func (o *options) measure() (r *report, err error) {
	err = harness.On(o.Device, func(e tensor.Exec, spec device.Spec) error {
		dev := e.Device()
		ways, library := subjects(dev)
		r = &report{Head: o.Head(dev), Library: library}
		for _, d := range o.types {
			for _, s := range o.shapes {
				if err := o.measureShape(r, e, ways, d, s); err != nil {
					if err := r.Failed.Add(dev, fmt.Sprintf("%s of %s", d, s), err); err != nil {
						return err
					}
				}
			}
		}
		ways[0].choose()
		if err := e.Allocator().EmptyCache(); err != nil { // PyTorch needs memory too
			return err
		}
		o.addPyTorch(r, spec)
		r.compare()
		return r.Failed.Err()
	})
	return r, err
}

// measureShape measures all problems of a shape, and writes what there is so far after each.
func (o *options) measureShape(r *report, e tensor.Exec, ways []subject, d tensor.DType, s shape) error {
	in, err := newOperands(e, d, s)
	if err != nil {
		return err
	}
	defer in.release()
	list := problems(s)
	warm := func() error { return discard(list[0].run(in)) } // a device that had nothing to do is slow at first
	if _, err := timing.Each(e.Stream(), warmUp*o.Duration, warm); err != nil {
		return err
	}
	for _, p := range list {
		seconds := make([][]float64, len(ways))
		for range o.Runs {
			for i, w := range ways {
				if w.only != 0 && w.only != d {
					continue
				}
				w.choose()
				took, err := timing.Each(e.Stream(), o.Duration, func() error { return discard(p.run(in)) })
				if err != nil {
					return fmt.Errorf("%s by %s: %w", p.name, w.name, err)
				}
				seconds[i] = append(seconds[i], took)
			}
		}
		for i, w := range ways {
			if len(seconds[i]) > 0 {
				r.Results = append(r.Results, newResult(&p, d, w.name, seconds[i]))
			}
		}
		if err := harness.WriteJSON(o.JSON, r); err != nil {
			return err
		}
	}
	return nil
}

func discard(t *tensor.Tensor, err error) error {
	t.Release()
	return err
}

// newResult makes a cell of the seconds of its runs.
func newResult(p *problem, d tensor.DType, subject string, seconds []float64) *result {
	spread := timing.Of(seconds)
	median := spread.Microseconds / 1e6
	flops := 2 * float64(p.m) * float64(p.n) * float64(p.k)
	bytes := float64(d.Size()) * (float64(p.m)*float64(p.k) + float64(p.k)*float64(p.n) + float64(p.m)*float64(p.n))
	return &result{
		Problem: p.name, Type: d.String(), M: p.m, N: p.n, K: p.k, Subject: subject, Spread: spread,
		TFLOPS: flops / median / 1e12, GBs: bytes / median / 1e9,
	}
}
