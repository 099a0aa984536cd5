package main

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/cuda" // devices that -device names
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// measure runs everything.
func (o *options) measure() (r *report, err error) {
	spec, err := device.ParseSpec(o.device)
	if err != nil {
		return nil, err
	}
	dev, err := device.Open(o.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, memory.Drop(dev), dev.Close()) }()
	e, err := tensor.On(dev)
	if err != nil {
		return nil, err
	}
	r = &report{Machine: machine.Here(), Device: dev.Properties().Name, Runs: o.runs, Duration: o.duration.String(), PyTorch: "not measured yet"}
	if err := peer.Warm(e, o.duration); err != nil {
		return nil, err
	}
	for _, s := range o.shapes {
		for _, d := range o.types {
			o.measureShape(r, e, d, s)
		}
	}
	if err := e.Allocator().EmptyCache(); err != nil { // PyTorch needs memory too
		return nil, err
	}
	if err := r.save(o.json); err != nil { // whatever becomes of PyTorch
		return nil, err
	}
	o.addPyTorch(r, spec)
	return r, nil
}

// measureShape measures what it can.
func (o *options) measureShape(r *report, e tensor.Exec, d tensor.DType, s shape) {
	in, err := newOperands(e, d, s)
	if err != nil {
		r.Failed = append(r.Failed, fmt.Sprintf("operands of %s, %s: %v", s, d, err))
		return
	}
	defer in.release()
	for _, p := range problems(s, d) {
		x, err := o.measureOne(in, &p)
		if err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("%s of %s, %s, causal %v: %v", p.Pass, s, d, p.Causal, err))
			continue
		}
		r.Results = append(r.Results, x)
	}
}

// names are those of the results of a pass, as the script calls them too.
var names = map[string][]string{forward: {"result"}, backward: {"q", "k", "v"}, both: {"q", "k", "v"}}

func (o *options) measureOne(in *operands, p *problem) (*result, error) {
	call, end := in.call(p)
	defer end()
	samples := peer.Samples{}
	err := call(func(results ...*tensor.Tensor) (err error) {
		for i, t := range results {
			if samples[names[p.Pass][i]], err = peer.Sample(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m, err := peer.Measure(in.exec, o.runs, o.duration, p.flops(), func() error {
		return call(func(...*tensor.Tensor) error { return nil })
	})
	return &result{problem: *p, Result: peer.NewResult(m, p.flops(), samples)}, err
}
