package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
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
	return list, b.String()
}

// problem is what is computed.
type problem struct {
	name    string
	m, n, k int
	run     func(o *operands) (*tensor.Tensor, error)
}

// problems of a size.
func problems(n int) []problem {
	linear := func(o *operands) (*tensor.Tensor, error) { return tensor.Linear(o.a, o.b, nil) }
	return []problem{
		{"product", n, n, n, linear},
		{"one row", 1, n, n, func(o *operands) (*tensor.Tensor, error) { return tensor.Linear(o.row, o.b, nil) }},
		{"bias, GELU: one pass", n, n, n, func(o *operands) (*tensor.Tensor, error) {
			return tensor.LinearAct(o.a, o.b, o.bias, tensor.ActGELUTanh)
		}},
		{"bias, GELU: two passes", n, n, n, func(o *operands) (*tensor.Tensor, error) {
			y, err := tensor.Linear(o.a, o.b, o.bias)
			if err != nil {
				return nil, err
			}
			defer y.Release()
			return y.GELUTanh()
		}},
	}
}

// operands are of one size and type.
type operands struct{ a, b, row, bias *tensor.Tensor }

func newOperands(e tensor.Exec, d tensor.DType, n int) (o *operands, err error) {
	gen := tensor.NewGenerator(uint64(n))
	o = new(operands)
	for _, t := range []**tensor.Tensor{&o.a, &o.b} {
		if *t, err = tensor.RandN(e, gen, d, n, n); err != nil {
			o.release()
			return nil, err
		}
	}
	if o.row, err = o.a.Narrow(0, 0, 1); err == nil {
		o.bias, err = o.a.Select(0, 0)
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.a, o.b, o.row, o.bias} {
		t.Release()
	}
}

// measure runs everything.
func (o *options) measure() (*report, error) {
	dev, err := device.Open(o.device)
	if err != nil {
		return nil, err
	}
	e, err := tensor.On(dev)
	if err != nil {
		return nil, err
	}
	ways, library := subjects(dev)
	r := &report{Machine: machine.Here(), Device: dev.Properties().Name, Library: library, Runs: o.runs, Duration: o.duration.String()}
	for _, d := range o.types {
		for _, n := range o.sizes {
			if err := o.measureSize(r, e, ways, d, n); err != nil {
				return nil, fmt.Errorf("%s of %d: %w", d, n, err)
			}
		}
	}
	ways[0].choose()
	return r, nil
}

func (o *options) measureSize(r *report, e tensor.Exec, ways []subject, d tensor.DType, n int) error {
	in, err := newOperands(e, d, n)
	if err != nil {
		return err
	}
	defer in.release()
	for _, p := range problems(n) {
		seconds := make([][]float64, len(ways))
		for range o.runs {
			for i, w := range ways {
				if w.only != 0 && w.only != d {
					continue
				}
				w.choose()
				s, err := timed(e, o.duration, func() error { return discard(p.run(in)) })
				if err != nil {
					return fmt.Errorf("%s by %s: %w", p.name, w.name, err)
				}
				seconds[i] = append(seconds[i], s)
			}
		}
		for i, w := range ways {
			if len(seconds[i]) > 0 {
				r.Results = append(r.Results, newResult(&p, d, w.name, seconds[i]))
			}
		}
	}
	return nil
}

func discard(t *tensor.Tensor, err error) error {
	t.Release()
	return err
}

// timed is the seconds of one call of f, of many that take about as long as d, after one that does not count.
func timed(e tensor.Exec, d time.Duration, f func() error) (float64, error) {
	wait := func() error { return e.Stream().Synchronize(context.Background()) }
	many := func(n int) (time.Duration, error) {
		begin := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		err := wait()
		return time.Since(begin), err
	}
	if _, err := many(1); err != nil {
		return 0, err
	}
	one, err := many(1)
	if err != nil {
		return 0, err
	}
	n := max(1, min(10_000, int(d/max(one, time.Nanosecond))))
	took, err := many(n)
	return took.Seconds() / float64(n), err
}

// newResult makes a cell of the seconds of its runs.
func newResult(p *problem, d tensor.DType, subject string, seconds []float64) result {
	slices.Sort(seconds)
	median := seconds[len(seconds)/2]
	flops := 2 * float64(p.m) * float64(p.n) * float64(p.k)
	bytes := float64(d.Size()) * (float64(p.m)*float64(p.k) + float64(p.k)*float64(p.n) + float64(p.m)*float64(p.n))
	return result{
		Problem: p.name, Type: d.String(), M: p.m, N: p.n, K: p.k, Subject: subject, Microseconds: 1e6 * median,
		Fastest: 1e6 * seconds[0], Slowest: 1e6 * seconds[len(seconds)-1], TFLOPS: flops / median / 1e12, GBs: bytes / median / 1e9,
	}
}
