package autograd

// record is run with CreateGraph. What it makes is recorded whatever NoGrad says around it, and is not cast: the types are those of forward.
func (b *backward) record() error {
	g := b.g
	defer func(caster Caster, noGrad bool) { g.caster, g.noGrad = caster, noGrad }(g.caster, g.noGrad)
	g.caster, g.noGrad = nil, false
	if err := g.followAll(); err != nil {
		return err
	}
	var err error
	g.Scopes(func() []*Variable {
		var kept []*Variable
		kept, err = b.recordAll()
		return kept
	})
	if err != nil {
		return err
	}
	return g.lead()
}

// recordAll computes the gradients, and lists those that stay.
func (b *backward) recordAll() ([]*Variable, error) {
	p := &recording{g: b.g, arrived: b.recordedOf, besides: b.wanted == nil}
	if b.wanted != nil {
		p.wanted = func(v *Variable) bool { _, ok := b.wanted[v]; return ok }
	}
	seeds := make([]*Variable, len(b.roots))
	for i, v := range b.roots {
		var err error
		if seeds[i], err = b.firstVariable(i, v); err != nil {
			return nil, err
		}
	}
	p.collect(b.roots)
	if err := p.run(b.roots, seeds); err != nil {
		return nil, err
	}
	if b.wanted == nil {
		return b.settleAll(p)
	}
	b.recorded = map[*Variable]*Variable{}
	var kept []*Variable
	for v := range b.wanted {
		if grad := p.grads[v]; grad != nil {
			b.recorded[v] = grad
			kept = append(kept, grad)
		}
	}
	return kept, nil
}

// settleAll passes the gradients of leaves on to their owners.
func (b *backward) settleAll(p *recording) ([]*Variable, error) {
	var kept []*Variable
	for _, v := range p.leaves {
		grad := p.grads[v]
		if err := b.settleRecorded(v, grad); err != nil {
			return nil, err
		}
		if before := b.g.gradients[v]; before.Alive() {
			grad = before.Add(grad)
		}
		if b.g.gradients == nil {
			b.g.gradients = map[*Variable]*Variable{}
		}
		b.g.gradients[v] = grad
		kept = append(kept, grad)
	}
	return kept, b.g.err
}

// firstVariable is the gradient that a root starts with.
func (b *backward) firstVariable(i int, v *Variable) (*Variable, error) {
	if start := b.start(i); start != nil {
		return start, nil
	}
	t, err := b.first(i, v)
	if err != nil {
		return nil, err
	}
	return b.g.newVariable(t), nil
}

// recordedOf is called when all of a variable's gradient is there: for hooks, and for RetainGrad. It returns what hooks have made of it.
func (b *backward) recordedOf(v, grad *Variable) (*Variable, error) {
	lists := []*hooks{&v.hooks}
	if v.param != nil {
		lists = append(lists, &v.param.hooks)
	}
	for _, list := range lists {
		for _, r := range list.list {
			var err error
			if r.variables != nil {
				grad, err = b.recordedBy(r, v, grad)
			} else {
				err = b.look(r, grad)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if v.retain && v.node != nil {
		return grad, v.keepGrad(grad.tensor().Retain())
	}
	return grad, nil
}

// recordedBy calls a hook that computes with variables, and is recorded.
func (b *backward) recordedBy(r *registered, v, grad *Variable) (*Variable, error) {
	t := grad.tensor()
	version := t.Version()
	next := b.g.Scope(func() *Variable { return r.variables(grad) })
	if err := b.g.open("Backward"); err != nil {
		return nil, err
	}
	if err := v.untouched(t, version); err != nil {
		return nil, err
	}
	return v.replacedBy(next, grad)
}

// look calls a hook, which may not replace the gradient: what it makes of it is not recorded.
func (b *backward) look(r *registered, grad *Variable) error {
	lent, version := b.g.lend(grad.tensor()), grad.tensor().Version()
	t, err := r.f(lent)
	if err == nil {
		err = b.g.open("Backward")
	}
	if err == nil {
		err = grad.untouched(grad.tensor(), version)
	}
	if err == nil && t != nil && t != lent {
		err = higherOrder("a hook replaces the gradient; one of RegisterVariableHook may")
	}
	if t != lent {
		t.Release()
	}
	return err
}

// settleRecorded adds a copy of the gradient of a leaf to what its owner has.
func (b *backward) settleRecorded(v, grad *Variable) error {
	t := grad.tensor().Retain()
	if v.param == nil {
		return v.keepOwnGrad(t)
	}
	return b.give(v.param, t)
}

// GradVariable is the gradient of a leaf that Backward with CreateGraph has left, as a variable through which gradients flow; of several
// passes it is the sum. It is nil if there was none. Grad has the same numbers as a tensor.
func (v *Variable) GradVariable() *Variable {
	if v = v.now(); v == nil || v.g == nil {
		return nil
	}
	if !v.g.ready("GradVariable") {
		return v.g.poison
	}
	return v.g.gradients[v]
}
