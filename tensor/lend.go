package tensor

// Lend returns a handle for somebody to whom t does not belong: it can be used until t is released, its operations run under e, and
// its Release ends it alone. It holds no reference, so that it need not be released, and Exclusive does not count it. What is
// made of it, also another handle on its memory (Retain, a view), belongs to whoever makes it, with the safety net if e has it.
// A graph whose own tensors are Owned lends them to hooks and the like in this way. e must be on t's device: see On. Of a nil
// tensor it is nil.
func (t *Tensor) Lend(e Exec) *Tensor {
	if !t.made() {
		return nil
	}
	h := &Tensor{storage: t.storage, exec: e, layout: t.layout, dtype: t.dtype, lender: t}
	h.misfit = t.misfit || t.misplaced(e)
	return h
}

// Borrowed reports whether the handle was made by Lend.
func (t *Tensor) Borrowed() bool { return t.made() && t.lender != nil }

// misplaced reports whether t's operations cannot run under e.
func (t *Tensor) misplaced(e Exec) bool {
	return e.valid("On") != nil || e.Device().ID() != t.storage.alloc.Device()
}
