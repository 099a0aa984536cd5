package tensor

import (
	"slices"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Einsum sums products of elements as an equation says (torch.einsum): a letter names each dimension of the operands and of the result,
// as in "bij,bjk->bik"; dimensions that the result lacks are summed, a letter twice in one operand takes the diagonal, and "..."
// stands for the dimensions that are left, which broadcast. Without "->" the result has the letters that stand once, in alphabetical
// order, behind "...". Operands are contracted from the left to the right, each pair by a matrix product; what a pair made is released
// as soon as it has been used. All have one floating-point type. One operand whose dimensions are only put in another order gives a
// view.
func Einsum(text string, ts ...*Tensor) (*Tensor, error) { return einsum("Einsum", text, ts) }

func einsum(name, text string, ts []*Tensor) (*Tensor, error) {
	if len(ts) == 0 {
		return nil, valueErr(name, "equation %q: no operands", excerpt.Of(text))
	}
	if err := sameFloat(name, ts...); err != nil {
		return nil, err
	}
	e, err := parseEquation(name, text, shapesOf(ts))
	if err != nil {
		return nil, err
	}
	if len(e.out) > MaxDims {
		return nil, shapeErr(name, shapesOf(ts), "equation %q: the result has %d dimensions, at most %d are allowed", e.text, len(e.out), MaxDims)
	}
	x, err := e.reduceAll(name, ts, e.in, e.out)
	if err != nil {
		return nil, err
	}
	l := e.arranged(&x, e.out, true)
	if !x.made {
		return x.t.handle(&l, ts[0].exec), nil
	}
	x.t.layout = l // new: nobody else has seen it
	return x.t, nil
}

// Einsum is the gradient of tensor.Einsum with respect to operand i, of the given shape, for the gradient grad of the result. ts[i] is not
// read and may be nil. It is an Einsum itself, of grad and the other operands.
func (gradients) Einsum(text string, i int, shape Shape, grad *Tensor, ts ...*Tensor) (*Tensor, error) {
	const name = "EinsumGrad"
	if i < 0 || i >= len(ts) {
		return nil, valueErr(name, "operand %d of %d", i, len(ts))
	}
	operands := []*Tensor{grad}
	shapes := make([]Shape, len(ts))
	for k, t := range ts {
		if k == i {
			shapes[k] = shape
			continue
		}
		operands = append(operands, t)
		if err := usable(name, t); err != nil {
			return nil, err
		}
		shapes[k] = t.Shape()
	}
	if err := sameFloat(name, operands...); err != nil {
		return nil, err
	}
	e, err := parseEquation(name, text, shapes)
	if err != nil {
		return nil, err
	}
	if !e.shapeOf(e.out).Equal(grad.Shape()) {
		return nil, shapeErr(name, append([]Shape{grad.Shape()}, shapes...), "equation %q: the gradient does not have the shape of the result", excerpt.Of(text))
	}
	labels := append([][]int{e.out}, slices.Delete(slices.Clone(e.in), i, i+1)...)
	return e.gradient(name, i, shape, operands, labels)
}

func (e *equation) shapeOf(labels []int) Shape {
	s := Shape{}
	for _, label := range labels {
		s = append(s, e.size[label])
	}
	return s
}

// gradient contracts the operands to the labels of operand i. Its labels that no other operand has are repeated, those of dimensions
// that it broadcasts are summed, and those that it has twice go to the diagonal.
func (e *equation) gradient(name string, i int, shape Shape, ts []*Tensor, labels [][]int) (*Tensor, error) {
	var want, once []int // labels with their whole size; each label once
	repeated := false
	for d, label := range e.in[i] {
		if slices.Contains(e.in[i][:d], label) {
			repeated = true
			continue
		}
		once = append(once, label)
		if shape[d] == e.size[label] {
			want = append(want, label)
		}
	}
	x, err := e.reduceAll(name, ts, labels, want)
	if err != nil {
		return nil, err
	}
	l := e.arranged(&x, once, false)
	for k, label := range once { // repeat what only operand i has
		if slices.Contains(want, label) && !slices.Contains(x.labels, label) {
			l.shape[k], l.strides[k] = e.size[label], 0
		}
	}
	switch {
	case repeated:
		defer x.release()
		return e.toDiagonal(name, x.t.under(l), shape, e.in[i], once)
	case !x.made:
		return x.t.handle(&l, ts[0].exec), nil
	}
	x.t.layout = l
	return x.t, nil
}

// toDiagonal is zeros of the given shape, with x where dimensions of one label have one place. x has each of the labels once.
func (e *equation) toDiagonal(name string, x *Tensor, shape Shape, labels, once []int) (*Tensor, error) {
	r, err := filled(name, x.exec, 0, x.dtype, shape)
	if err != nil {
		return nil, err
	}
	diagonal, err := e.term(name, r, labels)
	if err == nil {
		to := e.arranged(&diagonal, once, false)
		err = r.write(name, &to, x, &x.layout)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}
