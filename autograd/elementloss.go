package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// The losses of elements. Each is one kernel forward and one backward, beside the reduction; they save the prediction and the
// target. Gradients flow to both. The two broadcast: a target of [N] for a prediction of [N, 1] gives the loss of all N*N pairs, of which
// PyTorch warns. Only the binary cross-entropies refuse it.

// MSELoss is (v - target)², reduced. Saves v and target.
// A target of another shape broadcasts, as in PyTorch, which warns: a
// target of [N] for a v of [N, 1] gives all N*N pairs.
func (v *Variable) MSELoss(target *Variable, r Reduction) *Variable {
	return mse.apply(elementLoss{Reduction: r}, v, target)
}

// L1Loss is |v - target|, reduced. Its gradient where they are equal, or one is NaN, is 0. Saves v and target.
// A target of another shape broadcasts, as in PyTorch, which warns: a
// target of [N] for a v of [N, 1] gives all N*N pairs.
func (v *Variable) L1Loss(target *Variable, r Reduction) *Variable {
	return l1.apply(elementLoss{Reduction: r}, v, target)
}

// SmoothL1Loss is d²/(2*beta) where d = |v - target| is less than beta, else d - beta/2, reduced. PyTorch's default for beta is 1;
// 0 gives L1Loss. Saves v and target.
// A target of another shape broadcasts, as in PyTorch, which warns: a
// target of [N] for a v of [N, 1] gives all N*N pairs.
func (v *Variable) SmoothL1Loss(target *Variable, beta float64, r Reduction) *Variable {
	return smoothL1.apply(elementLoss{Reduction: r, scale: beta}, v, target)
}

// HuberLoss is d²/2 where d = |v - target| is less than delta, else delta*(d - delta/2), reduced. PyTorch's default for delta is 1.
// Saves v and target.
// A target of another shape broadcasts, as in PyTorch, which warns: a
// target of [N] for a v of [N, 1] gives all N*N pairs.
func (v *Variable) HuberLoss(target *Variable, delta float64, r Reduction) *Variable {
	return huber.apply(elementLoss{Reduction: r, scale: delta}, v, target)
}

// KLDivLoss is the Kullback-Leibler divergence of target from v, which holds logarithms of probabilities: target*(log(target) - v),
// and 0 where target is 0, reduced. If logTarget is set, target holds logarithms too. PyTorch's default is the mean over all
// elements; BatchMeanReduction gives what the formula says. Saves v and target.
func (v *Variable) KLDivLoss(target *Variable, logTarget bool, r Reduction) *Variable {
	if v == nil || r != BatchMeanReduction {
		return klDiv.apply(elementLoss{Reduction: r, log: logTarget}, v, target)
	}
	return v.g.namedOne(klDiv.name, []*Variable{v, target}, func() *Variable {
		batch := 1 // of a scalar; nothing divided by an empty batch is NaN, as the mean of nothing
		if v.NDim() > 0 {
			batch = v.Dim(0)
		}
		return klDiv.apply(elementLoss{Reduction: SumReduction, log: logTarget}, v, target).DivScalar(float64(batch))
	})
}

// elementLoss is the argument of these operations.
type elementLoss struct {
	Reduction
	scale float64 // beta or delta
	log   bool    // the target of KLDivLoss holds logarithms
}

type (
	lossForward = func(a elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error)
	lossGrad    = func(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error)
)

// defineLoss defines the loss of elements; toTarget is its gradient with respect to the target.
func defineLoss(name string, forward lossForward, grad, toTarget lossGrad) *op {
	rules := func(f lossGrad) rule {
		return rule{uses: input(0) | input(1), grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
			a, pred, target := n.arg.(elementLoss), n.savedInput(0), n.savedInput(1)
			if a.Reduction != MeanReduction {
				return f(a, g, pred, target)
			}
			shape, err := tensor.BroadcastShapes(pred.Shape(), target.Shape())
			if err != nil {
				return nil, err
			}
			share, err := g.DivScalar(float64(shape.Len()))
			if err != nil {
				return nil, err
			}
			return after(share, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(a, g, pred, target) })
		}}
	}
	return define(name, func(n *node) (*tensor.Tensor, error) {
		a := n.arg.(elementLoss)
		if a.Reduction > NoReduction {
			return nil, fmt.Errorf("%s is not a reduction of this loss", a.Reduction)
		}
		t, err := forward(a, n.tensor(0), n.tensor(1))
		if err != nil {
			return nil, err
		}
		return a.Reduction.reduce(t)
	}, rules(grad), rules(toTarget))
}

// swapped is the gradient with respect to the target of a loss that depends on the difference alone.
func swapped(f lossGrad) lossGrad {
	return func(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
		return f(a, g, target, pred)
	}
}

var (
	mse = defineLoss("mse_loss",
		func(_ elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.MSELoss(pred, target)
		},
		mseGrad, swapped(mseGrad))
	l1 = defineLoss("l1_loss",
		func(_ elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.L1Loss(pred, target)
		},
		l1Grad, swapped(l1Grad))
	smoothL1 = defineLoss("smooth_l1_loss",
		func(a elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.SmoothL1Loss(pred, target, a.scale)
		}, smoothL1Grad, swapped(smoothL1Grad))
	huber = defineLoss("huber_loss",
		func(a elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.HuberLoss(pred, target, a.scale)
		}, huberGrad, swapped(huberGrad))
	klDiv = defineLoss("kl_div",
		func(a elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.KLDivLoss(pred, target, a.log)
		}, klDivGrad, klDivGradTarget)
)

func mseGrad(_ elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.MSELoss(g, pred, target)
}

func l1Grad(_ elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.L1Loss(g, pred, target)
}

func smoothL1Grad(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.SmoothL1Loss(g, pred, target, a.scale)
}

func huberGrad(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.HuberLoss(g, pred, target, a.scale)
}

func klDivGrad(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.KLDivLoss(g, pred, target, a.log)
}

// klDivGradTarget is g*(log(target) + 1 - v), or 0 where target is 0; of logarithms it is g*exp(target)*(target - v + 1).
func klDivGradTarget(a elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	if a.log {
		slope := w.do(w.do(target.Sub(pred)).AddScalar(1))
		return w.result(w.do(w.do(target.Exp()).Mul(slope)).Mul(g))
	}
	slope := w.do(w.do(w.do(target.Log()).AddScalar(1)).Sub(pred))
	some := w.do(target.NeScalar(0))
	return w.result(keepWhere(some, w.do(slope.Mul(g))))
}
