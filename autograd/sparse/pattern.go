package sparse

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// Pattern is where the elements of a sparse matrix are. It is the caller's, who releases it, and does not change.
type Pattern struct {
	rows, cols int
	row, col   *tensor.Tensor // int64, one of each for an element
}

// CSR makes the pattern of a matrix of rows by cols in compressed sparse row form (torch.sparse_csr_tensor): the elements of row i are those from
// crow[i] to before crow[i+1], in the columns that col has for them. crow has rows+1 numbers that start with 0, do not fall, and end with the
// number of elements. What is not so is a *tensor.ValueError.
func CSR(e tensor.Exec, rows, cols int, crow, col []int64) (*Pattern, error) {
	const op = "sparse.CSR"
	if rows < 0 || len(crow) != rows+1 || crow[0] != 0 || crow[rows] != int64(len(col)) {
		return nil, refused(op, "%d row limits, for %d rows and %d elements; want one more than rows, from 0 to the number of elements",
			len(crow), rows, len(col))
	}
	row := make([]int64, 0, len(col))
	for i := range rows {
		if crow[i+1] < crow[i] || crow[i+1] > int64(len(col)) {
			return nil, refused(op, "row %d goes from element %d to %d, of %d", i, crow[i], crow[i+1], len(col))
		}
		for range crow[i+1] - crow[i] {
			row = append(row, int64(i))
		}
	}
	return place(op, e, rows, cols, row, col)
}

// COO makes the pattern of a matrix of rows by cols with elements at row[i], col[i], in any order: the edges of a graph from node col[i] to node
// row[i] (torch.sparse_coo_tensor). What is outside of the matrix is a *tensor.ValueError.
func COO(e tensor.Exec, rows, cols int, row, col []int64) (*Pattern, error) {
	const op = "sparse.COO"
	if len(row) != len(col) {
		return nil, refused(op, "%d rows and %d columns of elements", len(row), len(col))
	}
	return place(op, e, rows, cols, row, col)
}

func refused(op, format string, args ...any) error {
	return &tensor.ValueError{Op: op, Detail: fmt.Sprintf(format, args...)}
}

func place(op string, e tensor.Exec, rows, cols int, row, col []int64) (*Pattern, error) {
	if rows < 0 || cols < 0 {
		return nil, refused(op, "a matrix of %d by %d", rows, cols)
	}
	for i := range row {
		if row[i] < 0 || row[i] >= int64(rows) || col[i] < 0 || col[i] >= int64(cols) {
			return nil, refused(op, "element %d is at %d, %d, outside of a matrix of %d by %d", i, row[i], col[i], rows, cols)
		}
	}
	p := &Pattern{rows: rows, cols: cols}
	var err error
	if p.row, err = tensor.FromSlice(e, row, len(row)); err != nil {
		return nil, err
	}
	if p.col, err = tensor.FromSlice(e, col, len(col)); err != nil {
		p.row.Release()
		return nil, err
	}
	return p, nil
}

// Release gives the memory back.
func (p *Pattern) Release() {
	if p != nil && p.row != nil {
		p.row.Release()
		p.col.Release()
	}
}

// Shape is the number of rows and columns, 0 of a nil pattern.
func (p *Pattern) Shape() (rows, cols int) {
	if p == nil {
		return 0, 0
	}
	return p.rows, p.cols
}

// Len is the number of elements.
func (p *Pattern) Len() int {
	if p == nil || p.row == nil {
		return 0
	}
	return p.row.Len()
}

// Row and Col are the places of the elements, of type int64: the pattern's own, borrowed.
func (p *Pattern) Row() *tensor.Tensor {
	if p == nil {
		return nil
	}
	return p.row
}

// Col is the columns; see Row.
func (p *Pattern) Col() *tensor.Tensor {
	if p == nil {
		return nil
	}
	return p.col
}
