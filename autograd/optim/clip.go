package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// ClipGradNorm scales the gradients of all parameters together, in place, so that the norm of all their elements is at most
// maxNorm, and returns the norm before (torch.nn.utils.clip_grad_norm_, with the 2-norm). Parameters without a gradient are
// skipped. It waits for the device.
//
// As in PyTorch, a norm that is not finite is no error: it is what a GradScaler looks for, which then skips the step. Without
// one, check the result: the gradients are not usable, and are left as they are.
func ClipGradNorm(params []*autograd.Parameter, maxNorm float64) (float64, error) {
	if !(maxNorm >= 0) {
		return 0, &ConfigError{"ClipGradNorm", fmt.Sprintf("norm %v; it must not be negative", maxNorm)}
	}
	total := 0.0
	for _, p := range params {
		if p.Grad() == nil {
			continue
		}
		s, err := squares(p.Grad())
		if err != nil {
			return 0, fmt.Errorf("optim: ClipGradNorm: parameter %q: %w", p.Name(), err)
		}
		total += s
	}
	norm := math.Sqrt(total)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, nil
	}
	factor := maxNorm / (norm + 1e-6)
	if factor >= 1 {
		return norm, nil
	}
	for _, p := range params {
		if p.Grad() == nil {
			continue
		}
		if err := p.Grad().MulScalarInPlace(factor); err != nil {
			return norm, fmt.Errorf("optim: ClipGradNorm: parameter %q: %w", p.Name(), err)
		}
	}
	return norm, nil
}

// squares is the sum of the squares of the elements. Types of 16 bits, whose squares overflow soon, are summed in float32.
func squares(t *tensor.Tensor) (float64, error) {
	dt := t.DType()
	if dt.Size() == 2 {
		dt = tensor.Float32
	}
	wide, err := t.To(dt)
	if err != nil {
		return 0, err
	}
	defer wide.Release()
	square, err := wide.Mul(wide)
	if err != nil {
		return 0, err
	}
	defer square.Release()
	sum, err := square.Sum(nil, false)
	if err != nil {
		return 0, err
	}
	defer sum.Release()
	return sum.Item()
}
