package memory

// Allocator is whose plan it is; nil for no plan.
func (p *Plan) Allocator() *Caching {
	if p == nil {
		return nil
	}
	return p.a
}

// Closed reports whether the plan serves nobody any more: its Close was called or that of the allocator, or there is no plan.
func (p *Plan) Closed() bool {
	if p.absent() {
		return true
	}
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return p.a.plan != p || p.a.closed.Load()
}
