package autograd

import "github.com/cistern-ml/cistern/tensor"

// rules computes and delivers the gradient of each input that needs one.
func (b *backward) rules(n *node, g *tensor.Tensor) error {
	if n.op.joint != nil {
		return b.joint(n, g)
	}
	for i, v := range n.in {
		if !n.flows(i) {
			continue
		}
		if r := n.op.rule(i); r.add != nil && b.addable(n, v, g) {
			if err := r.add(n, i, g, v.buf.t); err != nil {
				return err
			}
			if err := b.arrived(v); err != nil {
				return err
			}
			continue
		}
		t, err := n.op.rule(i).grad(n, i, g)
		if t, err = n.fit(i, t, err); err != nil {
			return err
		}
		if err := b.deliver(v, t); err != nil {
			return err
		}
	}
	return nil
}

// addable reports whether a gradient of v may be added to those that have arrived before.
func (b *backward) addable(n *node, v *Variable, g *tensor.Tensor) bool {
	return v.buf != nil && v.buf.holders == 1 && writable(v.buf.t) && g.DType() == v.dtype && !n.g.anomaly
}

// joint is rules for operations that compute all gradients at once.
func (b *backward) joint(n *node, g *tensor.Tensor) error {
	ts, err := n.op.joint(n, g)
	if err != nil {
		return err
	}
	for i, v := range n.in {
		if !n.flows(i) || err != nil {
			ts[i].Release()
			continue
		}
		var t *tensor.Tensor
		if t, err = n.fit(i, ts[i], nil); err == nil {
			err = b.deliver(v, t)
		}
	}
	return err
}

// fit brings what the rule of input i returned to the input's shape and type. It takes t over.
func (n *node) fit(i int, t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	v := n.in[i]
	if err == nil && !t.Shape().Equal(v.Shape()) {
		t, err = after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.SumTo(v.Shape()...) })
	}
	if err == nil && t.DType() != v.dtype {
		t, err = after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(v.dtype) })
	}
	if err == nil && n.g.anomaly {
		t, err = finite(t)
	}
	return t, err
}
