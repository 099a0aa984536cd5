package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Dropout makes a tensor whose elements are those of t divided by 1-p, or, with probability p, 0 (torch.dropout): the
// expectation stays. t has a floating-point type; p is in 0..1. Which elements stay depends on the generator's state and on the
// shape alone, not on device, stream or memory format: numbers are drawn for the elements in row-major order, so that with the state from before the
// function of the result's gradient is the gradient. The result has t's memory format; with the channels last it is made by way of a row-major copy. As in
// PyTorch what is dropped is multiplied by 0, so NaN stays NaN; and where p is 0 the result is another handle on t, and nothing is drawn.
func (t *Tensor) Dropout(gen *Generator, p float64) (*Tensor, error) {
	const name = "Dropout"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	switch {
	case gen == nil:
		return nil, valueErr(name, "the generator is nil")
	case !(p >= 0 && p <= 1):
		return nil, valueErr(name, "the probability is %v; it must be in 0..1", p)
	case !t.dtype.IsFloat():
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	if p == 0 {
		return t.Retain(), nil
	}
	to := arranged(&t.layout, t)
	if !to.contiguous() {
		return t.dropByWay(name, &to, gen, p)
	}
	x, err := t.inFormat(name, ContiguousFormat, t.exec)
	if err != nil {
		return nil, err
	}
	defer x.Release()
	out := x.Retain() // a copy of t is nobody else's: the result is written over it
	if x.SharesStorage(t) {
		out.Release()
		if out, err = allocAs(name, t.exec, t.dtype, &x.layout); err != nil {
			return nil, err
		}
	}
	if err := x.dropInto(name, out, gen, p); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// dropByWay is Dropout into a layout that is not row-major: kernels draw in the order of memory.
func (t *Tensor) dropByWay(name string, to *layout, gen *Generator, p float64) (*Tensor, error) {
	x, err := t.convert(name, t.dtype, t.exec.Owned())
	if err != nil {
		return nil, err
	}
	defer x.Release()
	if err := x.dropInto(name, x, gen, p); err != nil {
		return nil, err
	}
	return x.convertTo(name, to, t.dtype, t.exec)
}

// dropInto writes t after dropout to out; both are row-major without gaps.
func (t *Tensor) dropInto(name string, out *Tensor, gen *Generator, p float64) error {
	if t.Len() == 0 {
		return nil
	}
	c := begin(op.Dropout, t.exec)
	c.call.F[0] = 1 - p
	if p < 1 {
		c.call.F[1] = 1 / (1 - p)
	}
	c.out(out, &out.layout)
	c.in(t, &t.layout)
	if err := c.random(name, gen.take(t.Len())); err != nil {
		return err
	}
	return c.run(name)
}
