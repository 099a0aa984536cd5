package tensor

// MemoryFormat is an order in which the elements of images lie in memory (torch.memory_format). It is a property of strides: dimensions are
// named in the same order in all of them, [N, C, H, W].
type MemoryFormat uint8

// The formats.
const (
	ContiguousFormat MemoryFormat = iota // row-major: of images the channels first, then rows and columns (torch.contiguous_format)
	ChannelsLast                         // [N, C, H, W] in the order N, H, W, C: the channels of a place lie side by side (torch.channels_last)
	ChannelsLast3d                       // [N, C, D, H, W] in the order N, D, H, W, C (torch.channels_last_3d)
)

// String is PyTorch's name of the format.
func (f MemoryFormat) String() string {
	names := [...]string{"contiguous_format", "channels_last", "channels_last_3d"}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// dims is the number of dimensions that tensors of a format with the channels last have, 0 of one without.
func (f MemoryFormat) dims() int {
	switch f {
	case ChannelsLast:
		return 4
	case ChannelsLast3d:
		return 5
	}
	return 0
}

// lastFormat is the format with the channels last of so many dimensions, ContiguousFormat if there is none.
func lastFormat(ndim int) MemoryFormat {
	switch ndim {
	case 4:
		return ChannelsLast
	case 5:
		return ChannelsLast3d
	}
	return ContiguousFormat
}

// takes refuses what is no format, and tensors of other dimensions than it has.
func (f MemoryFormat) takes(name string, shape Shape) error {
	switch n := f.dims(); {
	case f > ChannelsLast3d:
		return valueErr(name, "memory format %d; there is no such format", f)
	case n > 0 && n != len(shape):
		return shapeErr(name, []Shape{shape}, "%s is a format of %d dimensions", f, n)
	}
	return nil
}

// lastOrder is the dimensions of a format with the channels last, the innermost first.
func lastOrder(ndim int) []int {
	if ndim == 5 {
		return []int{1, 4, 3, 2, 0}
	}
	return []int{1, 3, 2, 0}
}

// packIn is pack for any format.
func (l *layout) packIn(f MemoryFormat) {
	l.pack()
	if f == ContiguousFormat {
		return
	}
	stride := 1
	for _, d := range lastOrder(l.ndim) {
		l.strides[d] = stride
		stride *= l.shape[d] // as in PyTorch a dimension of 0 does not count as 1 here
	}
}

// contiguousIn is contiguous for any format. A layout of other dimensions is not of a format; one without elements is of one with the channels last only
// if its strides say so, as in PyTorch.
func (l *layout) contiguousIn(f MemoryFormat) bool {
	if f == ContiguousFormat {
		return l.contiguous()
	}
	if l.ndim != f.dims() {
		return false
	}
	expect := 1
	for _, d := range lastOrder(l.ndim) {
		if l.shape[d] != 1 && l.strides[d] != expect {
			return false
		}
		expect *= l.shape[d]
	}
	return true
}

// format is the format whose order the strides have, gaps or not. Where strides fit several, as those of one channel or of one place do, strides
// of single elements decide, and else it is ContiguousFormat: PyTorch's rule (suggest_memory_format).
func (l *layout) format() MemoryFormat {
	f := lastFormat(l.ndim)
	if f == ContiguousFormat || l.strides[1] == 0 {
		return ContiguousFormat
	}
	least := 0
	for _, d := range lastOrder(l.ndim) {
		// An N11W tensor has one stride for all, and is taken for one with the channels first.
		if l.shape[d] == 0 || l.strides[d] < least || d == 0 && least == l.strides[1] {
			return ContiguousFormat
		}
		least = l.strides[d] * max(l.shape[d], 1)
	}
	return f
}

// inOrder reports whether l and m are of one shape and have their elements in the same order of memory, wherever they begin.
func (l *layout) inOrder(m *layout) bool {
	n := *m
	n.offset = l.offset
	return l.sameAs(&n)
}

// formatted reports whether the elements lie without gaps in one of the formats.
func (l *layout) formatted() bool { return l.contiguous() || l.contiguousIn(lastFormat(l.ndim)) }

// run is l as a kernel sees it that takes elements in the order of memory, whatever their places are: of a layout without gaps.
func (l *layout) run() layout {
	if l.contiguous() {
		return *l
	}
	r := layout{ndim: 1, offset: l.offset}
	r.shape[0], r.strides[0] = l.len(), 1
	return r
}

// arranged is the layout, without gaps, of an element-wise operation's result of l's shape over tensors that broadcast to it: with the channels last
// where PyTorch's rule puts them there (its TensorIterator), else row-major. By that rule the first operand whose strides tell two dimensions apart
// decides on their order.
func arranged(l *layout, ins ...*Tensor) layout { return arrangedWith(l, false, ins...) }

// arrangedWith is arranged of an operation with a number too, if PyTorch has that as an operand without dimensions (adding a number): operands are of
// several shapes then, and strides of single elements decide with the others. Where all have one shape and are row-major, strides of single elements are lost.
func arrangedWith(l *layout, number bool, ins ...*Tensor) layout {
	r := l.packed()
	f := lastFormat(l.ndim)
	if f == ContiguousFormat {
		return r
	}
	plain, last := !number, !number
	for _, t := range ins {
		same := t.layout.ndim == l.ndim && t.layout.shape == l.shape
		plain = plain && same && t.layout.contiguous()
		last = last && same && t.layout.contiguousIn(f)
	}
	if plain {
		return r
	}
	if last && f == ChannelsLast {
		r.packIn(f)
		return r
	}
	if last && sameStrides(ins) { // the way of ChannelsLast is for images alone: of volumes strides are kept
		r.strides = ins[0].layout.strides
		return r
	}
	var all [maxOperands]layout
	list := all[:0]
	for _, t := range ins {
		x, ok := t.layout.expanded(l)
		if !ok {
			return r
		}
		list = append(list, x)
	}
	if c := compactOver(l, list); c.formatted() { // else it is in an order that has no name
		return c
	}
	return r
}

// sameStrides reports whether the strides of tensors of one shape are the same, also those of single elements.
func sameStrides(all []*Tensor) bool {
	for _, t := range all {
		if t.layout.strides != all[0].layout.strides {
			return false
		}
	}
	return true
}

// copied is the layout of a copy of l of another type, or of its elements in another order: as in PyTorch l's strides, also those of single elements, where
// l lies without gaps in a memory format; else its order without gaps if that is a format, and row-major if it has no name.
func (l *layout) copied() layout {
	if r := l.preserved(); r.formatted() {
		return r
	}
	return l.packed()
}

// maxOperands is enough for the operands of element-wise operations.
const maxOperands = 4

// MemoryFormat is the format that the strides have, gaps or not, in which operations on images lay out what they make of t. Where strides fit both, as those
// of images of one channel or one place may, it is ChannelsLast only if the strides of those single elements say so. Of a nil tensor, of an empty
// one, and of one of other than 4 or 5 dimensions it is ContiguousFormat.
func (t *Tensor) MemoryFormat() MemoryFormat {
	if t == nil {
		return ContiguousFormat
	}
	return t.layout.format()
}

// IsContiguousIn reports whether the elements lie in the order of a format without gaps; dimensions of one element may have any stride, so that one tensor
// may be contiguous in two formats. A tensor of other dimensions than the format has is not. An empty tensor is contiguous in ContiguousFormat, and in
// the others if its strides are those that ToMemoryFormat would give it.
func (t *Tensor) IsContiguousIn(f MemoryFormat) bool {
	return t != nil && f <= ChannelsLast3d && t.layout.contiguousIn(f)
}

// InMemoryFormat reports whether the elements lie without gaps in the order of some memory format, whichever.
func (t *Tensor) InMemoryFormat() bool { return t != nil && t.layout.formatted() }

// ToMemoryFormat returns t with its elements in the order of a format, without gaps: another handle on t if they lie so, whose strides name
// the format (MemoryFormat) also where single elements would leave that open, else a copy. ChannelsLast takes tensors of 4 dimensions,
// ChannelsLast3d of 5.
func (t *Tensor) ToMemoryFormat(f MemoryFormat) (*Tensor, error) {
	const name = "ToMemoryFormat"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if err := f.takes(name, t.Shape()); err != nil {
		return nil, err
	}
	return t.inFormat(name, f, t.exec)
}

// inFormat is ToMemoryFormat of a tensor that has the format's dimensions, with a copy under e.
func (t *Tensor) inFormat(name string, f MemoryFormat, e Exec) (*Tensor, error) {
	l := t.layout.packed()
	l.packIn(f)
	if t.layout.contiguousIn(f) {
		l.offset = t.layout.offset
		return t.handle(&l, t.exec), nil
	}
	return t.convertTo(name, &l, t.dtype, e)
}

// EmptyIn is Empty in a memory format, whose number of dimensions the shape has.
func EmptyIn(e Exec, f MemoryFormat, dt DType, shape ...int) (*Tensor, error) {
	const name = "EmptyIn"
	if err := f.takes(name, shape); err != nil {
		return nil, err
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	l.packIn(f)
	return allocAs(name, e, dt, &l)
}
