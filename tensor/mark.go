package tensor

import (
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
)

// Mark tells the meters of t's allocator what the memory is for, and by what it was allocated if no operation has asked for it. A tensor
// without memory is none of theirs. It is for packages of this module, which alone can write the key.
func Mark(key training.Key, t *Tensor, u memmeter.Use, by oplabel.Label) {
	if b, ok := t.held(); ok {
		memory.Mark(key, b, u, by)
	}
}

// MarkState is Mark for the state that the optimizer op keeps for a parameter of. It is for packages of this module.
func MarkState(key training.Key, t, of *Tensor, op string) {
	b, ok := t.held()
	p, _ := of.held()
	if ok {
		memory.MarkState(key, b, p, op)
	}
}

// MarkSaved tells the meters of t's allocator that an operation saves the memory for backward. It is for packages of this module.
func MarkSaved(key training.Key, t *Tensor, by oplabel.Label) {
	if b, ok := t.held(); ok {
		memory.MarkSaved(key, b, by)
	}
}

// held is the block of a tensor that has one.
func (t *Tensor) held() (memory.Block, bool) {
	if !t.made() || t.Released() {
		return memory.Block{}, false
	}
	return t.storage.block, true
}
