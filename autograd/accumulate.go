package autograd

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// deliver adds t, which it takes over, to the incoming gradient of v.
func (b *backward) deliver(v *Variable, t *tensor.Tensor) error {
	use(t, memmeter.Gradient)
	t, err := b.oneType(v, t)
	if err != nil {
		return err
	}
	if err := b.g.sum(&v.buf, t); err != nil {
		return err
	}
	return b.arrived(v)
}

// arrived counts a gradient that was added to v's. A leaf that has got all of this pass passes the sum on to its owner.
func (b *backward) arrived(v *Variable) error {
	if v.node != nil {
		return nil
	}
	if v.pending--; v.pending > 0 {
		return nil
	}
	if v.param == nil && b.wanted == nil || v.param != nil && (len(v.param.after.list) > 0 || !writable(v.buf.t)) {
		b.late = append(b.late, v) // when the node has let go of the gradient, it need not be copied
		return nil
	}
	return b.settle(v)
}

// settle passes the gradient of a leaf on to its owner.
func (b *backward) settle(v *Variable) error {
	if err := b.hooked(v, &v.hooks); err != nil {
		return err
	}
	if v.param != nil {
		if err := b.hooked(v, &v.param.hooks); err != nil {
			return err
		}
	}
	if b.wanted != nil {
		b.capture(v)
		b.g.ledger.drop(v.buf)
		v.buf = nil
		return nil
	}
	total := b.g.ledger.surrender(v.buf)
	v.buf = nil
	if v.param == nil {
		return v.keepOwnGrad(total)
	}
	return b.give(v.param, total)
}

// give passes t, which it takes over, on to p: to its sink, or to its Grad and then to the hooks that wait for that.
func (b *backward) give(p *Parameter, t *tensor.Tensor) error {
	if p.diverted != nil {
		if taken, err := p.divert(b.g, t); taken || err != nil {
			return err
		}
		return p.accumulate(t) // the hooks wait for what the sink's owner makes of it
	}
	if err := b.g.admit(p); err != nil {
		t.Release()
		return err
	}
	if err := p.accumulate(t); err != nil || len(p.after.list) == 0 {
		return err
	}
	return b.accumulated(p)
}

// settleLate settles leaves whose owners may change them: when the node that has given the last gradient reads them no more.
func (b *backward) settleLate() error {
	for len(b.late) > 0 {
		v := b.late[0]
		b.late = b.late[1:]
		if err := b.settle(v); err != nil {
			return err
		}
	}
	return nil
}

// keepOwnGrad is keepGrad for a leaf: its gradient is nobody else's, as a parameter's is, so that it may be changed in place.
func (v *Variable) keepOwnGrad(t *tensor.Tensor) error {
	if v.grad == nil && !(stealable(t) && t.IsContiguousIn(v.order())) { // as in PyTorch it has the variable's format
		c, err := copyIn(t, v.order())
		t.Release()
		if err != nil {
			return err
		}
		t = c
	}
	return v.keepGrad(t)
}

// keepGrad adds t, which it takes over, to the gradient that the graph keeps for v.
func (v *Variable) keepGrad(t *tensor.Tensor) error { return v.g.sum(&v.grad, t) }

// sum adds t, which it takes over also when it fails, to *into. The first one is stored as it is. Later ones are added in
// place if either side belongs to nobody else, because a gradient that is passed through (by an addition, a view) may be in
// use at several places; a+b and b+a are the same number.
func (g *Graph) sum(into **value, t *tensor.Tensor) error {
	have := *into
	if have == nil {
		*into = g.ledger.add(t)
		return nil
	}
	if writable(have.t) && have.holders == 1 {
		defer t.Release()
		return have.t.AddInPlace(t, 1)
	}
	total, err := t, error(nil)
	if writable(t) {
		err = t.AddInPlace(have.t, 1)
	} else {
		total, err = t.Add(have.t)
		t.Release()
	}
	if err != nil {
		t.Release()
		return err
	}
	g.ledger.drop(have)
	*into = g.ledger.add(total)
	return nil
}

// writable reports whether t may be overwritten: no other handle is on its storage, and no two elements share an address.
func writable(t *tensor.Tensor) bool { return t.Exclusive() && t.InMemoryFormat() }

// stealable reports whether t may become a parameter's gradient as it is: nobody else has it, optimizers can walk it in
// one run, and it does not hold on to much more memory than it needs, as a small part of a large storage would.
func stealable(t *tensor.Tensor) bool {
	bytes := uint64(t.Len()) * uint64(t.DType().Size())
	return writable(t) && t.StorageBytes() <= 2*bytes+minBlock
}

// aligned reports whether the elements of t and u, of one shape and without gaps, have the same order: optimizers walk both in one run.
func aligned(t, u *tensor.Tensor) bool {
	if t.IsContiguous() && u.IsContiguous() {
		return true
	}
	s, r := t.Strides(), u.Strides()
	for d, n := range t.Shape() {
		if n != 1 && s[d] != r[d] {
			return false
		}
	}
	return true
}

// copyIn is a copy of t in a memory format.
func copyIn(t *tensor.Tensor, order tensor.MemoryFormat) (*tensor.Tensor, error) {
	c, err := t.ToMemoryFormat(order)
	if err != nil || !c.SharesStorage(t) {
		return c, err
	}
	defer c.Release()
	return c.Clone()
}

// minBlock is the smallest block that allocators hand out, in bytes.
const minBlock = 512

// accumulate adds t, which it takes over, to the parameter's gradient. A first gradient is stolen if possible. The addition
// runs under t's Exec, the graph's: package streams.go orders it with the parameter's stream.
func (p *Parameter) accumulate(t *tensor.Tensor) error {
	defer t.Release()
	if p.Tensor() == nil {
		return &ParameterError{Name: p.name, Shape: p.shape}
	}
	if here, there := t.Device().ID(), p.value.Device().ID(); here != there {
		return &tensor.DeviceError{Op: "gradient of parameter " + excerpt.Of(p.name), Devices: []device.ID{here, there},
			Detail: "the parameter was moved between forward and backward"}
	}
	if p.grad != nil {
		h := p.grad.On(t.Exec())
		defer h.Release()
		return h.AddInPlace(t, 1)
	}
	if stealable(t) && aligned(t, p.value) {
		p.grad = t.On(p.value.Exec())
		return nil
	}
	c, err := copyIn(t, p.value.MemoryFormat())
	if err != nil {
		return err
	}
	defer c.Release()
	use(c, memmeter.Gradient)
	p.grad = c.On(p.value.Exec())
	return nil
}
