package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// What selects elements by their values, by places, and by several indices. These are made of other operations, whose gradients are theirs.

// Nonzero is where the elements are that are not 0: int64 and [count, dimensions of v]. It waits for the device. No gradients flow.
func (v *Variable) Nonzero() *Variable {
	return constant("nonzero", func(ts []*tensor.Tensor) (*tensor.Tensor, error) { return ts[0].Nonzero() }, v)
}

// MaskedSelect is the elements of v where mask, which is bool, is true, in row-major order: of one dimension. The two broadcast. It waits for the
// device. Saves their places.
func (v *Variable) MaskedSelect(mask *Variable) *Variable {
	const name = "masked_select"
	in := []*Variable{v, mask}
	return graphOf(in).namedOne(name, in, func() *Variable {
		var shape tensor.Shape
		places := constant(name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
			var err error
			if shape, err = maskShape(ts[0], ts[1]); err != nil {
				return nil, err
			}
			var w work
			flat := w.do(w.do(w.do(ts[1].Expand(shape...)).Flatten(0, -1)).Nonzero())
			return w.result(flat.Select(1, 0))
		}, v, mask)
		if !places.Alive() {
			return places
		}
		return v.Expand(shape...).Reshape(shape.Len()).IndexSelect(0, places)
	})
}

func maskShape(t, mask *tensor.Tensor) (tensor.Shape, error) {
	if mask.DType() != tensor.Bool {
		return nil, &tensor.DTypeError{Op: "MaskedSelect", DTypes: []tensor.DType{t.DType(), mask.DType()}, Detail: "the mask must be bool"}
	}
	if mask.Len() > 0 && !mask.Exec().Computes() {
		return nil, &tensor.ValuesError{Op: "MaskedSelect", Device: mask.Device().ID()}
	}
	return tensor.BroadcastShapes(t.Shape(), mask.Shape())
}

// Unique is the different elements of v, ascending; for each element of v which of them it is; and how often each occurs; see tensor.Tensor.Unique.
// It waits for the device. No gradients flow.
func (v *Variable) Unique() (values, inverse, counts *Variable) {
	all := constants("unique", func(ts []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a, b, c, err := ts[0].Unique()
		return []*tensor.Tensor{a, b, c}, err
	}, 3, v)
	return all[0], all[1], all[2]
}

// BinCount is how often each of 0, 1, 2 and so on is an element of v, or the sums of the elements' weights, nil for none; see
// tensor.Tensor.BinCount. It waits for the device. No gradients flow.
func (v *Variable) BinCount(weights *Variable, minLength int) *Variable {
	in := []*Variable{v}
	if weights != nil {
		in = append(in, weights)
	}
	return constant("bincount", func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
		return append(ts, nil)[0].BinCount(append(ts, nil)[1], minLength)
	}, in...)
}

// IsIn tells of each element of v whether it equals one of elements. No gradients flow.
func (v *Variable) IsIn(elements *Variable) *Variable {
	return constant("isin", func(ts []*tensor.Tensor) (*tensor.Tensor, error) { return ts[0].IsIn(ts[1]) }, v, elements)
}

// IndexCopy is v with slice i of src, along dim, in the place of slice index[i]; of several for one place the last wins, and each gets the gradient
// of that place. Saves index.
func (v *Variable) IndexCopy(dim int, index, src *Variable) *Variable {
	const name = "index_copy"
	in := []*Variable{v, index, src}
	return graphOf(in).namedOne(name, in, func() *Variable {
		at := constant(name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
			if err := fitsSlices(ts[0], dim, ts[1], ts[2]); err != nil {
				return nil, err
			}
			return spread(ts[1], dim, ts[2].Shape())
		}, v, index, src)
		return v.Scatter(dim, at, src)
	})
}

// fitsSlices refuses a source that has not a slice of t for each index.
func fitsSlices(t *tensor.Tensor, dim int, idx, src *tensor.Tensor) error {
	want := t.Shape().Clone()
	switch n := len(want); {
	case dim < -max(n, 1) || dim >= max(n, 1):
		return &tensor.ShapeError{Op: "IndexCopy", Shapes: []tensor.Shape{want}, Detail: fmt.Sprintf("there is no dimension %d", dim)}
	case n > 0:
		want[(dim+n)%n] = idx.Len()
	}
	if idx.NDim() > 1 || !src.Shape().Equal(want) || t.NDim() == 0 && idx.Len() != 1 {
		return &tensor.ShapeError{Op: "IndexCopy", Shapes: []tensor.Shape{t.Shape().Clone(), idx.Shape().Clone(), src.Shape().Clone()},
			Detail: "the indices have one dimension, and the source has a slice for each of them"}
	}
	return nil
}

// IndexFill is v with value in the slices along dim that index names; negative ones count from the end. Saves index.
func (v *Variable) IndexFill(dim int, index *Variable, value float64) *Variable {
	const name = "index_fill"
	in := []*Variable{v, index}
	return graphOf(in).namedOne(name, in, func() *Variable {
		filled := constant(name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
			var w work
			none := w.do(tensor.Zeros(ts[0].Exec(), tensor.Bool, ts[0].Shape()...))
			return w.result(none.IndexFill(dim, ts[1], 1))
		}, v, index)
		return v.MaskedFill(filled, value)
	})
}

// spread is an index for each element of slices along dim, by an index for each slice.
func spread(idx *tensor.Tensor, dim int, shape tensor.Shape) (*tensor.Tensor, error) {
	own := slices.Repeat([]int{1}, len(shape))
	if len(own) > 0 {
		own[(dim+len(own))%len(own)] = idx.Len()
	}
	return inOwn(idx.Reshape(own...))(func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Expand(shape...) })
}

// Index takes elements by several variables of indices, or masks, as v[at[0], at[1], ...] in PyTorch; nil takes all of a dimension. See
// tensor.Tensor.Index. Saves one index for each element of what the indices broadcast to.
func (v *Variable) Index(at ...*Variable) *Variable {
	const name = "index"
	return v.Graph().namedOne(name, append([]*Variable{v}, at...), func() *Variable {
		x := v.indexing(name, at)
		if x == nil {
			return v.g.failed()
		}
		return v.Permute(x.order...).Reshape(x.table...).IndexSelect(0, x.rows).Reshape(x.taken...).Permute(x.back...)
	})
}

// IndexPut is v with values, broadcast, in the places that Index takes elements from; accumulate, for floating-point types, adds them. Otherwise the
// last of several for one place wins, and each gets the gradient of that place. See tensor.Tensor.IndexPut. Saves what Index does.
func (v *Variable) IndexPut(at []*Variable, values *Variable, accumulate bool) *Variable {
	const name = "index_put"
	in := []*Variable{v, values}
	return graphOf(in).namedOne(name, append(in, at...), func() *Variable {
		x := v.indexing(name, at)
		if x == nil || values == nil {
			return v.AddScalar(0).Add(values) // says what is wrong
		}
		n, rest := x.rows.Len(), x.taken[len(x.taken)-len(x.table)+1:]
		if v.Len() == 0 || n == 0 {
			return v.beside(values)
		}
		src := values.Expand(x.result...).Permute(x.forth...).Reshape(n, rest.Len())
		first := v.Permute(x.order...)
		table := first.Reshape(x.table[0], rest.Len())
		if accumulate {
			table = table.IndexAdd(0, x.rows, src)
		} else {
			table = table.Scatter(0, x.rows.Reshape(n, 1).Expand(n, rest.Len()), src)
		}
		return table.Reshape(first.Shape()...).Permute(undo(x.order)...)
	})
}

// beside is a copy of v into which nothing of src went: src has a gradient all the same, of zeros.
func (v *Variable) beside(src *Variable) *Variable {
	if !src.RequiresGrad() || src.dtype != v.dtype {
		return v.copied()
	}
	none := src.Reshape(src.Len()).Narrow(0, 0, 0)
	return Cat([]*Variable{v.Reshape(v.Len()), none}, 0).Reshape(v.Shape()...)
}

// undo is the order of dimensions that undoes another one.
func undo(order []int) []int {
	back := make([]int, len(order))
	for i, d := range order {
		back[d] = i
	}
	return back
}

// indexed is what package tensor makes of the indices of Index.
type indexed struct {
	rows                      *Variable
	order, table, back, forth []int
	result, taken             tensor.Shape
}

// indexing reads the indices. It is nil after an error.
func (v *Variable) indexing(name string, at []*Variable) *indexed {
	in, places := []*Variable{v}, make([]int, len(at))
	for k, i := range at {
		if i != nil {
			in, places[k] = append(in, i), len(in)
		}
	}
	var x indexed
	x.rows = constant(name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
		list := make([]*tensor.Tensor, len(at))
		for k, p := range places {
			if p > 0 {
				list[k] = ts[p]
			}
		}
		plan, err := gradients.Indexing(ts[0], list)
		if err != nil {
			return nil, err
		}
		x.order, x.table, x.taken, x.back, x.forth, x.result = plan.Order, plan.Table, plan.Taken, plan.Back(), plan.Forth(), plan.Result()
		return plan.Rows, nil
	}, in...)
	if !x.rows.Alive() {
		return nil
	}
	return &x
}
