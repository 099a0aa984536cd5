package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// The types of gradients on their way. A gradient has its variable's type wherever a program sees it: in leaves, hooks, RetainGrad and Grad. But between
// two operations it may have another one, if the rules of the operation that made the variable take any (op.anyGrad). So a weight's gradient, which a
// product computes in float32, need not be rounded to the half precision of the weight's cast, only to be converted to float32 for the leaf (rule.wide);
// and a gradient in half precision for a result in float32, which is the same number, need not be converted before the kernel that reads it does so by
// itself. Other rules round as ever: the gradient of a conversion to float16 that a program asks for overflows where PyTorch's does.

// takesAnyGrad marks an operation.
func takesAnyGrad(o *op) *op {
	o.anyGrad = true
	return o
}

// fit is node.fit, but leaves the type of a gradient that may have any.
func (b *backward) fit(n *node, i int, t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	v := n.in[i]
	dt := v.dtype
	if err == nil && v.node != nil && v.node.op.anyGrad && (n.op.rule(i).wide || dt == tensor.Float32 && t.DType().Size() == 2) {
		dt = t.DType()
	}
	return n.fitAs(i, dt, t, err)
}

// oneType makes a gradient that arrives at v, and those that have arrived, of one type in which they can be added: a type that holds both, and v's.
// It takes t over.
func (b *backward) oneType(v *Variable, t *tensor.Tensor) (*tensor.Tensor, error) {
	if v.buf == nil || v.buf.t.DType() == v.dtype && t.DType() == v.dtype {
		return t, nil
	}
	have, dt := v.buf.t.DType(), v.dtype
	if have == tensor.Float32 || t.DType() == tensor.Float32 { // of types that differ one is: gradients are in half precision or in that
		dt = tensor.Float32
	}
	t, err := converted(t, dt)
	if err != nil {
		return nil, err
	}
	if err := b.convert(v, dt); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// asSeen gives the complete gradient of v the type of v, if anybody is going to look at it.
func (b *backward) asSeen(v *Variable) error {
	_, wanted := b.wanted[v]
	if len(v.hooks.list) == 0 && !v.retain && !wanted && !slices.Contains(b.roots, v) {
		return nil
	}
	return b.convert(v, v.dtype)
}

// convert converts what has arrived at v.
func (b *backward) convert(v *Variable, dt tensor.DType) error {
	if v.buf.t.DType() == dt {
		return nil
	}
	t, err := v.buf.t.To(dt)
	if err != nil {
		return err
	}
	b.g.ledger.drop(v.buf)
	v.buf = b.g.ledger.add(t)
	return nil
}

// converted is t in a type. It takes t over.
func converted(t *tensor.Tensor, dt tensor.DType) (*tensor.Tensor, error) {
	if t.DType() == dt {
		return t, nil
	}
	return after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(dt) })
}

// gradType is the type in which the gradient of input i is wanted in the end: that of the input, or, if the input is a conversion of which
// nobody looks at the gradient, of what was converted.
func (n *node) gradType(i int) tensor.DType {
	v := n.in[i]
	if b := n.g.pass; b == nil || b.create || v.node == nil || v.node.op != to || len(v.hooks.list) > 0 || v.retain {
		return v.dtype
	} else if _, wanted := b.wanted[v]; wanted {
		return v.dtype
	}
	return v.node.in[0].dtype
}

// flowing reports whether the operation has an input i, and it gets a gradient in the pass that runs.
func (n *node) flowing(i int) bool {
	return i < len(n.in) && n.g.pass != nil && n.g.pass.flows(n, i)
}
