package tensor

// PadMode says what Pad puts around a tensor.
type PadMode uint8

// The modes of torch.nn.functional.pad.
const (
	PadConstant  PadMode = iota // a value
	PadReflect                  // the elements mirrored at the edge, which is not repeated
	PadReplicate                // the element at the edge
	PadCircular                 // the elements from the other end
)

// String is PyTorch's name of the mode.
func (m PadMode) String() string {
	names := [...]string{"constant", "reflect", "replicate", "circular"}
	if int(m) < len(names) {
		return names[m]
	}
	return "unknown"
}

// Pad puts elements before and after those along the last dimensions: pad is the numbers before and after along the last dimension,
// then those along the one before it, and so on. Negative numbers cut elements off: of PadConstant as many as there are on each side at most, of
// PadReflect and PadReplicate after the other side is padded, so that something is left; PadCircular takes none. value is what PadConstant puts, as Full does, but for negative numbers, which uint8 does not take. PadReflect takes fewer elements than the dimension has, PadCircular at most as many.
func (t *Tensor) Pad(pad []int, mode PadMode, value float64) (*Tensor, error) {
	const name = "Pad"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if wide, cut := cutting(pad, mode); cut != nil {
		return t.padAndCut(name, pad, wide, cut, mode)
	}
	b, err := bordersOf(name, &t.layout, pad, mode)
	if err != nil {
		return nil, err
	}
	out, err := newLayout(name, b.outer(&t.layout))
	if err != nil {
		return nil, err
	}
	if mode == PadConstant {
		out.packIn(t.layout.format())
		return t.padConstant(name, b, &out, value)
	}
	r, err := alloc(name, t.exec, t.dtype, &out)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	if err := r.padAround(name, t, b, mode); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// borders are the numbers of elements before and after each dimension.
type borders struct{ before, after [MaxDims]int }

func bordersOf(name string, l *layout, pad []int, mode PadMode) (b borders, err error) {
	if mode > PadCircular {
		return b, valueErr(name, "mode is %d; there is no such mode", mode)
	}
	if len(pad)%2 != 0 || len(pad)/2 > l.ndim {
		return b, shapeErr(name, []Shape{l.dims()}, "pad is %v; it has two numbers for each of the last dimensions", pad)
	}
	for k := 0; k < len(pad); k += 2 {
		i := l.ndim - 1 - k/2
		before, after, n := pad[k], pad[k+1], l.shape[i]
		b.before[i], b.after[i] = before, after
		if longer := n + max(before, 0); longer < n || longer+max(after, 0) < longer {
			return b, shapeErr(name, []Shape{l.dims()}, "pad %v makes dimension %d longer than any", pad, i)
		}
		most := n // of the mode
		switch mode {
		case PadConstant:
			if before < -n || after < -n || n+before+after < 0 {
				return b, shapeErr(name, []Shape{l.dims()}, "pad %v leaves less than nothing of dimension %d", pad, i)
			}
			continue
		case PadReflect:
			most = n - 1
		case PadReplicate:
			if n > 0 {
				most = max(before, after)
			}
		}
		if before < 0 || after < 0 || max(before, after) > max(most, 0) {
			return b, shapeErr(name, []Shape{l.dims()}, "pad %v does not fit dimension %d in mode %s", pad, i, mode)
		}
	}
	return b, nil
}

// outer is the shape with the borders.
func (b *borders) outer(l *layout) Shape {
	shape := l.dims().Clone()
	for i := range shape {
		shape[i] += b.before[i] + b.after[i]
	}
	return shape
}

// window is the part of l, which has the borders, that is not border, along the dimensions from..to-1.
func (b *borders) window(l layout, from, to int) layout {
	for i := from; i < to; i++ {
		l.part(i, b.before[i], l.shape[i]-b.before[i]-b.after[i])
	}
	return l
}

// padConstant copies what is not cut off into a tensor of copies of the value.
func (t *Tensor) padConstant(name string, b borders, out *layout, value float64) (*Tensor, error) {
	if !holds(t.dtype, value) { // PyTorch's is a number of C, of which none counts back from 256
		return nil, cannotHold(name, t.dtype, value)
	}
	r, err := full(name, t.exec, value, t.dtype, out)
	if err != nil {
		return nil, err
	}
	to, from := b.overlap(r.layout, t.layout)
	if err := r.write(name, &to, t, &from); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// overlap is what the layout with constant borders and the one without have in common.
func (b *borders) overlap(outer, inner layout) (o, i layout) {
	for d := range inner.ndim {
		cut, put := max(-b.before[d], 0), max(b.before[d], 0)
		n := max(inner.shape[d]-cut-max(-b.after[d], 0), 0)
		outer.part(d, put, n)
		inner.part(d, cut, n)
	}
	return outer, inner
}

// padAround fills r, which is new: the middle from t, then the borders of one dimension after the other from r itself, each with
// what the dimensions before have got already.
func (r *Tensor) padAround(name string, t *Tensor, b borders, mode PadMode) error {
	middle := b.window(r.layout, 0, r.layout.ndim)
	if err := r.write(name, &middle, t, &t.layout); err != nil {
		return err
	}
	for d := range r.layout.ndim {
		l := b.window(r.layout, d+1, r.layout.ndim)
		for _, side := range b.sides(l, d, mode) {
			if err := r.write(name, &side.border, r, &side.source); err != nil {
				return err
			}
		}
	}
	return nil
}

// side is a border, and the elements that are put there, of the same shape.
type side struct{ border, source layout }

// sides are the borders of dimension d of l that have elements.
func (b *borders) sides(l layout, d int, mode PadMode) []side {
	var list []side
	before, after := b.before[d], b.after[d]
	n := l.shape[d] - before - after
	if before > 0 {
		s := side{l, l}
		s.border.part(d, 0, before)
		switch mode {
		case PadReflect:
			s.source.part(d, before+1, before)
			s.source.flip(d)
		case PadReplicate:
			s.source.part(d, before, before)
			s.source.strides[d] = 0
		case PadCircular:
			s.source.part(d, n, before)
		}
		list = append(list, s)
	}
	if after > 0 {
		s := side{l, l}
		s.border.part(d, before+n, after)
		switch mode {
		case PadReflect:
			s.source.part(d, before+n-1-after, after)
			s.source.flip(d)
		case PadReplicate:
			s.source.part(d, before+n-1, after)
			s.source.strides[d] = 0
		case PadCircular:
			s.source.part(d, before, after)
		}
		list = append(list, s)
	}
	return list
}
