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
	// BatchMeanReduction is the sum by the size of the first dimension: for KLDivLoss alone.
	BatchMeanReduction
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
	case BatchMeanReduction:
		return "batchmean"
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
	return nil, fmt.Errorf("%s is not a reduction of this loss", r)
}
