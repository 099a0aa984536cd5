package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/tensor"
)

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
	return peer.Measure(e, o.Runs, o.Duration, s.flops(), func() error {
		y, err := p.run(in, s)
		y.Release()
		return err
	})
}
