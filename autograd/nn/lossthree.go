package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// Loss3 is a loss of three variables: two things that are compared and what is said of them, or an anchor and two others.
type Loss3 func(a, b, c *autograd.Variable) *autograd.Variable

func scoped3(loss Loss3) Loss3 {
	return func(a, b, c *autograd.Variable) *autograd.Variable {
		return a.Graph().Scope(func() *autograd.Variable { return loss(a, b, c) })
	}
}

// MarginRankingLoss is that of two predictions and targets of 1, where the first shall be greater by margin, and -1. PyTorch's default margin is 0.
func MarginRankingLoss(margin float64, r ...autograd.Reduction) Loss3 {
	return scoped3(func(a, b, target *autograd.Variable) *autograd.Variable {
		return a.MarginRankingLoss(b, target, margin, chosen(r))
	})
}

// CosineEmbeddingLoss is that of two rows of vectors and targets of 1, where they shall be alike, and -1. PyTorch's default margin is 0.
func CosineEmbeddingLoss(margin float64, r ...autograd.Reduction) Loss3 {
	return scoped3(func(a, b, target *autograd.Variable) *autograd.Variable {
		return a.CosineEmbeddingLoss(b, target, margin, chosen(r))
	})
}

// TripletMarginLoss is that of anchors, what they shall be near to, and what they shall be far from. PyTorch's default margin is 1.
func TripletMarginLoss(margin float64, t autograd.Triplet, r ...autograd.Reduction) Loss3 {
	return scoped3(func(anchor, positive, negative *autograd.Variable) *autograd.Variable {
		return anchor.TripletMarginLoss(positive, negative, margin, t, chosen(r))
	})
}

// TripletMarginWithDistanceLoss is TripletMarginLoss with a distance of the program's own; nil is PairwiseDistance. With swap the negative is compared with
// the anchor or the positive, whichever is nearer.
func TripletMarginWithDistanceLoss(distance func(a, b *autograd.Variable) *autograd.Variable, margin float64, swap bool, r ...autograd.Reduction) Loss3 {
	if distance == nil {
		distance = func(a, b *autograd.Variable) *autograd.Variable { return a.PairwiseDistance(b, 2, 1e-6, false) }
	}
	return scoped3(func(anchor, positive, negative *autograd.Variable) *autograd.Variable {
		near, far := distance(anchor, positive), distance(anchor, negative)
		if swap {
			far = far.Minimum(distance(positive, negative))
		}
		return reduced(near.AddScalar(margin).Sub(far).Clamp(0, math.Inf(1)), chosen(r))
	})
}

// reduced is the losses of elements, reduced.
func reduced(loss *autograd.Variable, r autograd.Reduction) *autograd.Variable {
	switch r {
	case autograd.NoReduction:
		return loss
	case autograd.SumReduction:
		return loss.Sum(nil, false)
	case autograd.MeanReduction:
		return loss.Mean(nil, false)
	}
	return loss.Graph().Refuse("loss", argumentErr("loss", "%s is not a reduction of this loss", r), loss)
}

// GaussianNLLLoss is that of predictions, targets and variances.
func GaussianNLLLoss(n autograd.GaussianNLL, r ...autograd.Reduction) Loss3 {
	return scoped3(func(prediction, target, variance *autograd.Variable) *autograd.Variable {
		return prediction.GaussianNLLLoss(target, variance, n, chosen(r))
	})
}

// CTCLoss is the connectionist temporal classification loss of logarithms of probabilities [T, N, C] against labels, with the number of steps and of
// labels of each sequence; see autograd.Variable.CTCLoss.
func CTCLoss(c autograd.CTC, r ...autograd.Reduction) func(logProbs, targets *autograd.Variable, inputs, lengths []int) *autograd.Variable {
	return func(logProbs, targets *autograd.Variable, inputs, lengths []int) *autograd.Variable {
		return logProbs.CTCLoss(targets, inputs, lengths, c, chosen(r))
	}
}
