package nn

import "github.com/cistern-ml/cistern/autograd"

// Buffers are what a module remembers besides its parameters, such as running statistics: they are saved, loaded and moved with
// the parameters, but no optimizer sees them. A buffer is a parameter that needs no gradient.

// RegisterBuffer makes p a buffer of the module itself, and returns it. Graphs compute no gradient for it.
func (b *Base) RegisterBuffer(p *autograd.Parameter) *autograd.Parameter {
	p.SetRequiresGrad(false)
	b.buffers = append(b.buffers, p)
	return p
}

// OwnBuffers lists the buffers of the module itself, without those of its parts.
func (b *Base) OwnBuffers() []*autograd.Parameter { return b.buffers }

// Buffers lists the buffers of the module and those of its parts, each once, always in the same order.
func (b *Base) Buffers() []*autograd.Parameter {
	all := append([]*autograd.Parameter(nil), b.buffers...)
	seen := map[*autograd.Parameter]bool{}
	for _, p := range all {
		seen[p] = true
	}
	for _, part := range b.parts {
		walkBuffers(part.Module, "", func(_ string, p *autograd.Parameter) {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		})
	}
	return all
}

// NamedBuffers lists the buffers of m with their paths, as NamedParameters does the parameters.
func NamedBuffers(m Module) []Named {
	var all []Named
	seen := map[*autograd.Parameter]bool{}
	walkBuffers(m, "", func(name string, p *autograd.Parameter) {
		if !seen[p] {
			seen[p] = true
			all = append(all, Named{name, p})
		}
	})
	return all
}

// NamedState lists what Save writes: the parameters and buffers of m (PyTorch's state_dict).
func NamedState(m Module) []Named { return append(NamedParameters(m), NamedBuffers(m)...) }

func walkBuffers(m Module, prefix string, visit func(name string, p *autograd.Parameter)) {
	for _, p := range buffersOf(m) {
		visit(prefix+p.Name(), p)
	}
	for _, part := range partsOf(m) {
		walkBuffers(part.Module, prefix+part.Name+".", visit)
	}
}

// buffersOf lists the buffers of m itself.
func buffersOf(m Module) []*autograd.Parameter {
	if o, ok := m.(interface {
		OwnBuffers() []*autograd.Parameter
	}); ok && !absent(m) {
		return o.OwnBuffers()
	}
	return nil
}
