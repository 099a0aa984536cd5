package tensor

import "slices"

// MaxPoolPick takes from t, of the shape of an image of MaxPool1d or MaxPool2d (dims 1 or 2), the elements that from names: what MaxPool
// would give of t if its largest elements were where those of the other image were. It is linear in t, and the gradient of the gradient
// MaxPool.
func (gradients) MaxPoolPick(t, from *Tensor, dims int, p Pool) (*Tensor, error) {
	const name = "MaxPoolPick"
	if err := together(name, t, from); err != nil {
		return nil, err
	}
	v, image, err := prepare(name, dims, t, p, false)
	if err != nil {
		return nil, err
	}
	if from.dtype != v.numbers() {
		return nil, dtypeErr(name, "the numbers are not those of MaxPool", t.dtype, from.dtype)
	}
	if !from.Shape().Equal(t.imageShape(dims, image.shape[1], v.result)) {
		return nil, shapeErr(name, []Shape{t.Shape(), from.Shape()}, "the numbers are not those of MaxPool")
	}
	if from.Len() == 0 {
		return Empty(t.exec, t.dtype, from.Shape()...)
	}
	lead := from.Shape()[:from.NDim()-dims]
	w := new(parts)
	exec := t.exec
	t, from = w.of(t), w.of(from)
	index := w.do(v.places(image.shape[2], image.shape[3], w.do(from.Reshape(append(slices.Clone(lead), v.result[0], v.result[1])...))))
	index = w.do(index.Reshape(append(slices.Clone(lead), v.result[0]*v.result[1])...))
	outside := w.do(index.LtScalar(0))
	flat := w.do(t.Reshape(append(slices.Clone(lead), image.shape[2]*image.shape[3])...))
	picked := w.do(flat.Gather(-1, w.do(index.MaskedFill(outside, 0))))
	return w.result(exec, w.do(w.do(picked.MaskedFill(outside, 0)).Reshape(from.Shape()...)))
}

// places are the numbers of elements of an image of so many rows and columns, [..., OH, OW] of type int64, that the numbers of windows'
// elements stand for; -1 for those of windows without elements.
func (v *pooling) places(rows, columns int, numbers *Tensor) (*Tensor, error) {
	if numbers == nil {
		return nil, ErrReleased
	}
	w := new(parts)
	exec := numbers.Exec()
	firstRow, _ := v.windows(0, rows)
	firstColumn, widths := v.windows(1, columns)
	wide := w.do(FromSlice(exec, widths))
	number := w.do(numbers.To(Float64)) // exact: numbers are less than 2^31
	across := w.do(number.Remainder(wide))
	down := w.do(w.do(number.Sub(across)).Div(wide))
	row := w.do(w.do(down.MulScalar(float64(v.step(0)))).Add(w.do(w.do(FromSlice(exec, firstRow)).Unsqueeze(-1))))
	column := w.do(w.do(across.MulScalar(float64(v.step(1)))).Add(w.do(FromSlice(exec, firstColumn))))
	place := w.do(w.do(row.MulScalar(float64(columns))).Add(column))
	inside := w.do(w.do(w.do(row.GeScalar(0)).And(w.do(row.LtScalar(float64(rows))))).
		And(w.do(w.do(column.GeScalar(0)).And(w.do(column.LtScalar(float64(columns)))))))
	return w.result(exec, w.do(w.do(place.MaskedFill(w.do(inside.Not()), -1)).To(Int64)))
}

// windows are the first element of each window along a dimension of size elements, and how many it has.
func (v *pooling) windows(d, size int) (first, width []float64) {
	n := v.result[d]
	first, width = make([]float64, n), make([]float64, n)
	for i := range first {
		if v.adaptive {
			begin, end := i*size/n, ((i+1)*size+n-1)/n
			first[i], width[i] = float64(begin), float64(end-begin)
			continue
		}
		first[i], width[i] = float64(i*v.stride[d]-v.padding[d]), float64(v.kernel[d])
	}
	return first, width
}

// step is the distance between the elements of a window.
func (v *pooling) step(d int) int {
	if v.adaptive {
		return 1
	}
	return v.spread[d]
}
