package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Dropout makes a tensor whose elements are those of t divided by 1-p, or, with probability p, 0 (torch.dropout): the
// expectation stays. t has a floating-point type; p is in 0..1. Which elements stay depends on the generator's state and on the
// number of elements, in the order of memory, not on device or stream: with the state from before, the function of the result's gradient, in t's
// memory format, is the gradient. The result has that format too. As in PyTorch what is dropped is multiplied by 0, so NaN stays NaN; and where p is 0 the result is another handle on t, and
// nothing is drawn.
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
	x, err := t.inFormat(name, t.layout.format(), t.exec)
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

// dropInto writes t after dropout to out; both lie in one memory format without gaps.
func (t *Tensor) dropInto(name string, out *Tensor, gen *Generator, p float64) error {
	if t.Len() == 0 {
		return nil
	}
	c := begin(op.Dropout, t.exec)
	c.call.F[0] = 1 - p
	if p < 1 {
		c.call.F[1] = 1 / (1 - p)
	}
	to, from := out.layout.run(), t.layout.run()
	c.out(out, &to)
	c.in(t, &from)
	if err := c.random(name, gen.take(t.Len())); err != nil {
		return err
	}
	return c.run(name)
}
