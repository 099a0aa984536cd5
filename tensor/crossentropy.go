package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// ClassLoss says how rows of logits are compared with classes. PyTorch's default for IgnoreIndex is -100.
type ClassLoss struct {
	Weight         *Tensor // [C], of the logits' type: what a row of each class counts; nil for 1
	LabelSmoothing float64 // in 0..1: the share of each row's target that is spread over all classes
	IgnoreIndex    int64   // the class whose rows have no loss
}

// CrossEntropy is the loss of each row of logits [N, C] against its class, [N] of type int64: with p = softmax(logits) along the
// classes, -log(p[class])*w[class], smoothed as ClassLoss says, and 0 for rows to ignore. Besides loss it gives what the
// gradient and the mean need: lse, [2, N], of each row m = max(logits) and log(sum(exp(logits - m))), which is rounded away in
// their sum where m is large; and weight, that of each row's class, or 0. Loss and weight are [N]. All are float32 (float64 for
// logits of that type): losses of logits in half precision are not rounded. A class outside 0..C-1 makes the work fail on the
// device, which the next wait reports.
func CrossEntropy(logits, classes *Tensor, c ClassLoss) (loss, lse, weight *Tensor, err error) {
	const name = "CrossEntropy"
	if err := c.check(name, logits, classes); err != nil {
		return nil, nil, nil, err
	}
	rows, wide := classes.layout.packed(), op.ComputeType(logits.dtype)
	both := layout{ndim: 2}
	both.shape[0], both.shape[1] = 2, classes.Len()
	both.pack()
	var out [3]*Tensor
	for i, l := range []*layout{&rows, &both, &rows} {
		if err == nil {
			out[i], err = alloc(name, logits.exec, wide, l)
		}
	}
	if err == nil && classes.Len() > 0 {
		l := begin(op.CrossEntropy, logits.exec)
		for _, t := range out {
			l.out(t, &t.layout)
		}
		l.in(logits, &logits.layout)
		l.in(classes, &classes.layout)
		err = c.run(name, l)
	}
	if err != nil {
		for _, t := range out {
			t.Release()
		}
		return nil, nil, nil, err
	}
	return out[0], out[1], out[2], nil
}

// CrossEntropy is the gradient of tensor.CrossEntropy with respect to the logits, for the gradient grad, [N], of the loss of each
// row, which has the type of the loss; lse is what CrossEntropy gave.
func (gradients) CrossEntropy(grad, logits, classes, lse *Tensor, c ClassLoss) (*Tensor, error) {
	const name = "CrossEntropyGrad"
	if err := c.checkGrad(name, grad, logits, classes, lse); err != nil {
		return nil, err
	}
	r, err := alloc(name, logits.exec, logits.dtype, &logits.layout)
	if err != nil {
		return nil, err
	}
	if err := c.grad(name, r, grad, logits, classes, lse); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// CrossEntropyInPlace is CrossEntropy, the gradient, written over the logits, so that no second tensor of their size is needed.
func (gradients) CrossEntropyInPlace(logits, grad, classes, lse *Tensor, c ClassLoss) error {
	const name = "CrossEntropyGradInPlace"
	if err := c.checkGrad(name, grad, logits, classes, lse); err != nil {
		return err
	}
	if err := logits.writable(name); err != nil {
		return err
	}
	logits.storage.changed()
	return c.grad(name, logits, grad, logits, classes, lse)
}

func (c ClassLoss) grad(name string, r, grad, logits, classes, lse *Tensor) error {
	if r.Len() == 0 {
		return nil
	}
	l := begin(op.CrossEntropyGrad, logits.exec)
	l.out(r, &r.layout)
	for _, t := range []*Tensor{grad, logits, classes, lse} {
		l.in(t, &t.layout)
	}
	return c.run(name, l)
}

// run adds the weights and the scalars, and runs the call.
func (c ClassLoss) run(name string, l *launch) error {
	if c.Weight != nil {
		l.in(c.Weight, &c.Weight.layout)
	}
	l.call.F[0], l.call.I[0] = c.LabelSmoothing, c.IgnoreIndex
	return l.run(name)
}

func (c ClassLoss) check(name string, logits, classes *Tensor) error {
	operands := []*Tensor{logits, classes}
	if c.Weight != nil {
		operands = append(operands, c.Weight)
	}
	if err := together(name, operands...); err != nil {
		return err
	}
	if err := checkClasses(name, "logits", logits, classes); err != nil {
		return err
	}
	if c.Weight != nil && c.Weight.dtype != logits.dtype {
		return dtypeErr(name, "logits and weights are of one type; To converts", dtypesOf(operands)...)
	}
	if logits.NDim() != 2 || classes.NDim() != 1 || logits.Dim(0) != classes.Dim(0) {
		return shapeErr(name, shapesOf(operands), "logits are [N, C], classes [N]")
	}
	if c.Weight != nil && (c.Weight.NDim() != 1 || c.Weight.Dim(0) != logits.Dim(1)) {
		return shapeErr(name, shapesOf(operands), "weights are [C], one for each class")
	}
	if !(c.LabelSmoothing >= 0 && c.LabelSmoothing <= 1) {
		return valueErr(name, "label smoothing is %v; it must be in 0..1", c.LabelSmoothing)
	}
	return nil
}

func (c ClassLoss) checkGrad(name string, grad, logits, classes, lse *Tensor) error {
	if err := c.check(name, logits, classes); err != nil {
		return err
	}
	if err := together(name, logits, grad, lse); err != nil {
		return err
	}
	if wide := op.ComputeType(logits.dtype); grad.dtype != wide || lse.dtype != wide {
		return dtypeErr(name, "gradients and lse are of the type of computation, "+wide.String(), grad.dtype, lse.dtype)
	}
	if !grad.Shape().Equal(classes.Shape()) || !lse.Shape().Equal(Shape{2, classes.Len()}) || !lse.IsContiguous() {
		return shapeErr(name, shapesOf([]*Tensor{logits, classes, grad, lse}), "gradients are [N], lse is [2, N] and contiguous")
	}
	return nil
}
