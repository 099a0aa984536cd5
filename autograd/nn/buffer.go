package nn

import "github.com/cistern-ml/cistern/autograd"

// Buffers are what a module remembers besides its parameters, such as running statistics: they are saved, loaded and moved with
// the parameters, but no optimizer sees them. A buffer is a parameter that needs no gradient.

// OwnBuffers lists the buffers of the module itself, without those of its parts.
func (b *Base) OwnBuffers() []*autograd.Parameter {
	return parametersOf(once(b.ownIn(b.whole(), true)))
}

// Buffers lists the buffers of the module and those of its parts, each once, always in the same order.
func (b *Base) Buffers() []*autograd.Parameter { return parametersOf(NamedBuffers(b.whole())) }
