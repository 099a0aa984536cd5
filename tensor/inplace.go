package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// FillInPlace sets every element to v.
func (t *Tensor) FillInPlace(v float64) error { return t.fillInPlace("FillInPlace", v) }

// ZeroInPlace sets every element to 0.
func (t *Tensor) ZeroInPlace() error { return t.fillInPlace("ZeroInPlace", 0) }

func (t *Tensor) fillInPlace(name string, v float64) error {
	if err := usable(name, t); err != nil {
		return err
	}
	if err := fillable(name, t.dtype, v); err != nil {
		return err
	}
	// An expanded tensor may be filled: what shares an address gets the same value.
	l := t.layout
	for i := 0; i < l.ndim; i++ {
		if l.strides[i] == 0 && l.shape[i] > 1 {
			l.shape[i] = 1
		}
	}
	t.storage.changed()
	return t.fill(name, v, &l)
}

// CopyFrom sets t to src, broadcast to t's shape, converted to t's type, and brought over from another device if need be.
func (t *Tensor) CopyFrom(src *Tensor) error {
	const name = "CopyFrom"
	if err := usable(name, t, src); err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	if !t.exec.sameDevice(src.exec) {
		local, err := src.transfer(name, t.exec.Owned())
		if err != nil {
			return err
		}
		defer local.Release()
		src = local
	}
	from, ok := src.layout.expanded(&t.layout)
	if !ok {
		return shapeErr(name, []Shape{t.Shape(), src.Shape()}, "the source does not broadcast to the destination")
	}
	if t.storage == src.storage && t.layout.sameAs(&from) {
		return nil
	}
	x, err := src.apart(name, t)
	if err != nil {
		return err
	}
	defer drop(x, src)
	from, _ = x.layout.expanded(&t.layout)
	t.storage.changed()
	return t.write(name, &t.layout, x, &from)
}

// AddInPlace adds alpha*u, broadcast to t's shape, to t. As in PyTorch the type of the result (ResultType) must not be of a higher
// category than t's: integers do not take fractions.
func (t *Tensor) AddInPlace(u *Tensor, alpha float64) error {
	const name = "AddInPlace"
	if err := together(name, t, u); err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	if category(u.dtype) > category(t.dtype) || t.dtype == Bool {
		return dtypeErr(name, "the result does not fit the type of the destination", t.dtype, u.dtype)
	}
	if err := checkAlpha(name, t.dtype, alpha); err != nil {
		return err
	}
	if _, ok := u.layout.expanded(&t.layout); !ok {
		return shapeErr(name, []Shape{t.Shape(), u.Shape()}, "the operand does not broadcast to the destination")
	}
	return t.addInPlace(name, u, alpha)
}

func (t *Tensor) addInPlace(name string, u *Tensor, alpha float64) error {
	wide := ResultType(t, u)
	if wide != t.dtype { // for example float16 += float32: computed in float32, rounded once
		sum, err := binary(name, op.Add, t, u, wide, wide, numbers(wide, alpha))
		if err != nil {
			return err
		}
		defer sum.Release()
		t.storage.changed()
		return t.write(name, &t.layout, sum, &sum.layout)
	}
	if half, wide := mixed(u, t); wide == t && alpha == 1 && half.storage != t.storage {
		t.storage.changed()
		return addMixed(name, t.exec, t, half, t)
	}
	x, err := u.as(name, t.dtype, t.exec)
	if err != nil {
		return err
	}
	defer drop(x, u)
	y, err := x.apart(name, t)
	if err != nil {
		return err
	}
	defer drop(y, x)
	t.storage.changed()
	return t.pointwiseInto(name, op.Add, numbers(t.dtype, alpha), t, y)
}

// MulScalarInPlace multiplies every element by s, which for integer types must be an integer.
func (t *Tensor) MulScalarInPlace(s float64) error {
	const name = "MulScalarInPlace"
	if err := usable(name, t); err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	if t.dtype == Bool {
		return dtypeErr(name, "not defined for bool", t.dtype)
	}
	if !t.dtype.IsFloat() && !integral(s) {
		return valueErr(name, "factor is %v; for %s it must be an integer", s, t.dtype)
	}
	t.storage.changed()
	return t.pointwiseInto(name, op.MulScalar, numbers(t.dtype, s), t)
}

// writable refuses tensors of which several elements share an address.
func (t *Tensor) writable(name string) error {
	if t.layout.repeats() {
		return shapeErr(name, []Shape{t.Shape()}, "several elements share an address (strides %v); write to a Clone", t.Strides())
	}
	return nil
}

// apart returns src itself if an element-wise operation may write t while reading src: they share no memory, or are the very
// same elements. Else it returns a temporary copy, which the caller gives back with drop(x, src).
func (src *Tensor) apart(name string, t *Tensor) (*Tensor, error) {
	if !src.overlaps(t) || src.layout.sameAs(&t.layout) {
		return src, nil
	}
	return src.convert(name, src.dtype, t.exec.Owned())
}

// overlaps reports whether some address may belong to both tensors. It compares what lies between their first and last
// elements, so tensors that interleave count as overlapping.
func (t *Tensor) overlaps(u *Tensor) bool {
	if t.storage != u.storage {
		return false
	}
	first, end := t.layout.extent()
	from, to := u.layout.extent()
	return first < to && from < end
}

// write copies the elements of src that from selects into those of t that to selects, converting the type. The shapes are
// equal, and the memory does not overlap.
func (t *Tensor) write(name string, to *layout, src *Tensor, from *layout) error {
	n := to.len()
	if n == 0 {
		return nil
	}
	if t.dtype == src.dtype && (to.contiguous() && from.contiguous() || to.inOrder(from) && to.dense()) {
		return wrap(name, t.copyBytes(to, src, from, n*t.dtype.Size()))
	}
	id := op.Copy
	if t.dtype != src.dtype {
		id = op.Cast
	}
	c := begin(id, t.exec)
	c.out(t, to)
	c.in(src, from)
	return c.run(name)
}
