package autograd

import "github.com/cistern-ml/cistern/tensor"

// BCEOption changes BCELoss and BCEWithLogitsLoss.
type BCEOption func(*bceOptions)

type bceOptions struct{ weight, positive *Variable }

// BCEWeight multiplies the loss of each element by w, which broadcasts to them.
func BCEWeight(w *Variable) BCEOption { return func(o *bceOptions) { o.weight = w } }

// PosWeight multiplies the loss of what the target says is there by w, which broadcasts to the elements: more than 1 makes a model
// find more of it. It is for BCEWithLogitsLoss.
func PosWeight(w *Variable) BCEOption { return func(o *bceOptions) { o.positive = w } }

// BCELoss is the binary cross-entropy between probabilities v and target, whose elements are in 0..1, reduced. Logarithms are at
// least -100, as in PyTorch. Both have one shape. Saves v and target.
func (v *Variable) BCELoss(target *Variable, r Reduction, opts ...BCEOption) *Variable {
	return v.weightedBCE(bce.name, r, opts, func(r Reduction, _ *Variable) *Variable {
		return bce.apply(elementLoss{Reduction: r}, v, target)
	})
}

// BCEWithLogitsLoss is the binary cross-entropy between sigmoid(v) and target, whose elements are in 0..1, reduced. It is
// computed without overflow. Both have one shape. Saves v and target. With PosWeight it is made of several operations, as in PyTorch.
func (v *Variable) BCEWithLogitsLoss(target *Variable, r Reduction, opts ...BCEOption) *Variable {
	return v.weightedBCE(bceLogits.name, r, opts, func(r Reduction, positive *Variable) *Variable {
		if positive == nil || v == nil {
			return bceLogits.apply(elementLoss{Reduction: r}, v, target)
		}
		if target != nil && v.g.err == nil && !v.Shape().Equal(target.Shape()) {
			return v.g.Refuse(bceLogits.name, &tensor.ShapeError{
				Op: "BCEWithLogitsLoss", Shapes: []tensor.Shape{v.Shape().Clone(), target.Shape().Clone()},
				Detail: "prediction and target must have one shape; they do not broadcast"}, v, target)
		}
		factor := positive.SubScalar(1).Mul(target).AddScalar(1)
		loss := v.Neg().Softplus(1, softplusLinear).Mul(factor).Add(target.Neg().AddScalar(1).Mul(v))
		return loss.reduced(r)
	})
}

// From this on log(1+exp(x)) is x in float64: exp(-40) is less than half a unit in the last place of 40.
const softplusLinear = 40

// weightedBCE computes a loss, element by element if they have weights.
func (v *Variable) weightedBCE(name string, r Reduction, opts []BCEOption, loss func(r Reduction, positive *Variable) *Variable) *Variable {
	var o bceOptions
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	if v == nil || o.weight == nil && o.positive == nil {
		return loss(r, o.positive)
	}
	in := []*Variable{v}
	for _, w := range []*Variable{o.weight, o.positive} {
		if w != nil {
			in = append(in, w)
		}
	}
	return v.g.namedOne(name, in, func() *Variable {
		if o.weight == nil {
			return loss(r, o.positive)
		}
		return loss(NoReduction, o.positive).Mul(o.weight).reduced(r)
	})
}

// reduced is the reduction as operations.
func (v *Variable) reduced(r Reduction) *Variable {
	switch r {
	case MeanReduction:
		return v.Mean(nil, false)
	case SumReduction:
		return v.Sum(nil, false)
	}
	return v
}

var (
	bce = defineLoss("binary_cross_entropy",
		func(_ elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.BCELoss(pred, target)
		},
		func(_ elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return gradients.BCELoss(g, pred, target)
		}, bceGradTarget)
	bceLogits = defineLoss("binary_cross_entropy_with_logits",
		func(_ elementLoss, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.BCEWithLogitsLoss(pred, target)
		},
		func(_ elementLoss, g, pred, target *tensor.Tensor) (*tensor.Tensor, error) {
			return gradients.BCEWithLogitsLoss(g, pred, target)
		}, bceLogitsGradTarget)
)

// bceGradTarget is g * (log(1-v) - log(v)).
func bceGradTarget(_ elementLoss, g, pred, _ *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	no := w.do(w.do(pred.RSubScalar(1)).Log())
	return w.result(w.do(no.Sub(w.do(pred.Log()))).Mul(g))
}

// bceLogitsGradTarget is -g * v.
func bceLogitsGradTarget(_ elementLoss, g, pred, _ *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	return w.result(w.do(g.Neg()).Mul(pred)) // of unsigned integers -v wraps
}
