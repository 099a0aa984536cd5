package tensor

import (
	"slices"

	"github.com/cistern-ml/cistern/kernels/op"
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
		return nil, valueErr(name, "equation %q: no operands", text)
	}
	if err := sameFloat(name, ts...); err != nil {
		return nil, err
	}
	e, err := parseEquation(name, text, shapesOf(ts))
	if err != nil {
		return nil, err
	}
	if len(e.out) > MaxDims {
		return nil, shapeErr(name, shapesOf(ts), "equation %q: the result has %d dimensions, at most %d are allowed", text, len(e.out), MaxDims)
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

// EinsumGrad is the gradient of Einsum with respect to operand i, of the given shape, for the gradient grad of the result. ts[i] is not
// read and may be nil. It is an Einsum itself, of grad and the other operands.
func EinsumGrad(text string, i int, shape Shape, grad *Tensor, ts ...*Tensor) (*Tensor, error) {
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
		return nil, shapeErr(name, append([]Shape{grad.Shape()}, shapes...), "equation %q: the gradient does not have the shape of the result", text)
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
	if !repeated {
		if !x.made {
			return x.t.handle(&l, ts[0].exec), nil
		}
		x.t.layout = l
		return x.t, nil
	}
	defer x.release()
	r, err := filled(name, ts[0].exec, 0, ts[0].dtype, shape)
	if err != nil {
		return nil, err
	}
	diagonal, err := e.term(name, r, e.in[i])
	if err == nil {
		to := e.arranged(&diagonal, once, false)
		err = r.write(name, &to, x.t, &l)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// reduceAll contracts the operands, from the left to the right, to the labels in out. The result may be the first operand itself.
func (e *equation) reduceAll(name string, ts []*Tensor, labels [][]int, out []int) (term, error) {
	x, err := e.term(name, ts[0], labels[0])
	if err != nil {
		return x, err
	}
	exec := ts[0].exec
	for i, t := range ts[1:] {
		y, err := e.term(name, t, labels[i+1])
		keep := slices.Concat(append([][]int{out}, labels[i+2:]...)...)
		last := exec.Owned()
		if i+2 == len(ts) {
			last = exec
		}
		var z term
		if err == nil {
			z, err = e.contract(name, x, y, keep, last)
		}
		x.release()
		if err != nil {
			return term{}, err
		}
		x = z
	}
	if len(ts) > 1 {
		return x, nil
	}
	return e.sumOut(name, x, out, exec)
}

// sumOut sums the dimensions of x whose labels are not in keep. Without such dimensions it is x itself.
func (e *equation) sumOut(name string, x term, keep []int, exec Exec) (term, error) {
	var set axes
	var labels []int
	for d, label := range x.labels {
		if set[d] = !slices.Contains(keep, label); !set[d] {
			labels = append(labels, label)
		}
	}
	if len(labels) == len(x.labels) {
		return x, nil
	}
	r, err := x.t.under(x.l).reduceAxes(name, op.Sum, x.t.dtype, exec, set, false, 0)
	if err != nil {
		return term{}, err
	}
	return term{r, r.layout, labels, true}, nil
}

// contract multiplies a and b and sums over the labels that both have and that are not in keep. It leaves a and b alone.
func (e *equation) contract(name string, a, b term, keep []int, exec Exec) (term, error) {
	x, err := e.sumOut(name, a, slices.Concat(keep, b.labels), exec.Owned())
	if err != nil {
		return term{}, err
	}
	if x.t != a.t {
		defer x.release()
	}
	y, err := e.sumOut(name, b, slices.Concat(keep, a.labels), exec.Owned())
	if err != nil {
		return term{}, err
	}
	if y.t != b.t {
		defer y.release()
	}
	var batch, summed, left, right []int
	for _, label := range x.labels {
		switch {
		case !slices.Contains(y.labels, label):
			left = append(left, label)
		case slices.Contains(keep, label):
			batch = append(batch, label)
		default:
			summed = append(summed, label)
		}
	}
	for _, label := range y.labels {
		if !slices.Contains(x.labels, label) {
			right = append(right, label)
		}
	}
	labels := slices.Concat(batch, left, right)
	if len(labels) > MaxDims || len(batch)+len(left)+len(summed) > MaxDims || len(batch)+len(right)+len(summed) > MaxDims {
		return term{}, shapeErr(name, []Shape{x.l.dims(), y.l.dims()}, "equation %q: a product has more than %d dimensions", e.text, MaxDims)
	}
	var r *Tensor
	if len(summed) == 0 {
		p, q := x.t.under(e.arranged(&x, labels, false)), y.t.under(e.arranged(&y, labels, false))
		p.exec = exec
		r, err = binary(name, op.Mul, p, q, p.dtype, p.dtype, scalars{})
	} else {
		r, err = e.multiply(name, x, y, [4][]int{batch, left, summed, right}, exec)
	}
	if err != nil {
		return term{}, err
	}
	return term{r, r.layout, labels, true}, nil
}

// multiply is the product of batches of matrices: the labels are those of the batch, of the left factor alone, of both, and of the right
// factor alone.
func (e *equation) multiply(name string, x, y term, labels [4][]int, exec Exec) (*Tensor, error) {
	batch, left, summed, right := labels[0], labels[1], labels[2], labels[3]
	b, m, k, n := e.shapeOf(batch).Len(), e.shapeOf(left).Len(), e.shapeOf(summed).Len(), e.shapeOf(right).Len()
	p, dropP, err := e.matrices(name, x, slices.Concat(batch, left, summed), b, m, k)
	if err != nil {
		return nil, err
	}
	defer dropP()
	q, dropQ, err := e.matrices(name, y, slices.Concat(batch, summed, right), b, k, n)
	if err != nil {
		return nil, err
	}
	defer dropQ()
	out, err := newLayout(name, []int{b, m, n})
	if err != nil {
		return nil, err
	}
	product := product{alpha: 1, a: p, b: q, la: p.layout, lb: q.layout, out: out}
	r, err := product.run(name, exec)
	if err != nil {
		return nil, err
	}
	l, err := newLayout(name, e.shapeOf(slices.Concat(batch, left, right)))
	if err != nil {
		r.Release()
		return nil, err
	}
	r.layout = l
	return r, nil
}

// matrices is x with its labels in the given order as a batch of b matrices, by a copy if the strides want it. The caller calls the function
// that it returns.
func (e *equation) matrices(name string, x term, order []int, b, rows, columns int) (*Tensor, func(), error) {
	l := e.arranged(&x, order, false)
	to, err := newLayout(name, []int{b, rows, columns})
	if err != nil {
		return nil, nil, err
	}
	if r, ok := l.reshaped(&to); ok {
		return x.t.under(r), func() {}, nil
	}
	c, err := x.t.under(l).convert(name, x.t.dtype, x.t.exec.Owned())
	if err != nil {
		return nil, nil, err
	}
	c.layout = to
	return c, c.Release, nil
}

// TensorDot sums the products of t and u over pairs of dimensions: those of t in dims, and those of u in others. The result has the other
// dimensions of t, then those of u. Both have one floating-point type.
func (t *Tensor) TensorDot(u *Tensor, dims, others []int) (*Tensor, error) {
	const name = "TensorDot"
	if err := sameFloat(name, t, u); err != nil {
		return nil, err
	}
	text, err := TensorDotEquation(t.Shape(), u.Shape(), dims, others)
	if err != nil {
		return nil, err
	}
	return einsum(name, text, []*Tensor{t, u})
}

// TensorDotEquation is the equation for Einsum that does what TensorDot does with operands of these shapes.
func TensorDotEquation(t, u Shape, dims, others []int) (string, error) {
	const name = "TensorDot"
	shapes := []Shape{t, u}
	if len(dims) != len(others) {
		return "", shapeErr(name, shapes, "%d dimensions of one and %d of the other", len(dims), len(others))
	}
	letters := [2][]byte{make([]byte, len(t)), make([]byte, len(u))}
	for k := range dims {
		c := byte('A' + k)
		for s, d := range []int{dims[k], others[k]} {
			l := layout{ndim: len(shapes[s])}
			copy(l.shape[:], shapes[s])
			i, err := l.axis(name, d)
			if err != nil {
				return "", err
			}
			if len(shapes[s]) == 0 || letters[s][i] != 0 {
				return "", shapeErr(name, shapes, "dimension %d is named twice, or of a scalar", d)
			}
			letters[s][i] = c
		}
	}
	next, out := byte('a'), []byte{}
	for s := range letters {
		for i, c := range letters[s] {
			if c == 0 {
				letters[s][i] = next
				out = append(out, next)
				next++
			}
		}
	}
	return string(letters[0]) + "," + string(letters[1]) + "->" + string(out), nil
}
