package tensor

import (
	"fmt"
	"math"
)

// TrilIndices is the rows and columns, [2, n] of int64, of the elements of a matrix on and below a diagonal, row by row (torch.tril_indices). It copies
// them from the host.
func TrilIndices(e Exec, rows, columns, diagonal int) (*Tensor, error) {
	return triangleIndices(e, "TrilIndices", rows, columns, func(i int) (int, int) { return 0, offsetBy(i, diagonal, 1) })
}

// TriuIndices is the rows and columns, [2, n] of int64, of the elements of a matrix on and above a diagonal, row by row (torch.triu_indices). It copies
// them from the host.
func TriuIndices(e Exec, rows, columns, diagonal int) (*Tensor, error) {
	return triangleIndices(e, "TriuIndices", rows, columns, func(i int) (int, int) { return offsetBy(i, diagonal, 0), columns })
}

// offsetBy is i + diagonal + more within what any matrix has.
func offsetBy(i, diagonal, more int) int {
	return i + min(max(diagonal, -math.MaxInt32), math.MaxInt32) + more
}

// triangleIndices has the columns from and up to those that of says for each row.
func triangleIndices(e Exec, op string, rows, columns int, of func(row int) (from, to int)) (*Tensor, error) {
	const most = 1 << 30
	if rows < 0 || columns < 0 || rows >= most || columns >= most || rows*columns >= most {
		return nil, &ValueError{Op: op, Detail: fmt.Sprintf("there are %d rows and %d columns; each is at least 0, and there are less than %d elements", rows, columns, most)}
	}
	var first, second []int64
	for i := range rows {
		from, to := of(i)
		for j := max(from, 0); j < min(to, columns); j++ {
			first, second = append(first, int64(i)), append(second, int64(j))
		}
	}
	return FromSlice(e, append(first, second...), 2, len(second))
}
