package nn

import "github.com/cistern-ml/cistern/autograd"

// Buffers are what a module remembers besides its parameters, such as running statistics: they are saved, loaded and moved with
// the parameters, but no optimizer sees them. A buffer is a parameter that needs no gradient.

// OwnBuffers lists the buffers of the module itself, without those of its parts.
func (b *Base) OwnBuffers() []*autograd.Parameter {
	return parametersOf(once(b.ownIn(b.whole(), ofBuffers)))
}

// Buffers lists the buffers of the module and those of its parts, each once, always in the same order.
func (b *Base) Buffers() []*autograd.Parameter { return parametersOf(NamedBuffers(b.whole())) }

// BufferOption changes how a buffer is registered.
type BufferOption func(*slot)

// NonPersistent makes a buffer that To moves and gives memory, and Buffers and NamedBuffers list, but that is in no file: not in NamedState, Save, Load and
// package checkpoint (register_buffer with persistent=False). It is for what can be computed anew, as tables of positions and masks.
//
// The tag of an exported field says the same: `nn:"name,nonpersistent"`, and `nn:"name,buffer"` for a buffer that is saved; without a name
// (`nn:",buffer"`) that of the field stays.
func NonPersistent() BufferOption { return func(s *slot) { s.unsaved = true } }

func (s *slot) apply(opts []BufferOption) {
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
}
