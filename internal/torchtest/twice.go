package torchtest

import (
	"strings"

	"github.com/cistern-ml/cistern/autograd"
)

// again are the gradients that second passes start with, over and over.
var again = []string{"0.5", "-1", "1.5", "-0.5", "1"}

// twice computes gradients of the inputs, and gradients of these.
func (c *run) twice(roots []variable, seeds []array, grads map[string]Value) error {
	var names []string
	var wrt []variable
	for _, s := range c.p.Steps {
		if s.Grad {
			names, wrt = append(names, s.name()), append(wrt, c.values[s.name()].Interface().(variable))
		}
	}
	if len(wrt) == 0 {
		return nil
	}
	first, err := autograd.Grad(roots, wrt, autograd.WithGradient(seeds...), autograd.CreateGraph())
	if err != nil {
		return err
	}
	var outs []variable
	var starts []array
	for i, d := range first {
		if grads[names[i]+".first"], err = readVariable(d); err != nil {
			return err
		}
		if d == nil || !d.RequiresGrad() {
			continue
		}
		words := make([]string, d.Len())
		for j := range words {
			words[j] = again[j%len(again)]
		}
		t, err := parse(c.exec, d.DType().String(), strings.Join(words, " "), d.Shape())
		if err != nil {
			return err
		}
		defer t.Release()
		outs, starts = append(outs, d), append(starts, t)
	}
	second := make([]variable, len(wrt))
	if len(outs) > 0 {
		if second, err = autograd.Grad(outs, wrt, autograd.WithGradient(starts...)); err != nil {
			return err
		}
	}
	for i, d := range second {
		if grads[names[i]], err = readVariable(d); err != nil {
			return err
		}
	}
	return nil
}

// readVariable is the value of v, if there is one.
func readVariable(v variable) (Value, error) {
	if v == nil {
		return Value{DType: "none"}, nil
	}
	t, err := v.Tensor()
	if err != nil {
		return Value{}, err
	}
	return format(t)
}
