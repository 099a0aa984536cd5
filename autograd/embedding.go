package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// EmbeddingOption changes Embedding.
type EmbeddingOption func(*embeddingArg)

// PaddingIdx names a row that gets no gradient, counted from the end if it is negative.
func PaddingIdx(row int) EmbeddingOption {
	return func(a *embeddingArg) { a.pads, a.padding = true, row }
}

type embeddingArg struct {
	pads    bool
	padding int
}

// row is the padding row of a table of rows, -1 if there is none.
func (a embeddingArg) row(rows int) (int, error) {
	switch {
	case !a.pads:
		return -1, nil
	case rows == 0:
		return 0, fmt.Errorf("padding row %d of a table without rows", a.padding)
	case a.padding < -rows || a.padding >= rows:
		return 0, fmt.Errorf("padding row %d is not in %d..%d", a.padding, -rows, rows-1)
	case a.padding < 0:
		return a.padding + rows, nil
	}
	return a.padding, nil
}

// Embedding takes row index[...] of v, [rows, width], for each element of index, of type int64 and any shape: the result has
// the shape of index, and width. The gradient is dense; rows that were taken several times add theirs in the order of the index, so
// that it is the same bits every time. Rows are not renormalised (PyTorch's max_norm). Saves index.
func (v *Variable) Embedding(index *Variable, opts ...EmbeddingOption) *Variable {
	var a embeddingArg
	for _, o := range opts {
		if o != nil {
			o(&a)
		}
	}
	return embedding.apply(a, v, index)
}

var embedding = define("embedding", embeddingForward, rule{uses: input(1), grad: embeddingGrad}, notDifferentiable(indexHasNone))

func embeddingForward(n *node) (*tensor.Tensor, error) {
	table, index := n.tensor(0), n.tensor(1)
	if table.NDim() != 2 {
		return nil, &tensor.ShapeError{Op: "Embedding", Shapes: []tensor.Shape{table.Shape().Clone(), index.Shape().Clone()}, Detail: "the table is [rows, width]"}
	}
	if _, err := n.arg.(embeddingArg).row(table.Dim(0)); err != nil {
		return nil, err
	}
	var w work
	rows := w.do(table.IndexSelect(0, w.do(index.Reshape(index.Len()))))
	return w.result(rows.View(append(index.Shape().Clone(), table.Dim(1))...))
}

// embeddingGrad adds each row of g to where it was taken from, among zeros. The padding row is zero again.
func embeddingGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	table := n.in[0].Shape()
	padding, err := n.arg.(embeddingArg).row(table[0])
	if err != nil {
		return nil, err
	}
	full, err := tensor.Zeros(g.Exec(), g.DType(), table...)
	if err != nil {
		return nil, err
	}
	if err = addRows(full, n.savedInput(1), g); err == nil && padding >= 0 {
		err = zeroRow(full, padding)
	}
	if err != nil {
		full.Release()
		return nil, err
	}
	return full, nil
}

// addRows adds the rows of g, [..., width], to those of table that index, [...], names.
func addRows(table, index, g *tensor.Tensor) error {
	flat, err := index.Reshape(index.Len())
	if err != nil {
		return err
	}
	defer flat.Release()
	rows, err := g.Reshape(index.Len(), table.Dim(1))
	if err != nil {
		return err
	}
	defer rows.Release()
	return table.IndexAddInPlace(0, flat, rows)
}

func zeroRow(table *tensor.Tensor, row int) error {
	r, err := table.Select(0, row)
	if err != nil {
		return err
	}
	defer r.Release()
	return r.ZeroInPlace()
}
