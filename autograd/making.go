package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// What makes variables of numbers. They are leaves that require no gradient; Input and RequiresGrad make those that do. Each is the function
// of package tensor of that name, under the graph's Exec; New does the same with any function.

// FromSlice makes a variable of the given shape from data in row-major order; without a shape it has one dimension.
func FromSlice[T tensor.Element](g *Graph, data []T, shape ...int) *Variable {
	return g.make("from_slice", "FromSlice", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e.Owned(), data, shape...) })
}

// FromSliceAs is FromSlice with elements of type dt, to which each number is rounded once; what dt cannot hold is an error. See tensor.FromSliceAs.
func FromSliceAs[T tensor.Element](g *Graph, dt tensor.DType, data []T, shape ...int) *Variable {
	return g.make("from_slice_as", "FromSliceAs", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSliceAs(e.Owned(), dt, data, shape...) })
}

// Zeros makes zeros.
func (g *Graph) Zeros(dt tensor.DType, shape ...int) *Variable {
	return g.make("zeros", "Zeros", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e.Owned(), dt, shape...) })
}

// Ones makes ones.
func (g *Graph) Ones(dt tensor.DType, shape ...int) *Variable {
	return g.make("ones", "Ones", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e.Owned(), dt, shape...) })
}

// Full makes copies of value.
func (g *Graph) Full(value float64, dt tensor.DType, shape ...int) *Variable {
	return g.make("full", "Full", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Full(e.Owned(), value, dt, shape...) })
}

// Scalar makes a variable without dimensions.
func (g *Graph) Scalar(value float64, dt tensor.DType) *Variable {
	return g.make("scalar_tensor", "Scalar", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Scalar(e.Owned(), value, dt) })
}

// Arange makes the numbers from start up to but not including end, step apart.
func (g *Graph) Arange(start, end, step float64, dt tensor.DType) *Variable {
	return g.make("arange", "Arange", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Arange(e.Owned(), start, end, step, dt) })
}

// Linspace makes steps numbers at even distances from start to end.
func (g *Graph) Linspace(start, end float64, steps int, dt tensor.DType) *Variable {
	return g.make("linspace", "Linspace", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Linspace(e.Owned(), start, end, steps, dt) })
}

// Eye makes the n by n identity matrix.
func (g *Graph) Eye(dt tensor.DType, n int) *Variable {
	return g.make("eye", "Eye", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Eye(e.Owned(), dt, n) })
}

// Rand makes uniform numbers in [0, 1), drawn from the graph's Generator, as the others here are.
func (g *Graph) Rand(dt tensor.DType, shape ...int) *Variable {
	return g.make("rand", "Rand", func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.Rand(e.Owned(), g.Generator(), dt, shape...)
	})
}

// RandN makes standard normal numbers.
func (g *Graph) RandN(dt tensor.DType, shape ...int) *Variable {
	return g.make("randn", "RandN", func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.RandN(e.Owned(), g.Generator(), dt, shape...)
	})
}

// RandInt makes whole numbers in lo..hi-1.
func (g *Graph) RandInt(lo, hi int64, dt tensor.DType, shape ...int) *Variable {
	return g.make("randint", "RandInt", func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.RandInt(e.Owned(), g.Generator(), lo, hi, dt, shape...)
	})
}

// RandPerm makes a random permutation of 0..n-1, of type int64, on the device.
func (g *Graph) RandPerm(n int) *Variable {
	return g.make("randperm", "RandPerm", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandPermOn(e.Owned(), g.Generator(), n) })
}

// ZerosLike makes zeros of v's shape and type, and OnesLike, FullLike, RandLike and RandNLike what their names say. No gradient flows to v,
// whose value need not be there any more.
func (v *Variable) ZerosLike() *Variable { return v.like("zeros_like", "ZerosLike", 0) }

// OnesLike makes ones of v's shape and type.
func (v *Variable) OnesLike() *Variable { return v.like("ones_like", "OnesLike", 1) }

// FullLike makes copies of value, of v's shape and type.
func (v *Variable) FullLike(value float64) *Variable { return v.like("full_like", "FullLike", value) }

func (v *Variable) like(op, method string, value float64) *Variable {
	return v.Graph().make(op, method, func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.Full(e.Owned(), value, v.DType(), v.Shape()...)
	})
}

// RandLike makes uniform numbers in [0, 1) of v's shape and type.
func (v *Variable) RandLike() *Variable { return v.randomLike("rand_like", "RandLike", tensor.Rand) }

// RandNLike makes standard normal numbers of v's shape and type.
func (v *Variable) RandNLike() *Variable {
	return v.randomLike("randn_like", "RandNLike", tensor.RandN)
}

func (v *Variable) randomLike(op, method string, draw func(tensor.Exec, *tensor.Generator, tensor.DType, ...int) (*tensor.Tensor, error)) *Variable {
	g := v.Graph()
	return g.make(op, method, func(e tensor.Exec) (*tensor.Tensor, error) {
		return draw(e.Owned(), g.Generator(), v.DType(), v.Shape()...)
	})
}

// Multinomial draws samples indices, of type int64, from each row of v, [M, N] or [N], whose elements say how likely each is, with replacement or
// without; see tensor.Tensor.Multinomial. It waits for the device, to refuse what is no distribution. No gradient flows to v.
func (v *Variable) Multinomial(samples int, replacement bool) *Variable {
	return constant("multinomial", func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
		return ts[0].Multinomial(v.g.Generator(), samples, replacement)
	}, v)
}

// SearchSorted finds where values would be put into v, ascending along its last dimension, so that it stays sorted; see
// tensor.Tensor.SearchSorted. No gradients flow.
func (v *Variable) SearchSorted(values *Variable, right bool) *Variable {
	return constant("searchsorted", func(ts []*tensor.Tensor) (*tensor.Tensor, error) { return ts[0].SearchSorted(ts[1], right) }, v, values)
}

// Bucketize finds which of the ascending boundaries each element of v lies before. No gradients flow.
func (v *Variable) Bucketize(boundaries *Variable, right bool) *Variable {
	return constant("bucketize", func(ts []*tensor.Tensor) (*tensor.Tensor, error) { return ts[0].Bucketize(ts[1], right) }, v, boundaries)
}

// MeshGrid gives each variable, of one dimension or none, a dimension of its own, and expands all of them to all dimensions; xy
// exchanges the first two. See tensor.MeshGrid.
func MeshGrid(vs []*Variable, xy bool) []*Variable {
	g := graphOf(vs)
	shape, err := meshShape(vs)
	if err == nil {
		return g.Scopes(func() []*Variable { return meshed(vs, shape, xy) })
	}
	g.Refuse("meshgrid", err, vs...)
	failed := make([]*Variable, len(vs))
	for i := range failed {
		failed[i] = g.failed()
	}
	return failed
}

func meshed(vs []*Variable, shape []int, xy bool) []*Variable {
	grids := make([]*Variable, len(vs))
	for i, v := range vs {
		own := slices.Repeat([]int{1}, len(vs))
		own[i] = v.Len()
		if grids[i] = v.Reshape(own...).Expand(shape...); xy && len(vs) > 1 {
			grids[i] = grids[i].Transpose(0, 1)
		}
	}
	return grids
}

// meshShape is the shape of a grid of variables.
func meshShape(vs []*Variable) ([]int, error) {
	var shape []int
	for _, v := range vs {
		switch {
		case v == nil:
			return nil, &tensor.ReleasedError{Op: "MeshGrid", Nil: true}
		case v.NDim() > 1:
			return nil, &tensor.ShapeError{Op: "MeshGrid", Shapes: []tensor.Shape{v.Shape().Clone()}, Detail: "the variables have one dimension, or none"}
		case v.dtype != vs[0].dtype:
			return nil, &tensor.DTypeError{Op: "MeshGrid", DTypes: []tensor.DType{vs[0].dtype, v.dtype}, Detail: "the variables must have one type"}
		}
		shape = append(shape, v.Len())
	}
	if len(shape) > tensor.MaxDims {
		return nil, &tensor.ShapeError{Op: "MeshGrid", Shapes: []tensor.Shape{shape}, Detail: "too many dimensions"}
	}
	return shape, nil
}

// Logspace is steps numbers from base**start to base**end, whose logarithms are evenly spaced.
func (g *Graph) Logspace(start, end float64, steps int, base float64, dt tensor.DType) *Variable {
	return g.make("logspace", "Logspace", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Logspace(e, start, end, steps, base, dt) })
}

// TrilIndices is the rows and columns, [2, n] of int64, of the elements of a matrix on and below a diagonal.
func (g *Graph) TrilIndices(rows, columns, diagonal int) *Variable {
	return g.make("tril_indices", "TrilIndices", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.TrilIndices(e, rows, columns, diagonal) })
}

// TriuIndices is the rows and columns, [2, n] of int64, of the elements of a matrix on and above a diagonal.
func (g *Graph) TriuIndices(rows, columns, diagonal int) *Variable {
	return g.make("triu_indices", "TriuIndices", func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.TriuIndices(e, rows, columns, diagonal) })
}
