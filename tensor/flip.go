package tensor

import "github.com/cistern-ml/cistern/internal/plural"

// Flip reverses the order of the elements along dims. Unlike views it copies, as PyTorch does.
func (t *Tensor) Flip(dims ...int) (*Tensor, error) {
	const name = "Flip"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	var set axes
	if len(dims) > 0 {
		var err error
		if set, err = axesOf(name, &t.layout, dims); err != nil {
			return nil, err
		}
	}
	to := t.layout.copied()
	r, err := allocAs(name, t.exec, t.dtype, &to)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	from := t.layout
	for i := range from.ndim {
		if set[i] {
			from.flip(i)
		}
	}
	if err := r.write(name, &r.layout, t, &from); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// flip walks dimension i, which is not empty, from its end. Layouts of handles are never flipped, only those of kernels' inputs.
func (l *layout) flip(i int) {
	l.offset += (l.shape[i] - 1) * l.strides[i]
	l.strides[i] = -l.strides[i]
}

// part takes n elements from start on along dimension i.
func (l *layout) part(i, start, n int) {
	l.offset += start * l.strides[i]
	l.shape[i] = n
}

// under is t with another layout, for operations of the function that calls it: it holds no reference of its own.
func (t *Tensor) under(l layout) *Tensor {
	return &Tensor{storage: t.storage, exec: t.exec, layout: l, dtype: t.dtype}
}

// Roll moves the elements along each of dims by the shift in the same place of shifts: what leaves at one end comes in at the other.
// Without dims it moves the elements of the flattened tensor, by one shift.
func (t *Tensor) Roll(shifts, dims []int) (*Tensor, error) {
	const name = "Roll"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if len(dims) == 0 && len(shifts) == 1 {
		return t.rollFlat(name, shifts[0])
	}
	if len(shifts) != len(dims) || len(dims) == 0 {
		return nil, valueErr(name, "%s for %s", plural.Of(len(shifts), "shift"), plural.Of(len(dims), "dimension"))
	}
	by := [MaxDims]int{}
	for k, d := range dims {
		i, err := t.layout.axis(name, d)
		if err != nil {
			return nil, err
		}
		if n := t.Dim(i); n > 0 {
			by[i] = ((by[i]+shifts[k]%n)%n + n) % n
		}
	}
	return t.roll(name, by)
}

func (t *Tensor) rollFlat(name string, shift int) (*Tensor, error) {
	x, err := t.packedCopy(name)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	flat := layout{ndim: 1, offset: x.layout.offset}
	flat.shape[0], flat.strides[0] = t.Len(), 1
	var by [MaxDims]int
	if n := t.Len(); n > 0 {
		by[0] = (shift%n + n) % n
	}
	parts := x.under(flat)
	parts.exec = t.exec // the result is no temporary
	r, err := parts.roll(name, by)
	if err != nil {
		return nil, err
	}
	r.layout = t.layout.packed()
	return r, nil
}

// roll copies each of the parts into which the shifts, which are in 0..size-1, cut the tensor.
func (t *Tensor) roll(name string, by [MaxDims]int) (*Tensor, error) {
	r, err := alloc(name, t.exec, t.dtype, &t.layout)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	if err := r.rollPart(name, r.layout, t, t.layout, by, 0); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// rollPart copies from to to, whose dimensions before d were cut already.
func (r *Tensor) rollPart(name string, to layout, t *Tensor, from layout, by [MaxDims]int, d int) error {
	for d < to.ndim && by[d] == 0 {
		d++
	}
	if d == to.ndim {
		return r.write(name, &to, t, &from)
	}
	n, shift := to.shape[d], by[d]
	low, high, first, last := to, to, from, from
	low.part(d, 0, shift)
	last.part(d, n-shift, shift)
	high.part(d, shift, n-shift)
	first.part(d, 0, n-shift)
	if err := r.rollPart(name, low, t, last, by, d+1); err != nil {
		return err
	}
	return r.rollPart(name, high, t, first, by, d+1)
}
