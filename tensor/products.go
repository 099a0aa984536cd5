package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// The functions in this file are MatMul for operands of given dimensions. All operands have one floating-point type.

// haveDims refuses operands that do not have so many dimensions.
func haveDims(name string, ts []*Tensor, dims ...int) error {
	if err := sameFloat(name, ts...); err != nil {
		return err
	}
	for i, t := range ts {
		if t.NDim() != dims[i] {
			return shapeErr(name, shapesOf(ts), "the %s operand has %s; want %d", ordinal(i), counted(t.NDim(), "dimension"), dims[i])
		}
	}
	return nil
}

// Dot is the sum of the products of two vectors of one length: a scalar.
func (t *Tensor) Dot(u *Tensor) (*Tensor, error) { return t.multiply("Dot", u, 1, 1) }

// MV is the product of a matrix and a vector.
func (t *Tensor) MV(u *Tensor) (*Tensor, error) { return t.multiply("MV", u, 2, 1) }

// MM is the product of two matrices.
func (t *Tensor) MM(u *Tensor) (*Tensor, error) { return t.multiply("MM", u, 2, 2) }

// BMM is the products of two batches of matrices, [B, M, K] and [B, K, N]. The batches do not broadcast.
func (t *Tensor) BMM(u *Tensor) (*Tensor, error) { return t.multiply("BMM", u, 3, 3) }

func (t *Tensor) multiply(name string, u *Tensor, dims ...int) (*Tensor, error) {
	ts := []*Tensor{t, u}
	if err := haveDims(name, ts, dims...); err != nil {
		return nil, err
	}
	if t.NDim() == 3 && t.Dim(0) != u.Dim(0) {
		return nil, shapeErr(name, shapesOf(ts), "batches have %d and %d matrices", t.Dim(0), u.Dim(0))
	}
	return t.matMul(name, u)
}

// Outer is the products of all elements of a vector with all elements of another: [N] and [M] give [N, M], in the promoted type.
func (t *Tensor) Outer(u *Tensor) (*Tensor, error) {
	const name = "Outer"
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	if t.NDim() != 1 || u.NDim() != 1 {
		return nil, shapeErr(name, []Shape{t.Shape(), u.Shape()}, "both must be vectors")
	}
	column := t.layout
	column.insert(1, 1, 1)
	dt := Promote(t.dtype, u.dtype)
	return binary(name, op.Mul, t.under(column), u, dt, dt, scalars{})
}

// BAddBMM is beta*c + alpha * a @ b for batches of matrices a, [B, M, K], and b, [B, K, N], with c broadcast to the product's shape. If
// beta is 0, c is not read. It runs under c's Exec.
func BAddBMM(c, a, b *Tensor, beta, alpha float64) (*Tensor, error) {
	const name = "BAddBMM"
	ts := []*Tensor{c, a, b}
	if err := sameFloat(name, ts...); err != nil {
		return nil, err
	}
	if a.NDim() != 3 || b.NDim() != 3 || a.Dim(0) != b.Dim(0) {
		return nil, shapeErr(name, shapesOf(ts), "factors are [B, M, K] and [B, K, N]")
	}
	out, err := productLayout(name, &a.layout, &b.layout, a, b)
	if err != nil {
		return nil, err
	}
	if _, ok := c.layout.expanded(&out); !ok {
		return nil, shapeErr(name, shapesOf(ts), "the first does not broadcast to the product, %v", out.dims())
	}
	if err := factors(name, c.dtype, beta, alpha); err != nil {
		return nil, err
	}
	p := product{alpha: alpha, beta: beta, a: a, b: b, c: c, la: a.layout, lb: b.layout, lc: c.layout, out: out}
	return p.run(name, c.exec)
}
