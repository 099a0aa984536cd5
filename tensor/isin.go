package tensor

// IsIn tells of each element of t whether it equals one of elements, of any shape: bool and of t's shape. Types are promoted. NaN is in nothing. It
// sorts both, and does not wait for the device.
func (t *Tensor) IsIn(elements *Tensor) (*Tensor, error) {
	const name = "IsIn"
	if err := together(name, t, elements); err != nil {
		return nil, err
	}
	if t.Len() == 0 || elements.Len() == 0 {
		l := t.layout.packed()
		return full(name, t.exec, 0, Bool, &l)
	}
	var p parts
	dt := ResultType(t, elements)
	x := p.do(p.do(p.of(t).To(dt)).Reshape(t.Len()))
	row, _ := p.both(p.do(p.do(p.of(elements).To(dt)).Reshape(elements.Len())).Sort(0, false))
	at := p.do(p.places(row, x, false).Clamp(0, float64(elements.Len()-1)))
	found := p.do(p.do(row.IndexSelect(0, at)).Eq(x))
	return p.result(t.exec, p.do(found.Reshape(t.Shape()...)))
}
