package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// Optimizers without a kernel of their own: their steps are made of tensor operations.

// launched is a method with a kernel, which updates many parameters at once.
type launched interface {
	// step updates a batch: parameters of one group that have taken steps-1 steps each, or have counters.
	step(s *Settings, b *batch) error
	// scalars are the settings that are numbers, as the kernel has them.
	scalars(s *Settings) [8]float64
}

// composed is a method whose step is made of tensor operations. All of them are computed before the first is written, so that a step
// for which memory is missing changes nothing.
type composed interface {
	// next computes what a parameter and its state become. All results are c's.
	next(c *calc, s *Settings, at moment) (param *tensor.Tensor, buffers []*tensor.Tensor)
}

// moment is a parameter at a step, computed in float32 at least.
type moment struct {
	param, grad *tensor.Tensor // the gradient without its scale, and with the sign of Maximize
	buffers     []*tensor.Tensor
	step        int // 1 for the first
}

// calc keeps the temporaries of a formula, and its first error.
type calc struct {
	made []*tensor.Tensor
	err  error
}

// of takes the result of an operation.
func (c *calc) of(t *tensor.Tensor, err error) *tensor.Tensor {
	c.do(err)
	if t != nil {
		c.made = append(c.made, t)
	}
	return t
}

// do takes the result of an operation in place.
func (c *calc) do(err error) {
	if c.err == nil {
		c.err = err
	}
}

// ema is old*keep + new*(1-keep).
func (c *calc) ema(old, fresh *tensor.Tensor, keep float64) *tensor.Tensor {
	t := c.of(old.MulScalar(keep))
	c.do(t.AddInPlace(fresh, 1-keep))
	return t
}

// emaSquare is the same of the square of what is new.
func (c *calc) emaSquare(old, fresh *tensor.Tensor, keep float64) *tensor.Tensor {
	t := c.of(old.MulScalar(keep))
	c.do(t.AddCMulInPlace(fresh, fresh, 1-keep))
	return t
}

// root is the square root of t + eps.
func (c *calc) root(t *tensor.Tensor, eps float64) *tensor.Tensor {
	r := c.of(t.AddScalar(eps))
	c.do(r.SqrtInPlace())
	return r
}

// decayed is the gradient with weight decay, as most optimizers have it.
func (c *calc) decayed(s *Settings, at moment) *tensor.Tensor {
	if s.WeightDecay == 0 {
		return at.grad
	}
	return c.of(at.grad.AddScaled(at.param, s.WeightDecay))
}

// shrunk is the parameter with weight decay that acts on it directly.
func (c *calc) shrunk(s *Settings, at moment) *tensor.Tensor {
	return c.of(at.param.MulScalar(1 - s.LR*s.WeightDecay))
}

// wide is t in the type that steps are computed in.
func (c *calc) wide(t *tensor.Tensor) *tensor.Tensor {
	if dt := t.DType(); dt != tensor.Float16 && dt != tensor.BFloat16 {
		return t
	}
	return c.of(t.To(tensor.Float32))
}

func (c *calc) release() {
	for _, t := range c.made {
		t.Release()
	}
	c.made = nil
}

// wait waits for what the device has decided: whether a step is left out.
func (d *decision) wait() (skip bool, err error) {
	if d == nil {
		return false, nil
	}
	if d.found != nil {
		v, err := d.found.Item()
		if err != nil || v != 0 {
			return true, err
		}
	}
	if d.scale != nil {
		d.divisor, err = d.scale.Item()
	}
	return false, err
}

// unscaled is the gradient as Step has it: divided by the scale by multiplying with its reciprocal, as the kernels do, and turned round
// by Maximize.
func (c *calc) unscaled(grad *tensor.Tensor, divisor float64, s *Settings) *tensor.Tensor {
	by := 1.0
	if divisor != 0 {
		by = float64(1 / float32(divisor))
	}
	if s.Maximize {
		by = -by
	}
	if by == 1 {
		return grad
	}
	return c.of(grad.MulScalar(by))
}

// write is what a step sets a tensor to.
type write struct{ to, from *tensor.Tensor }

// compose takes the step of a composed method for batches of groups: it computes everything, and then writes it.
func (o *Grouped) compose(m composed, groups []*group, planned [][]*batch, by *decision) (err error) {
	var results calc
	defer results.release()
	var writes []write
	for i, g := range groups {
		for _, b := range planned[i] {
			for k := range b.params {
				w, err := o.compute(m, &results, &g.settings, b, k, by)
				if err != nil {
					return fmt.Errorf("optim: %s: %w", o.name, err)
				}
				writes = append(writes, w...)
			}
		}
	}
	for _, w := range writes {
		if err := w.to.CopyFrom(w.from); err != nil {
			return fmt.Errorf("optim: %s: %w", o.name, err)
		}
	}
	for _, all := range planned {
		for _, b := range all {
			for _, s := range b.states {
				s.steps++
			}
		}
	}
	return nil
}

// compute computes the step of parameter k of a batch. What it writes belongs to results.
func (o *Grouped) compute(m composed, results *calc, s *Settings, b *batch, k int, by *decision) ([]write, error) {
	var c calc
	defer c.release()
	divisor := 0.0
	if by != nil {
		divisor = by.divisor
	}
	at := moment{param: c.wide(b.params[k]), step: b.steps}
	at.grad = c.unscaled(c.wide(b.grads[k]), divisor, s)
	for _, t := range b.states[k].buffers {
		at.buffers = append(at.buffers, c.wide(t))
	}
	if c.err != nil {
		return nil, c.err
	}
	param, buffers := m.next(&c, s, at)
	if c.err != nil {
		return nil, c.err
	}
	writes := []write{{b.params[k], c.narrow(param, b.params[k])}}
	for i, t := range b.states[k].buffers {
		writes = append(writes, write{t, c.narrow(buffers[i], t)})
	}
	if c.err != nil {
		return nil, c.err
	}
	for i, w := range writes {
		writes[i].from = results.of(w.from.Retain(), nil)
	}
	return writes, nil
}

// narrow is t in the type of what it is written to, so that the result takes no more memory than that.
func (c *calc) narrow(t, to *tensor.Tensor) *tensor.Tensor {
	if c.err != nil || t.DType() == to.DType() {
		return t
	}
	return c.of(t.To(to.DType()))
}
