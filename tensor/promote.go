package tensor

import "math"

// defaultFloat is what integers become where an operation needs a floating-point type, as torch.get_default_dtype().
const defaultFloat = Float32

// category orders the kinds of types: a higher one wins in a promotion, whatever the widths.
func category(d DType) int {
	switch {
	case d.IsFloat():
		return 2
	case d.IsInteger():
		return 1
	}
	return 0
}

// Promote is the type in which an operation between two tensors is computed, by PyTorch's rule for tensors with dimensions
// (torch.promote_types): the higher category of bool < integer < floating point wins; within one the wider type; and
// float16 with bfloat16, of which neither holds the other, gives float32.
func Promote(a, b DType) DType {
	switch ca, cb := category(a), category(b); {
	case a == b, ca > cb:
		return a
	case ca < cb:
		return b
	case a.Size() == b.Size(): // float16 and bfloat16: the only different types of one category and size
		return Float32
	case a.Size() > b.Size():
		return a
	}
	return b
}

// ResultType is the type in which an operation of several tensors is computed (torch.result_type). Tensors without dimensions do not
// widen those that have some, but lift them to their category, as numbers do: float16 with a float32 scalar is float16, int64 with a
// float64 scalar float64. Of no tensors, and with a nil one among them, it is the invalid type.
func ResultType(ts ...*Tensor) DType {
	if len(ts) == 2 && ts[0].DType() == ts[1].DType() { // as almost always
		return ts[0].DType()
	}
	var of [2]DType // invalid at first: of the tensors without dimensions, and of those with some
	for _, t := range ts {
		d := t.DType()
		if !d.Valid() {
			return d
		}
		rank := min(t.NDim(), 1)
		if !of[rank].Valid() {
			of[rank] = d
		}
		of[rank] = Promote(of[rank], d)
	}
	switch single, whole := of[0], of[1]; {
	case !whole.Valid():
		return single
	case !single.Valid() || category(single) <= category(whole):
		return whole
	default:
		return single
	}
}

// floating is d, or the default type for what is not floating point.
func floating(d DType) DType {
	if d.IsFloat() {
		return d
	}
	return defaultFloat
}

// withNumbers is the type of an operation between a tensor of type d and Go numbers, by PyTorch's rule for Python numbers:
// they never widen the tensor's type within its category, but lift it to theirs. A number without a fraction counts as an
// integer, whatever its size, as long as int64 holds it.
func withNumbers(d DType, numbers ...float64) DType {
	if d.IsFloat() {
		return d
	}
	for _, v := range numbers {
		if !integral(v) {
			return defaultFloat
		}
	}
	if d == Bool {
		return Int64
	}
	return d
}

// integral reports whether v is an integer that int64 holds.
func integral(v float64) bool {
	return v == math.Trunc(v) && v >= math.MinInt64 && v < math.MaxInt64
}

// holds reports whether the integer type d can represent v.
func holds(d DType, v float64) bool {
	switch d {
	case Uint8:
		return v >= 0 && v <= math.MaxUint8
	case Int32:
		return v >= math.MinInt32 && v <= math.MaxInt32
	}
	return true
}

// numbers puts v into the scalars for operations of type d.
func numbers(d DType, v ...float64) scalars {
	var s scalars
	for i, x := range v {
		s.f[i] = x
		if !d.IsFloat() {
			s.i[i] = int64(x)
		}
	}
	return s
}

// as returns t itself if it has type dt, and else a converted temporary, made under e, which the caller gives back with
// drop(x, t).
func (t *Tensor) as(name string, dt DType, e Exec) (*Tensor, error) {
	if t.dtype == dt {
		return t, nil
	}
	return t.cast(name, dt, e.Owned())
}

// drop releases x if it is not t: a temporary that stood for t.
func drop(x, t *Tensor) {
	if x != t {
		x.Release()
	}
}

// convert makes a contiguous copy of type dt under e.
func (t *Tensor) convert(name string, dt DType, e Exec) (*Tensor, error) {
	l := t.layout.packed()
	return t.convertTo(name, &l, dt, e)
}

// cast is convert to a copy that keeps t's strides if they are of a memory format, as PyTorch's conversions do.
func (t *Tensor) cast(name string, dt DType, e Exec) (*Tensor, error) {
	l := t.layout.copied()
	return t.convertTo(name, &l, dt, e)
}

// convertTo makes a copy of type dt and layout l, of t's shape and without gaps.
func (t *Tensor) convertTo(name string, l *layout, dt DType, e Exec) (*Tensor, error) {
	r, err := allocAs(name, e, dt, l)
	if err != nil {
		return nil, err
	}
	if err := r.write(name, &r.layout, t, &t.layout); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}
