package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// Reduction says what a loss makes of the losses of its elements.
type Reduction uint8

// The reductions. The zero Reduction is PyTorch's default.
const (
	MeanReduction Reduction = iota // their mean
	SumReduction                   // their sum
	NoReduction                    // themselves
)

// String is PyTorch's name.
func (r Reduction) String() string {
	switch r {
	case MeanReduction:
		return "mean"
	case SumReduction:
		return "sum"
	case NoReduction:
		return "none"
	}
	return fmt.Sprintf("Reduction(%d)", uint8(r))
}

// reduce applies r to t, which it takes over.
func (r Reduction) reduce(t *tensor.Tensor) (*tensor.Tensor, error) {
	switch r {
	case MeanReduction:
		return after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Mean(nil, false) })
	case SumReduction:
		return after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Sum(nil, false) })
	case NoReduction:
		return t, nil
	}
	t.Release()
	return nil, fmt.Errorf("%s is not a reduction", r)
}

// scale is the gradient of the losses of the elements, given that of the reduced loss. It broadcasts to them.
func (r Reduction) scale(g *tensor.Tensor, elements int) (*tensor.Tensor, error) {
	if r == MeanReduction {
		return g.DivScalar(float64(elements))
	}
	return g.Retain(), nil
}
