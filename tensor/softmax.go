package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Softmax is exp(t) / sum(exp(t)) along dim, computed relative to the greatest element. Floating-point types, here and below.
func (t *Tensor) Softmax(dim int) (*Tensor, error) {
	return alongRows("Softmax", op.Softmax, dim, t)
}

// LogSoftmax is the logarithm of Softmax along dim.
func (t *Tensor) LogSoftmax(dim int) (*Tensor, error) {
	return alongRows("LogSoftmax", op.LogSoftmax, dim, t)
}

// Softmax is the gradient of Tensor.Softmax along dim, whose output was out, for the gradient grad of that output.
func (gradients) Softmax(grad, out *Tensor, dim int) (*Tensor, error) {
	return alongRows("SoftmaxGrad", op.SoftmaxGrad, dim, grad, out)
}

// LogSoftmax is the gradient of Tensor.LogSoftmax along dim, whose output was out, for the gradient grad of that output.
func (gradients) LogSoftmax(grad, out *Tensor, dim int) (*Tensor, error) {
	return alongRows("LogSoftmaxGrad", op.LogSoftmaxGrad, dim, grad, out)
}

// alongRows is rowOperation for operands of one floating-point type, which the result has too.
func alongRows(name string, id op.ID, dim int, ts ...*Tensor) (*Tensor, error) {
	if err := sameFloat(name, ts...); err != nil {
		return nil, err
	}
	return rowOperation(name, id, ts[0].dtype, dim, ts...)
}

// rowOperation runs an operation whose kernel works along the last dimension, with a result of type dt: dim is exchanged with the
// last, in the inputs and in the output, by strides. The operands are usable and on one device.
func rowOperation(name string, id op.ID, dt DType, dim int, ts ...*Tensor) (*Tensor, error) {
	first := ts[0]
	axis, err := first.layout.axis(name, dim)
	if err != nil {
		return nil, err
	}
	for _, t := range ts[1:] {
		if !t.Shape().Equal(first.Shape()) {
			return nil, shapeErr(name, shapesOf(ts), "shapes differ")
		}
	}
	var r *Tensor
	if dt == first.dtype {
		packed := first.layout.packed()
		r = donated(first.exec, dt, &packed, ts)
	}
	if r == nil {
		r, err = alloc(name, first.exec, dt, &first.layout)
	}
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(id, first.exec)
	rows := r.layout.rows(axis)
	c.out(r, &rows)
	for _, t := range ts {
		rows := t.layout.rows(axis)
		c.in(t, &rows)
	}
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// rows is l with dimension axis as the last. A scalar is a row of one element.
func (l *layout) rows(axis int) layout {
	r := *l
	if r.ndim == 0 {
		r.insert(0, 1, 1)
	}
	r.swap(axis, r.ndim-1)
	return r
}

// NLL is the negative log-likelihood of each row: logp is [N, C] log-probabilities, target is [N] classes of type int64, the
// result is [N]: -logp[n, target[n]], and 0 where target[n] is ignore (PyTorch's default is -100). A class outside 0..C-1
// makes the work fail on the device, which the next wait reports.
func NLL(logp, target *Tensor, ignore int64) (*Tensor, error) {
	const name = "NLL"
	if err := together(name, logp, target); err != nil {
		return nil, err
	}
	if err := checkClasses(name, "log-probabilities", logp, target); err != nil {
		return nil, err
	}
	if logp.NDim() != 2 || target.NDim() != 1 || logp.Dim(0) != target.Dim(0) {
		return nil, shapeErr(name, []Shape{logp.Shape(), target.Shape()}, "log-probabilities are [N, C], classes [N]")
	}
	return nll(name, op.NLL, logp, target, ignore, target.Shape())
}

// NLL is the gradient of tensor.NLL with respect to logp, which had classes columns, for the gradient grad, [N], of its result.
func (gradients) NLL(grad, target *Tensor, classes int, ignore int64) (*Tensor, error) {
	const name = "NLLGrad"
	if err := together(name, grad, target); err != nil {
		return nil, err
	}
	if !grad.dtype.IsFloat() || target.dtype != Int64 {
		return nil, dtypeErr(name, "gradients are floating point, classes int64", grad.dtype, target.dtype)
	}
	if grad.NDim() != 1 || !target.Shape().Equal(grad.Shape()) || classes < 0 {
		return nil, shapeErr(name, []Shape{grad.Shape(), target.Shape()}, "gradients and classes are [N] (%d classes)", classes)
	}
	return nll(name, op.NLLGrad, grad, target, ignore, Shape{grad.Dim(0), classes})
}

func nll(name string, id op.ID, a, target *Tensor, ignore int64, shape Shape) (*Tensor, error) {
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	r, err := alloc(name, a.exec, a.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(id, a.exec)
	c.call.I[0] = ignore
	c.out(r, &r.layout)
	c.in(a, &a.layout)
	c.in(target, &target.layout)
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// checkClasses refuses types of a loss of classes. scores is what it calls its first operand.
func checkClasses(name, scores string, t, classes *Tensor) error {
	switch {
	case classes.dtype != Int64:
		return dtypeErr(name, "classes are "+classes.dtype.String()+", want int64, the number of the class of each row; To converts", t.dtype, classes.dtype)
	case !t.dtype.IsFloat():
		return dtypeErr(name, scores+" are "+t.dtype.String()+", want a floating-point type; To converts", t.dtype, classes.dtype)
	}
	return nil
}
