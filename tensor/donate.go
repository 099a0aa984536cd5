package tensor

// Donate returns another handle on t that gives its memory away: the first operation that takes the handle, if it is element-wise
// or of the softmax family, may write its result over t's elements instead of allocating, if the result has t's shape, type and
// Exec, and t has the strides that it would have. The result is then a handle on t's storage. Donate only where nobody reads t's elements afterwards,
// through whatever handle: those of t are undefined then. The handle is released like any other.
func (t *Tensor) Donate() *Tensor {
	h := t.Retain()
	if h != nil {
		h.donated = true
	}
	return h
}

// donated is a new handle on the first input that was donated and fits a result of type dt and layout l, without gaps, under e, or nil. Another
// input on the same memory must have the same layout: there the kernel reads each element before it writes it.
func donated(e Exec, dt DType, l *layout, ins []*Tensor) *Tensor {
	for _, in := range ins {
		if !in.donated || in.dtype != dt || in.exec != e || !in.layout.inOrder(l) || in.Len() == 0 {
			continue
		}
		for _, other := range ins {
			if other.overlaps(in) && !other.layout.sameAs(&in.layout) {
				return nil
			}
		}
		in.storage.changed()
		to := *l // the strides of single elements are those of any other result
		to.offset = in.layout.offset
		return in.handle(&to, e)
	}
	return nil
}
