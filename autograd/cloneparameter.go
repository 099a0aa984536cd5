package autograd

// Clone makes a parameter of the same name, shape, initializer and RequiresGrad, with a copy of the value in memory of its own, on the same device,
// stream and allocator. Gradient and hooks stay with p. Of a parameter without a tensor the clone has none either,
// and what Await has noted of it.
func (p *Parameter) Clone() (*Parameter, error) {
	if p == nil {
		return nil, p.missingFor("Clone")
	}
	q := &Parameter{name: p.name, shape: p.shape.Clone(), init: p.init, requiresGrad: p.requiresGrad, wrong: p.wrong, awaits: p.awaits, computed: p.computed}
	t := p.Tensor()
	if t == nil {
		return q, nil
	}
	var err error
	q.value, err = t.Clone()
	return q, err
}
