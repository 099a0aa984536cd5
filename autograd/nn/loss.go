package nn

import "github.com/cistern-ml/cistern/autograd"

// Loss compares a prediction with a target. The results of the constructors below are the mean over the batch, unless
// another reduction is chosen.
type Loss func(prediction, target *autograd.Variable) *autograd.Variable

// CrossEntropyLoss is the loss of logits [N, C] against classes [N] of type int64, or against probabilities [N, C]; see
// autograd.Variable.CrossEntropy.
func CrossEntropyLoss(opts ...autograd.ClassLossOption) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.CrossEntropy(t, opts...) })
}

// NLLLoss is the loss of logarithms of probabilities [N, C] against classes [N] of type int64.
func NLLLoss(opts ...autograd.ClassLossOption) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.NLLLoss(t, opts...) })
}

// MSELoss is the squared difference.
func MSELoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.MSELoss(t, chosen(r)) })
}

// L1Loss is the absolute difference.
func L1Loss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.L1Loss(t, chosen(r)) })
}

// BCEWithLogitsLoss is the binary cross-entropy of logits against probabilities.
func BCEWithLogitsLoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.BCEWithLogitsLoss(t, chosen(r)) })
}

// BCELoss is the binary cross-entropy of probabilities, as a Sigmoid gives them. Autocasting refuses it.
func BCELoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.BCELoss(t, chosen(r)) })
}

// SmoothL1Loss is quadratic below a difference of beta, and linear above. PyTorch's default for beta is 1.
func SmoothL1Loss(beta float64, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.SmoothL1Loss(t, beta, chosen(r)) })
}

// HuberLoss is SmoothL1Loss times delta. PyTorch's default for delta is 1.
func HuberLoss(delta float64, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.HuberLoss(t, delta, chosen(r)) })
}

// KLDivLoss is the Kullback-Leibler divergence of a prediction of logarithms of probabilities from the target, which holds
// logarithms too if logTarget is set. BatchMeanReduction gives what the formula says.
func KLDivLoss(logTarget bool, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.KLDivLoss(t, logTarget, chosen(r)) })
}

// HingeEmbeddingLoss is the prediction, a distance, where the target is 1, and max(0, margin - prediction) where it is -1. PyTorch's default margin is 1.
func HingeEmbeddingLoss(margin float64, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.HingeEmbeddingLoss(t, margin, chosen(r)) })
}

// SoftMarginLoss is log(1 + exp(-target*prediction)), for targets of 1 and -1.
func SoftMarginLoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.SoftMarginLoss(t, chosen(r)) })
}

// MultiLabelSoftMarginLoss is the binary cross-entropy of logits [N, C], the mean over the classes for each row.
func MultiLabelSoftMarginLoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.MultiLabelSoftMarginLoss(t, nil, chosen(r)) })
}

// MultiMarginLoss is the hinge loss of predictions [N, C] against classes [N] of type int64. PyTorch's default margin is 1.
func MultiMarginLoss(margin float64, m autograd.MultiMargin, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.MultiMarginLoss(t, margin, m, chosen(r)) })
}

// MultiLabelMarginLoss is the hinge loss of predictions [N, C] against lists of classes [N, C] of type int64, which a negative number ends.
func MultiLabelMarginLoss(r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.MultiLabelMarginLoss(t, chosen(r)) })
}

// PoissonNLLLoss is the negative logarithm of the probability of counts, for predictions of logarithms of rates unless n says otherwise.
func PoissonNLLLoss(n autograd.PoissonNLL, r ...autograd.Reduction) Loss {
	return scoped(func(p, t *autograd.Variable) *autograd.Variable { return p.PoissonNLLLoss(t, n, chosen(r)) })
}

// chosen is the last of the given reductions, or the default.
func chosen(r []autograd.Reduction) autograd.Reduction {
	if len(r) == 0 {
		return autograd.MeanReduction
	}
	return r[len(r)-1]
}

func scoped(loss Loss) Loss {
	return func(p, t *autograd.Variable) *autograd.Variable {
		return p.Graph().Scope(func() *autograd.Variable { return loss(p, t) })
	}
}
