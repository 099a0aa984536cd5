package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// MatMul is the matrix product with PyTorch's rules (torch.matmul). Two vectors give their dot product, a scalar; a matrix
// and a vector, or a vector and a matrix, give a vector; with more than two dimensions, the last two are matrices and the
// dimensions before them are a batch, which is broadcast. Both operands have one floating-point type.
func (t *Tensor) MatMul(u *Tensor) (*Tensor, error) {
	return t.matMul("MatMul", u)
}

func (t *Tensor) matMul(name string, u *Tensor) (*Tensor, error) {
	if err := sameFloat(name, t, u); err != nil {
		return nil, err
	}
	if t.NDim() == 0 || u.NDim() == 0 {
		return nil, shapeErr(name, []Shape{t.Shape(), u.Shape()}, "scalars have no matrix product; use Mul")
	}
	a, b := t.layout, u.layout
	if t.NDim() == 1 {
		a.insert(0, 1, 0)
	}
	if u.NDim() == 1 {
		b.insert(1, 1, 0)
	}
	out, err := productLayout(name, &a, &b, t, u)
	if err != nil {
		return nil, err
	}
	p := product{alpha: 1, a: t, b: u, la: a, lb: b, out: out}
	r, err := p.run(name, t.exec)
	if err != nil {
		return nil, err
	}
	if t.NDim() == 1 {
		r.layout.drop(r.layout.ndim - 2)
	}
	if u.NDim() == 1 {
		r.layout.drop(r.layout.ndim - 1)
	}
	return r, nil
}

// productLayout is the row-major layout of the product of matrices a and b, with their batches broadcast.
func productLayout(name string, a, b *layout, t, u *Tensor) (layout, error) {
	shapes := func() []Shape { return []Shape{t.Shape(), u.Shape()} }
	m, k := a.shape[a.ndim-2], a.shape[a.ndim-1]
	if rows := b.shape[b.ndim-2]; rows != k {
		return layout{}, shapeErr(name, shapes(), "inner dimensions differ (%d and %d)", k, rows)
	}
	batch, other := *a, *b
	batch.ndim -= 2
	other.ndim -= 2
	if !batch.broadcast(&other) {
		return layout{}, shapeErr(name, shapes(), "batch dimensions do not broadcast")
	}
	batch.shape[batch.ndim], batch.shape[batch.ndim+1] = m, b.shape[b.ndim-1]
	return newLayout(name, batch.shape[:batch.ndim+2])
}

// product is alpha * a @ b + beta * c, with the layouts under which the operands are matrices or batches of them.
type product struct {
	alpha, beta float64
	a, b, c     *Tensor
	la, lb, lc  layout
	out         layout
}

// run computes the product into a new tensor under e.
func (p *product) run(name string, e Exec) (*Tensor, error) {
	r, err := alloc(name, e, p.a.dtype, &p.out)
	if err != nil {
		return nil, err
	}
	if r.Len() == 0 {
		return r, nil
	}
	p.fold()
	c := begin(op.MatMul, e)
	c.call.F[0], c.call.F[1] = p.alpha, p.beta
	c.out(r, &p.out)
	a := p.batched(&p.la)
	c.in(p.a, &a)
	b := p.batched(&p.lb)
	c.in(p.b, &b)
	if p.beta != 0 {
		added, _ := p.lc.expanded(&p.out)
		c.in(p.c, &added)
	}
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// fold turns a batch of matrices times one matrix into one tall matrix times that matrix, if a's strides allow it: one
// large product is faster than many small ones.
func (p *product) fold() {
	if p.lb.ndim != 2 || p.la.ndim <= 2 || p.out.len() == 0 {
		return
	}
	tall := layout{ndim: 2}
	tall.shape[1] = p.la.shape[p.la.ndim-1]
	rows := p.out
	rows.ndim--
	tall.shape[0] = rows.len()
	a, ok := p.la.reshaped(&tall)
	if !ok {
		return
	}
	added := layout{}
	if p.beta != 0 {
		whole, _ := p.lc.expanded(&p.out)
		flat := tall
		flat.shape[1] = p.out.shape[p.out.ndim-1]
		if added, ok = whole.reshaped(&flat); !ok {
			return
		}
	}
	n := p.out.shape[p.out.ndim-1]
	p.out = layout{ndim: 2}
	p.out.shape[0], p.out.shape[1] = tall.shape[0], n
	p.out.pack()
	p.la, p.lc = a, added
}

// batched gives the layout of an operand the batch dimensions of the result.
func (p *product) batched(l *layout) layout {
	to := p.out
	to.shape[to.ndim-2], to.shape[to.ndim-1] = l.shape[l.ndim-2], l.shape[l.ndim-1]
	r, _ := l.expanded(&to)
	return r
}

// AddMM is beta*c + alpha * a @ b for matrices a and b, with c broadcast to the product's shape. If beta is 0, c is not
// read. It runs under c's Exec. All operands have one floating-point type.
func AddMM(c, a, b *Tensor, beta, alpha float64) (*Tensor, error) {
	const name = "AddMM"
	if err := sameFloat(name, c, a, b); err != nil {
		return nil, err
	}
	shapes := []Shape{c.Shape(), a.Shape(), b.Shape()}
	if a.NDim() != 2 || b.NDim() != 2 {
		return nil, shapeErr(name, shapes, "the product needs two matrices")
	}
	out, err := productLayout(name, &a.layout, &b.layout, a, b)
	if err != nil {
		return nil, err
	}
	if _, ok := c.layout.expanded(&out); !ok {
		return nil, shapeErr(name, shapes, "the first does not broadcast to the product's shape %v", out.dims())
	}
	if err := factors(name, c.dtype, beta, alpha); err != nil {
		return nil, err
	}
	p := product{alpha: alpha, beta: beta, a: a, b: b, c: c, la: a.layout, lb: b.layout, lc: c.layout, out: out}
	return p.run(name, c.exec)
}

// Linear is x @ wᵀ + bias: x is [..., K], w is [N, K], bias is [N] or nil, the result [..., N]. The bias is added as the
// product is written. It runs under x's Exec. All operands have one floating-point type.
func Linear(x, w, bias *Tensor) (*Tensor, error) {
	const name = "Linear"
	p, err := linearProduct(name, x, w, bias)
	if err != nil {
		return nil, err
	}
	r, err := p.run(name, x.exec)
	return unrow(x, r), err
}

// linearProduct checks the operands of Linear and returns what is to be computed. A vector x is a matrix of one row.
func linearProduct(name string, x, w, bias *Tensor) (product, error) {
	operands := [3]*Tensor{x, w, bias}
	used := operands[:2]
	if bias != nil {
		used = operands[:]
	}
	if err := sameFloat(name, used...); err != nil {
		return product{}, err
	}
	switch {
	case x.NDim() == 0 || w.NDim() != 2:
		return product{}, shapeErr(name, shapesOf(used), "inputs are [..., K], weights [N, K]")
	case x.Dim(-1) != w.Dim(1):
		return product{}, shapeErr(name, shapesOf(used), "the input has %d features, weights of shape %v take %d", x.Dim(-1), w.Shape(), w.Dim(1))
	}
	if bias != nil && (bias.NDim() != 1 || bias.Dim(0) != w.Dim(0)) {
		return product{}, shapeErr(name, shapesOf(used), "the bias is [N], as many as the weights have rows")
	}
	a, b := x.layout, w.layout
	if a.ndim == 1 {
		a.insert(0, 1, 0)
	}
	b.swap(0, 1)
	out, err := productLayout(name, &a, &b, x, w)
	if err != nil {
		return product{}, err
	}
	p := product{alpha: 1, a: x, b: w, la: a, lb: b, out: out}
	if bias != nil {
		p.beta, p.c, p.lc = 1, bias, bias.layout
	}
	return p, nil
}

// unrow drops the row that linearProduct gave to a vector x from its result r, which may be nil.
func unrow(x, r *Tensor) *Tensor {
	if r != nil && x.NDim() == 1 {
		r.layout.drop(0)
	}
	return r
}
