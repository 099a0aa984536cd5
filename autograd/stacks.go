package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	vstack        = composite{name: "vstack"}
	hstack        = composite{name: "hstack"}
	dstack        = composite{name: "dstack"}
	columnStack   = composite{name: "column_stack"}
	blockDiag     = composite{name: "block_diag"}
	cartesianProd = composite{name: "cartesian_prod"}
	combinations  = composite{name: "combinations"}
)

// of runs a function of a list. What the check refuses has a count of dimensions, or shapes that do not fit.
func (c composite) of(vs []*Variable, most int, f func(vs []*Variable) *Variable) *Variable {
	return c.run(slices.Clone(vs), func() error {
		for _, v := range vs {
			if v.NDim() > most {
				return c.shapes(fmt.Sprintf("there are at most %d dimensions", most), vs...)
			}
		}
		return nil
	}, f)
}

// joined is run for what Cat makes of several, each of them changed, along dim.
func (c composite) joined(vs []*Variable, dim func(v *Variable) int, change func(v *Variable) *Variable) *Variable {
	return c.of(vs, tensor.MaxDims, func(vs []*Variable) *Variable {
		all := make([]*Variable, len(vs))
		for i, v := range vs {
			all[i] = change(v)
		}
		return Cat(all, dim(all[0]))
	})
}

// atLeast2d is rows: a vector is one of them.
func (v *Variable) atLeast2d() *Variable {
	switch v.NDim() {
	case 0:
		return v.Reshape(1, 1)
	case 1:
		return v.Unsqueeze(0)
	}
	return v
}

// VStack puts variables below each other, along dimension 0: a vector is a row. Of none it is an error.
func VStack(vs ...*Variable) *Variable {
	return vstack.joined(vs, func(*Variable) int { return 0 }, (*Variable).atLeast2d)
}

// HStack puts variables beside each other: vectors along dimension 0, others along dimension 1. Of none it is an error.
func HStack(vs ...*Variable) *Variable {
	return hstack.joined(vs, func(v *Variable) int { return min(v.NDim()-1, 1) }, func(v *Variable) *Variable {
		if v.NDim() == 0 {
			return v.Reshape(1)
		}
		return v
	})
}

// DStack puts variables behind each other, along dimension 2: a matrix gets a third dimension of 1, and a vector is a row. Of none it is an error.
func DStack(vs ...*Variable) *Variable {
	return dstack.joined(vs, func(*Variable) int { return 2 }, func(v *Variable) *Variable {
		if v = v.atLeast2d(); v.NDim() == 2 {
			v = v.Unsqueeze(2)
		}
		return v
	})
}

// ColumnStack puts variables beside each other, along dimension 1: a vector is a column. Of none it is an error.
func ColumnStack(vs ...*Variable) *Variable {
	return columnStack.joined(vs, func(*Variable) int { return 1 }, func(v *Variable) *Variable {
		if v.NDim() < 2 {
			return v.Reshape(v.Len(), 1)
		}
		return v
	})
}

// BlockDiag is the matrix with matrices along its diagonal, and zeros else. A vector is a row. Of none it is an error.
func BlockDiag(vs ...*Variable) *Variable {
	return blockDiag.of(vs, 2, func(vs []*Variable) *Variable {
		width, left := 0, 0
		rows := make([]*Variable, len(vs))
		for i, v := range vs {
			rows[i] = v.atLeast2d()
			width += rows[i].Dim(1)
		}
		for i, v := range rows {
			n := v.Dim(1)
			rows[i] = v.Pad([]int{left, width - left - n}, tensor.PadConstant, 0)
			left += n
		}
		return Cat(rows, 0)
	})
}

// CartesianProd is all combinations of the elements of vectors, one in each row; of one vector it is the vector. Of none it is an error.
func CartesianProd(vs ...*Variable) *Variable {
	return cartesianProd.of(vs, 1, func(vs []*Variable) *Variable {
		if len(vs) == 1 {
			return vs[0].Reshape(vs[0].Len())
		}
		n := 1
		for _, v := range vs {
			n *= v.Len()
		}
		return Stack(MeshGrid(vs, false), -1).Reshape(n, len(vs))
	})
}

// Combinations is all choices of r elements of a vector, in its order, one in each row; with replacement an element may come again. PyTorch's defaults are
// 2 and false.
func (v *Variable) Combinations(r int, withReplacement bool) *Variable {
	c := combinations
	var rows []int64
	return c.run([]*Variable{v}, func() error {
		if v.NDim() != 1 || r < 0 {
			return c.shapes(fmt.Sprintf("choices of %d elements are of a vector", r), v)
		}
		if choices(v.Len(), r, withReplacement) > mostChoices {
			return c.values("there are too many choices of %d of %d elements", r, v.Len())
		}
		rows = chosenRows(v.Len(), r, withReplacement)
		return nil
	}, func(in []*Variable) *Variable {
		if r == 0 {
			return in[0].Narrow(0, 0, 0)
		}
		return in[0].IndexSelect(0, FromSlice(v.g, rows, len(rows))).Reshape(len(rows)/r, r)
	})
}

// mostChoices is how many numbers choices may have: their indices are made in Go's memory.
const mostChoices = 3 << 23

// choices is about how many numbers the choices have.
func choices(n, r int, again bool) float64 {
	if again && n > 0 {
		if r > mostChoices { // one choice is too many, and n+r may be more than an int
			return float64(r)
		}
		n += r - 1
	}
	if r > n {
		return 0
	}
	count := float64(r)
	for i := range min(r, n-r) {
		count *= float64(n-i) / float64(i+1)
		if count > 4*tooLarge {
			break
		}
	}
	return count
}

// chosenRows are the indices of the choices, in lexicographic order.
func chosenRows(n, r int, again bool) (rows []int64) {
	if r == 0 || n == 0 || r > n && !again {
		return []int64{}
	}
	rows = make([]int64, 0, int(choices(n, r, again))+r) // rounded, if at all, by less than a row
	row, last := make([]int64, r), make([]int64, r)
	for at := range row {
		if last[at] = int64(n - 1); !again {
			row[at], last[at] = int64(at), int64(n-r+at)
		}
	}
	for {
		rows = append(rows, row...)
		at := r - 1
		for at >= 0 && row[at] == last[at] {
			at--
		}
		if at < 0 {
			return rows
		}
		row[at]++
		for k := at + 1; k < r; k++ {
			if row[k] = row[at]; !again {
				row[k] += int64(k - at)
			}
		}
	}
}
