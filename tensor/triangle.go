package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Tril keeps the elements on the diagonal, moved so many columns to the right, and left of it, in each matrix of the last two
// dimensions; the others become 0.
func (t *Tensor) Tril(diagonal int) (*Tensor, error) { return t.triangle("Tril", op.Tril, diagonal) }

// Triu keeps the elements on the diagonal, moved so many columns to the right, and right of it.
func (t *Tensor) Triu(diagonal int) (*Tensor, error) { return t.triangle("Triu", op.Triu, diagonal) }

func (t *Tensor) triangle(name string, id op.ID, diagonal int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.NDim() < 2 {
		return nil, shapeErr(name, []Shape{t.Shape()}, "matrices have two dimensions")
	}
	r, err := alloc(name, t.exec, t.dtype, &t.layout)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(id, t.exec)
	c.call.I[0] = int64(diagonal)
	c.out(r, &r.layout)
	c.in(t, &t.layout)
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// Diag is the diagonal of a matrix, as a view, or a matrix with a vector on its diagonal, moved so many columns to the right.
func (t *Tensor) Diag(diagonal int) (*Tensor, error) {
	const name = "Diag"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	switch t.NDim() {
	case 1:
		return t.diagEmbed(name, diagonal)
	case 2:
		return t.diagonal(name, diagonal, 0, 1)
	}
	return nil, shapeErr(name, []Shape{t.Shape()}, "it takes a vector or a matrix")
}
