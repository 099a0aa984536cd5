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
	m, err := peer.Measure(in.exec, o.Runs, o.Duration, p.flops(), func() error {
		return call(func(...*tensor.Tensor) error { return nil })
	})
	return &result{problem: *p, Result: peer.NewResult(m, p.flops(), samples)}, err
}
