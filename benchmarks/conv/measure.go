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
	for _, p := range passes() {
		x, err := o.measurePass(e, in, d, s, &p)
		if err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("%s of %s, %s: %v", p.name, s, d, err))
			continue
		}
		r.Results = append(r.Results, x)
	}
}

func (o *options) measurePass(e tensor.Exec, in *operands, d tensor.DType, s shape, p *pass) (*result, error) {
	y, err := p.run(in, s)
	if err != nil {
		return nil, err
	}
	samples, err := peer.Sample(y)
	y.Release()
	if err != nil {
		return nil, err
	}
	m, err := o.measureOne(e, in, s, p)
	if err != nil {
		return nil, err
	}
	x := &result{problem: problem{shape: s, Type: d.String(), Pass: p.name}, Result: peer.NewResult(m, s.flops(), peer.Samples{"result": samples})}
	if !o.strided {
		return x, nil
	}
	turned, err := in.strided()
	if err != nil {
		return nil, err
	}
	defer turned.release()
	m, err = o.measureOne(e, turned, s, p)
	x.Strided = &m
	return x, err
}

func (o *options) measureOne(e tensor.Exec, in *operands, s shape, p *pass) (peer.Measured, error) {
	return peer.Measure(e, o.runs, o.duration, s.flops(), func() error {
		y, err := p.run(in, s)
		y.Release()
		return err
	})
}
