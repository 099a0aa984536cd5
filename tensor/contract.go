package tensor

import (
	"slices"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The contraction of the operands of an Einsum, pair by pair.

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
	parts := divide(x.labels, y.labels, keep)
	labels := slices.Concat(parts.batch, parts.left, parts.right)
	if len(labels) > MaxDims {
		return term{}, shapeErr(name, []Shape{x.l.dims(), y.l.dims()}, "equation %q: a product has more than %d dimensions", e.text, MaxDims)
	}
	var r *Tensor
	if len(parts.summed) == 0 {
		p, q := x.t.under(e.arranged(&x, labels, false)), y.t.under(e.arranged(&y, labels, false))
		p.exec = exec
		r, err = binary(name, op.Mul, p, q, p.dtype, p.dtype, scalars{})
	} else {
		r, err = e.multiply(name, x, y, parts, exec)
	}
	if err != nil {
		return term{}, err
	}
	return term{r, r.layout, labels, true}, nil
}

// division is the labels of a product: those of both operands that stay, of the left one alone, of both that are summed, and of the
// right one alone.
type division struct{ batch, left, summed, right []int }

func divide(x, y, keep []int) (d division) {
	for _, label := range x {
		switch {
		case !slices.Contains(y, label):
			d.left = append(d.left, label)
		case slices.Contains(keep, label):
			d.batch = append(d.batch, label)
		default:
			d.summed = append(d.summed, label)
		}
	}
	for _, label := range y {
		if !slices.Contains(x, label) {
			d.right = append(d.right, label)
		}
	}
	return d
}

// multiply is the product of batches of matrices.
func (e *equation) multiply(name string, x, y term, d division, exec Exec) (*Tensor, error) {
	batch, left, summed, right := d.batch, d.left, d.summed, d.right
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
