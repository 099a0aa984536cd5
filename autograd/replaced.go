package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// What is like a variable but for a part: new values, whose gradients go to both.

var (
	selectScatter   = composite{name: "select_scatter"}
	sliceScatter    = composite{name: "slice_scatter"}
	diagonalScatter = composite{name: "diagonal_scatter"}
	indexReduce     = composite{name: "index_reduce"}
	put             = composite{name: "put"}
)

// fits refuses a source of another shape or type than the part that it is for.
func (c composite) fits(v, src *Variable, shape tensor.Shape) error {
	if v.dtype != src.dtype {
		return &tensor.DTypeError{Op: c.name, DTypes: []tensor.DType{v.dtype, src.dtype}, Detail: "both must be of one type"}
	}
	if !src.Shape().Equal(shape) {
		return c.shapes(fmt.Sprintf("the source must be %v", shape), v, src)
	}
	return nil
}

// SelectScatter is v with src in the place of v.Select(dim, index).
func (v *Variable) SelectScatter(src *Variable, dim, index int) *Variable {
	c, d, at := selectScatter, 0, 0
	return c.run([]*Variable{v, src}, func() (err error) {
		if d, err = c.dim(v, dim); err != nil || v.NDim() == 0 {
			return firstError(err, c.shapes("at least one dimension is needed", v))
		}
		n := v.Dim(d)
		if at = index; at < 0 {
			at += n
		}
		if at < 0 || at >= n {
			return c.shapes(fmt.Sprintf("dimension %d has no element %d", dim, index), v)
		}
		return c.fits(v, src, slices.Delete(v.Shape().Clone(), d, d+1))
	}, func(in []*Variable) *Variable {
		x := in[0]
		return Cat([]*Variable{x.Narrow(d, 0, at), in[1].Unsqueeze(d), x.Narrow(d, at+1, v.Dim(d)-at-1)}, d)
	})
}

// SliceScatter is v with src in the place of v.Slice(dim, start, end, step).
func (v *Variable) SliceScatter(src *Variable, dim, start, end, step int) *Variable {
	c, d, count := sliceScatter, 0, 0
	return c.run([]*Variable{v, src}, func() (err error) {
		if d, err = c.dim(v, dim); err != nil || v.NDim() == 0 {
			return firstError(err, c.shapes("at least one dimension is needed", v))
		}
		if step < 1 {
			return c.values("step is %d; it is at least 1", step)
		}
		n := v.Dim(d)
		bound := func(i int) int {
			if i < 0 {
				i += n
			}
			return min(max(i, 0), n)
		}
		start, end = bound(start), bound(end)
		step = min(step, max(n, 1))
		count = max(0, (end-start+step-1)/step)
		shape := v.Shape().Clone()
		shape[d] = count
		return c.fits(v, src, shape)
	}, func(in []*Variable) *Variable {
		at := v.g.Arange(0, float64(count), 1, tensor.Int64).MulScalar(float64(step)).AddScalar(float64(start))
		return in[0].IndexCopy(d, at, in[1])
	})
}

// DiagonalScatter is v with src in the place of v.Diagonal(offset, a, b). PyTorch's defaults are 0, and the first two dimensions.
func (v *Variable) DiagonalScatter(src *Variable, offset, a, b int) *Variable {
	c, n := diagonalScatter, 0
	return c.run([]*Variable{v, src}, func() error {
		i, err := c.dim(v, a)
		j, err2 := c.dim(v, b)
		if err = firstError(err, err2); err == nil && (i == j || v.NDim() < 2) {
			err = c.shapes("a diagonal has two dimensions", v)
		}
		if err != nil {
			return err
		}
		a, b = i, j
		n = max(0, min(v.Dim(a)+min(offset, 0), v.Dim(b)-max(offset, 0)))
		rest := v.Shape().Clone()
		rest = slices.Delete(rest, max(a, b), max(a, b)+1)
		return c.fits(v, src, append(slices.Delete(rest, min(a, b), min(a, b)+1), n))
	}, func(in []*Variable) *Variable {
		order := []int{}
		for i := range v.NDim() {
			if i != a && i != b {
				order = append(order, i)
			}
		}
		order = append(order, a, b)
		x := in[0].Permute(order...)
		shape, columns := x.Shape().Clone(), v.Dim(b)
		first := max(-offset, 0)*columns + max(offset, 0)
		at := v.g.Arange(0, float64(n), 1, tensor.Int64).MulScalar(float64(columns + 1)).AddScalar(float64(first))
		flat := append(shape[:len(shape)-2:len(shape)-2], v.Dim(a)*columns)
		back := make([]int, len(order))
		for i, d := range order {
			back[d] = i
		}
		if n == 0 {
			return in[0].beside(in[1])
		}
		return x.Reshape(flat...).IndexCopy(-1, at, in[1]).Reshape(shape...).Permute(back...).Contiguous() // as v is in most programs, which may take a View of it
	})
}

// IndexReduce reduces the elements of src along dim, of which index says where each goes, as ScatterReduce does; with self those of v count too. PyTorch
// has all reductions but the sum, which is IndexAdd.
func (v *Variable) IndexReduce(dim int, index, src *Variable, how tensor.ScatterReduction, self bool) *Variable {
	c, d := indexReduce, 0
	return c.run([]*Variable{v, index, src}, func() (err error) {
		if d, err = c.dim(v, dim); err != nil || v.NDim() == 0 {
			return firstError(err, c.shapes("at least one dimension is needed", v))
		}
		if index.NDim() != 1 {
			return c.shapes("the indices are a vector", v, index, src)
		}
		shape := v.Shape().Clone()
		shape[d] = index.Len()
		return c.fits(v, src, shape)
	}, func(in []*Variable) *Variable {
		wide := slices.Repeat([]int{1}, v.NDim())
		wide[d] = index.Len()
		return in[0].ScatterReduce(d, in[1].Reshape(wide...).Expand(src.Shape()...), in[2], how, self)
	})
}

// Put is v with the elements of src in the places, counted in row-major order, that index names; see TakeFlat. Of several for one place the last wins,
// unless they are accumulated.
func (v *Variable) Put(index, src *Variable, accumulate bool) *Variable {
	c := put
	return c.run([]*Variable{v, index, src}, func() error {
		if index.Len() != src.Len() {
			return c.shapes("there are as many elements as indices", v, index, src)
		}
		return nil
	}, func(in []*Variable) *Variable {
		at, from := in[1].Reshape(index.Len()), in[2].Reshape(src.Len())
		return in[0].Reshape(v.Len()).IndexPut([]*Variable{at}, from, accumulate).Reshape(v.Shape()...)
	})
}
