package autograd

import "github.com/cistern-ml/cistern/tensor"

// rules computes and delivers the gradient of each input that needs one.
func (b *backward) rules(n *node) error {
	switch {
	case n.op.joints != nil:
		gs := make([]*tensor.Tensor, n.outputs())
		for i := range gs {
			if buf := n.output(i).buf; buf != nil {
				gs[i] = buf.t
			}
		}
		return b.joint(n, func() ([]*tensor.Tensor, error) { return n.op.joints(n, gs) })
	case n.op.joint != nil:
		return b.joint(n, func() ([]*tensor.Tensor, error) { return n.op.joint(n, n.out.buf.t) })
	}
	g, last := n.out.buf.t, b.lastReader(n)
	for i, v := range n.in {
		if !b.flows(n, i) {
			continue
		}
		r := n.op.rule(i)
		if r.add != nil && g.DType() == v.dtype && b.addable(n, v) {
			if err := r.add(n, i, g, v.buf.t); err != nil {
				return err
			}
			if err := b.arrived(v); err != nil {
				return err
			}
			continue
		}
		n.spare = i == last && b.spare(n)
		t, err := r.grad(n, i, g)
		n.spare = false
		if t, err = b.fit(n, i, t, err); err != nil {
			return err
		}
		if err := b.deliver(v, t); err != nil {
			return err
		}
	}
	return nil
}

// lastReader is the last input whose rule runs.
func (b *backward) lastReader(n *node) int {
	for i := len(n.in) - 1; i >= 0; i-- {
		if b.flows(n, i) {
			return i
		}
	}
	return -1
}

// spare reports whether nobody but the node's rules can see the incoming gradient: not the caller, whose gradient WithGradient
// is, not a leaf or a node to which it was passed on, nor a hook or RetainGrad, which hold on to it.
func (b *backward) spare(n *node) bool { return n.out.buf.holders == 1 && writable(n.out.buf.t) }

// over computes the gradient of an input by f, an operation that reads the incoming gradient once and may write over it (see
// tensor.Donate): element-wise ones, and those of rows. If nobody reads
// the incoming gradient any more, the result is written over it: so a chain of element-wise operations goes backward in the
// memory of one gradient.
func (n *node) over(g *tensor.Tensor, f func(g *tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	if !n.spare {
		return f(g)
	}
	return after(g.Donate(), f)
}

// addable reports whether a gradient of v may be added to those that have arrived before.
func (b *backward) addable(n *node, v *Variable) bool {
	return v.buf != nil && v.buf.holders == 1 && writable(v.buf.t) && v.buf.t.DType() == v.dtype && !n.g.anomaly
}

// joint is rules for operations that compute all gradients at once.
func (b *backward) joint(n *node, compute func() ([]*tensor.Tensor, error)) error {
	ts, err := compute()
	if err != nil {
		return err
	}
	landed := n.landed
	n.landed = false
	next := 0
	defer func() {
		for _, t := range ts[next:] { // after an error, or the panic of a hook
			t.Release()
		}
	}()
	for i, v := range n.in {
		if err != nil {
			return err
		}
		next = i + 1
		if !b.flows(n, i) {
			ts[i].Release()
			continue
		}
		if i == 0 && landed {
			err = b.arrived(v)
			continue
		}
		t := ts[i]
		if t == nil { // no gradient is a gradient of zeros: what v depends on waits for one
			t, err = tensor.Zeros(b.g.exec, v.dtype, v.Shape()...)
		}
		if t, err = b.fit(n, i, t, err); err == nil {
			err = b.deliver(v, t)
		}
	}
	return err
}

// fit brings what the rule of input i returned to the input's shape and type. It takes t over.
func (n *node) fit(i int, t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	return n.fitAs(i, n.in[i].dtype, t, err)
}

// fitAs is fit for another type.
func (n *node) fitAs(i int, dt tensor.DType, t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	v := n.in[i]
	if err == nil && !t.Shape().Equal(v.Shape()) {
		t, err = after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.SumTo(v.Shape()...) })
	}
	if err == nil {
		t, err = converted(t, dt)
	}
	if err == nil && n.g.anomaly {
		t, err = finite(t)
	}
	return t, err
}
