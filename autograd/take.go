package autograd

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// take is t as a parameter's own. What is not the caller's to give, because a graph has lent it or a parameter has it, stays with its owner: the
// result is another handle on the same memory then, so that neither release reaches the other.
func take(t *tensor.Tensor) *tensor.Tensor {
	if tensor.Keep(training.Key{}, t) {
		return t
	}
	return t.Retain()
}

// shown is t as others see it who may hand it on, which take must know.
func shown(t *tensor.Tensor) *tensor.Tensor {
	tensor.Keep(training.Key{}, t)
	return t
}

// given releases what a function of the program has handed over, unless that belongs to somebody else.
func given(ts ...*tensor.Tensor) {
	for _, t := range ts {
		if !tensor.Kept(training.Key{}, t) {
			t.Release()
		}
	}
}

// repeats reports whether several elements share an address, as after Expand: such a tensor cannot be changed in place.
func repeats(t *tensor.Tensor) bool {
	strides := t.Strides()
	for i, n := range t.Shape() {
		if n > 1 && strides[i] == 0 {
			return t.Len() > 0
		}
	}
	return false
}
