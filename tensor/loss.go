package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The losses of elements: PyTorch's functions with reduction "none". Prediction and target promote, to a floating-point type. They
// broadcast, of which PyTorch warns, because a column against a row is seldom meant: MSELoss of [N, 1] and [N] is [N, N]. The binary
// cross-entropies refuse shapes that differ, as in PyTorch.

// MSELoss is (pred - target)².
func MSELoss(pred, target *Tensor) (*Tensor, error) {
	return elementLoss("MSELoss", op.SquaredError, pred, target)
}

// L1Loss is |pred - target|.
func L1Loss(pred, target *Tensor) (*Tensor, error) {
	return elementLoss("L1Loss", op.SmoothL1, pred, target, 0, 1)
}

// SmoothL1Loss is d²/(2*beta) where d = |pred - target| is less than beta, else d - beta/2. beta is at least 0; 0 gives L1Loss.
func SmoothL1Loss(pred, target *Tensor, beta float64) (*Tensor, error) {
	const name = "SmoothL1Loss"
	if err := checkBeta(name, beta, pred, target); err != nil {
		return nil, err
	}
	return elementLoss(name, op.SmoothL1, pred, target, beta, 1)
}

// HuberLoss is d²/2 where d = |pred - target| is less than delta, else delta*(d - delta/2). delta is more than 0.
func HuberLoss(pred, target *Tensor, delta float64) (*Tensor, error) {
	const name = "HuberLoss"
	if err := checkDelta(name, delta, pred, target); err != nil {
		return nil, err
	}
	return elementLoss(name, op.SmoothL1, pred, target, delta, delta)
}

// checkBeta refuses operands that do not go together, and then a beta of smooth L1.
func checkBeta(name string, beta float64, ts ...*Tensor) error {
	if err := together(name, ts...); err != nil {
		return err
	}
	if !(beta >= 0) || math.IsInf(beta, 0) {
		return valueErr(name, "beta is %v; it must not be negative", beta)
	}
	return nil
}

// checkDelta is checkBeta for the delta of Huber's loss.
func checkDelta(name string, delta float64, ts ...*Tensor) error {
	if err := together(name, ts...); err != nil {
		return err
	}
	if !(delta > 0) || math.IsInf(delta, 0) {
		return valueErr(name, "delta is %v; it must be more than 0", delta)
	}
	return nil
}

// BCELoss is the binary cross-entropy of probabilities, -(target*log(pred) + (1-target)*log(1-pred)), with logarithms of at least
// -100. It is NaN for predictions outside of 0..1, which PyTorch refuses. Both have one shape.
func BCELoss(pred, target *Tensor) (*Tensor, error) {
	const name = "BCELoss"
	if err := sameShape(name, pred, target); err != nil {
		return nil, err
	}
	return elementLoss(name, op.BCE, pred, target)
}

// BCEWithLogitsLoss is BCELoss of sigmoid(pred), computed without overflow.
func BCEWithLogitsLoss(pred, target *Tensor) (*Tensor, error) {
	const name = "BCEWithLogitsLoss"
	if err := sameShape(name, pred, target); err != nil {
		return nil, err
	}
	return elementLoss(name, op.BCELogits, pred, target)
}

// sameShape refuses a prediction and a target whose shapes differ.
func sameShape(name string, pred, target *Tensor) error {
	if err := together(name, pred, target); err != nil {
		return err
	}
	if !pred.Shape().Equal(target.Shape()) {
		return shapeErr(name, []Shape{pred.Shape(), target.Shape()}, "prediction and target must have one shape; they do not broadcast")
	}
	return nil
}

// KLDivLoss is target*(log(target) - pred), and 0 where target is 0: pred holds logarithms of probabilities. If logTarget is set,
// so does target.
func KLDivLoss(pred, target *Tensor, logTarget bool) (*Tensor, error) {
	return elementLoss("KLDivLoss", op.KLDiv, pred, target, float64(flag(logTarget)))
}

// The gradients of the losses with respect to the prediction: grad, the gradient of the loss, broadcasts to the shape that the
// others broadcast to, which the result has.

// MSELoss is the gradient of tensor.MSELoss.
func (gradients) MSELoss(grad, pred, target *Tensor) (*Tensor, error) {
	return elementLossGrad("MSELossGrad", op.SquaredErrorGrad, grad, pred, target)
}

// L1Loss is the gradient of tensor.L1Loss: 0 where prediction and target are equal, and, as in PyTorch, where one of them is NaN.
func (gradients) L1Loss(grad, pred, target *Tensor) (*Tensor, error) {
	return elementLossGrad("L1LossGrad", op.SmoothL1Grad, grad, pred, target, -1, 1)
}

// SmoothL1Loss is the gradient of tensor.SmoothL1Loss.
func (gradients) SmoothL1Loss(grad, pred, target *Tensor, beta float64) (*Tensor, error) {
	const name = "SmoothL1LossGrad"
	if err := checkBeta(name, beta, grad, pred, target); err != nil {
		return nil, err
	}
	return elementLossGrad(name, op.SmoothL1Grad, grad, pred, target, beta, 1)
}

// HuberLoss is the gradient of tensor.HuberLoss.
func (gradients) HuberLoss(grad, pred, target *Tensor, delta float64) (*Tensor, error) {
	const name = "HuberLossGrad"
	if err := checkDelta(name, delta, grad, pred, target); err != nil {
		return nil, err
	}
	return elementLossGrad(name, op.SmoothL1Grad, grad, pred, target, delta, delta)
}

// BCELoss is the gradient of tensor.BCELoss, with a divisor of at least 1e-12.
func (gradients) BCELoss(grad, pred, target *Tensor) (*Tensor, error) {
	const name = "BCELossGrad"
	if err := sameShape(name, pred, target); err != nil {
		return nil, err
	}
	return elementLossGrad(name, op.BCEGrad, grad, pred, target)
}

// BCEWithLogitsLoss is the gradient of tensor.BCEWithLogitsLoss.
func (gradients) BCEWithLogitsLoss(grad, pred, target *Tensor) (*Tensor, error) {
	const name = "BCEWithLogitsLossGrad"
	if err := sameShape(name, pred, target); err != nil {
		return nil, err
	}
	return elementLossGrad(name, op.BCELogitsGrad, grad, pred, target)
}

// KLDivLoss is the gradient of tensor.KLDivLoss.
func (gradients) KLDivLoss(grad, pred, target *Tensor, logTarget bool) (*Tensor, error) {
	return elementLossGrad("KLDivLossGrad", op.KLDivGrad, grad, pred, target, float64(flag(logTarget)))
}

func elementLoss(name string, id op.ID, pred, target *Tensor, v ...float64) (*Tensor, error) {
	dt, err := lossType(name, pred, target)
	if err != nil {
		return nil, err
	}
	return binary(name, id, pred, target, dt, dt, numbers(dt, v...))
}

// lossType is the type that operands are computed in.
func lossType(name string, ts ...*Tensor) (DType, error) {
	if err := together(name, ts...); err != nil {
		return 0, err
	}
	dt := ts[0].dtype
	for _, t := range ts[1:] {
		dt = Promote(dt, t.dtype)
	}
	if !dt.IsFloat() {
		return 0, dtypeErr(name, needsFloat, dtypesOf(ts)...)
	}
	return dt, nil
}

func elementLossGrad(name string, id op.ID, grad, pred, target *Tensor, v ...float64) (*Tensor, error) {
	ts := [3]*Tensor{grad, pred, target}
	dt, err := lossType(name, ts[:]...)
	if err != nil {
		return nil, err
	}
	l, err := broadcastLayout(name, pred, target)
	if err != nil {
		return nil, err
	}
	if _, ok := grad.layout.expanded(&l); !ok {
		return nil, shapeErr(name, shapesOf(ts[:]), "the gradient does not broadcast to %v", l.dims())
	}
	for i, t := range ts {
		if ts[i], err = t.as(name, dt, pred.exec); err != nil {
			return nil, err
		}
		defer drop(ts[i], t)
	}
	return pointwise(name, id, pred.exec, dt, &l, numbers(dt, v...), ts[:]...)
}
