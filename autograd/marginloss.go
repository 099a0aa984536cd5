package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The losses with a margin. They are made of other operations, whose gradients are theirs, and save what those do. Under autocast they are
// computed in float32, as PyTorch's are.

var (
	marginRanking   = composite{name: "margin_ranking_loss", wide: true}
	hingeEmbedding  = composite{name: "hinge_embedding_loss", wide: true}
	cosineEmbedding = composite{name: "cosine_embedding_loss", wide: true}
	tripletMargin   = composite{name: "triplet_margin_loss", wide: true}
	softMargin      = composite{name: "soft_margin_loss", wide: true}
	multiMargin     = composite{name: "multi_margin_loss", wide: true}
	multiLabelSoft  = composite{name: "multilabel_soft_margin_loss", wide: true}
	multiLabel      = composite{name: "multilabel_margin_loss", wide: true}
)

// MarginRankingLoss is max(0, margin - target*(v - other)), reduced: v shall be greater by margin where target is 1, less where it is -1. The three
// broadcast. PyTorch's default margin is 0.
func (v *Variable) MarginRankingLoss(other, target *Variable, margin float64, r Reduction) *Variable {
	in := []*Variable{v, other, target}
	return marginRanking.loss(r, in, func() error {
		return firstError(marginRanking.floats(v, other), marginRanking.broadcast(in...))
	}, func(in []*Variable) *Variable {
		return in[2].To(in[0].dtype).Neg().Mul(in[0].Sub(in[1])).AddScalar(margin).hinge()
	})
}

// HingeEmbeddingLoss is v where target is 1, max(0, margin - v) where it is -1, and the sum of the two elsewhere, reduced. The two
// broadcast. PyTorch's default margin is 1.
func (v *Variable) HingeEmbeddingLoss(target *Variable, margin float64, r Reduction) *Variable {
	in := []*Variable{v, target}
	return hingeEmbedding.loss(r, in, func() error {
		return firstError(hingeEmbedding.floats(v), hingeEmbedding.broadcast(in...))
	}, func(in []*Variable) *Variable {
		x, target := in[0], in[1]
		zero := x.g.Scalar(0, x.dtype)
		apart := Where(target.NeScalar(1), x.RSubScalar(margin).hinge(), zero)
		return Where(target.NeScalar(-1), x, zero).Add(apart)
	})
}

// CosineEmbeddingLoss is, for each row of v and other, [N, D], 1 - cos where target is 1 and max(0, cos - margin) where it is -1, reduced; target is
// [N]. A single row [D] has a target without dimensions. PyTorch's default margin is 0.
func (v *Variable) CosineEmbeddingLoss(other, target *Variable, margin float64, r Reduction) *Variable {
	in := []*Variable{v, other, target}
	return cosineEmbedding.loss(r, in, func() error {
		if v.NDim() != target.NDim()+1 || other.NDim() != v.NDim() || target.NDim() > 1 {
			return cosineEmbedding.shapes("rows are [N, D] with targets [N], or [D] with a target without dimensions", in...)
		}
		return firstError(cosineEmbedding.floats(v, other), cosineEmbedding.broadcast(v, other))
	}, func(in []*Variable) *Variable {
		const least = float64(float32(1e-12)) // PyTorch's
		last := []int{-1}
		squares := func(x *Variable) *Variable { return x.Square().Sum(last, false).AddScalar(least) }
		cos := in[0].Mul(in[1]).Sum(last, false).Div(squares(in[0]).Mul(squares(in[1])).Sqrt())
		zero := cos.g.Scalar(0, cos.dtype)
		near := Where(in[2].EqScalar(1), cos.RSubScalar(1), zero)
		return near.Add(Where(in[2].EqScalar(-1), cos.SubScalar(margin).hinge(), zero))
	})
}

// Triplet is how TripletMarginLoss measures. The zero value is PyTorch's default.
type Triplet struct {
	P    float64 // of the norm; 0 is 2
	Eps  float64 // added to differences, 0 is 1e-6
	Swap bool    // the negative is compared with the anchor or the positive, whichever is nearer
}

// TripletMarginLoss is max(0, margin + d(v, positive) - d(v, negative)), reduced, where d is PairwiseDistance along the last dimension. PyTorch's
// default margin is 1.
func (v *Variable) TripletMarginLoss(positive, negative *Variable, margin float64, t Triplet, r Reduction) *Variable {
	in := []*Variable{v, positive, negative}
	return tripletMargin.loss(r, in, func() error {
		if v.NDim() != positive.NDim() || v.NDim() != negative.NDim() {
			return tripletMargin.shapes("the three have the same number of dimensions", in...)
		}
		return firstError(tripletMargin.floats(in...), tripletMargin.broadcast(in...))
	}, func(in []*Variable) *Variable {
		d := func(a, b *Variable) *Variable { return a.distance(b, defaultTo(t.P, 2), defaultTo(t.Eps, 1e-6), false) }
		near, far := d(in[0], in[1]), d(in[0], in[2])
		if t.Swap {
			far = far.Minimum(d(in[1], in[2]))
		}
		return near.AddScalar(margin).Sub(far).hinge()
	})
}

// hinge is max(0, v), with the gradient of v at 0 and without one at NaN.
func (v *Variable) hinge() *Variable { return v.Clamp(0, math.Inf(1)) }

// SoftMarginLoss is log(1 + exp(-target*v)), reduced, for targets of 1 and -1, which broadcast to v. It does not overflow, where PyTorch's does.
func (v *Variable) SoftMarginLoss(target *Variable, r Reduction) *Variable {
	in := []*Variable{v, target}
	return softMargin.loss(r, in, func() error {
		return firstError(softMargin.floats(v), softMargin.broadcast(in...))
	}, func(in []*Variable) *Variable {
		return in[1].To(in[0].dtype).Neg().Mul(in[0]).Softplus(1, softplusLinear)
	})
}

// MultiLabelSoftMarginLoss is, for each row of logits v, [..., C], the mean over the classes of their binary cross-entropies with target, of
// v's shape, times the weights of the classes, [C], nil for 1; the rows' losses are reduced.
func (v *Variable) MultiLabelSoftMarginLoss(target, weight *Variable, r Reduction) *Variable {
	in := []*Variable{v, target}
	if weight != nil {
		in = append(in, weight)
	}
	return multiLabelSoft.loss(r, in, func() error {
		if v.NDim() == 0 || !v.Shape().Equal(target.Shape()) {
			return multiLabelSoft.shapes("logits and target have one shape, [..., C]", in[:2]...)
		}
		return firstError(multiLabelSoft.floats(v), multiLabelSoft.broadcast(in...))
	}, func(in []*Variable) *Variable {
		x, target := in[0], in[1].To(in[0].dtype)
		yes, no := x.Neg().Softplus(1, softplusLinear), x.Softplus(1, softplusLinear)
		loss := target.Mul(yes).Add(target.RSubScalar(1).Mul(no))
		if len(in) > 2 {
			loss = loss.Mul(in[2])
		}
		return loss.Mean([]int{-1}, false)
	})
}

// MultiMargin is how MultiMarginLoss counts. The zero value is PyTorch's default.
type MultiMargin struct {
	P      int       // the power, 1 or 2; 0 is 1
	Weight *Variable // of the classes, [C]; nil is 1
}

// MultiMarginLoss is, for each row of v, [N, C] or [C], the sum over the classes but its own, y, of max(0, margin - v[y] + v[i])**p, times the weight of y, by
// C; the rows' losses are reduced. target is the rows' classes, [N] or without dimensions, of type int64. PyTorch's default margin is 1.
func (v *Variable) MultiMarginLoss(target *Variable, margin float64, m MultiMargin, r Reduction) *Variable {
	in := []*Variable{v, target}
	if m.Weight != nil {
		in = append(in, m.Weight)
	}
	return multiMargin.loss(r, in, func() error {
		switch n := v.NDim(); {
		case n < 1 || n > 2 || target.NDim() != n-1 || n == 2 && v.Dim(0) != target.Dim(0) || v.Dim(-1) == 0:
			return multiMargin.shapes("predictions are [N, C] with classes [N], or [C] with one class", v, target)
		case m.Weight != nil && (m.Weight.NDim() != 1 || m.Weight.Len() != v.Dim(-1)):
			return multiMargin.shapes("there is a weight for each class", v, m.Weight)
		case m.P < 0 || m.P > 2:
			return multiMargin.values("p is %d; it is 1 or 2", m.P)
		case target.dtype != tensor.Int64:
			return &tensor.DTypeError{Op: multiMargin.name, DTypes: dtypesOf(in), Detail: "classes are int64"}
		}
		return multiMargin.floats(v)
	}, func(in []*Variable) *Variable {
		x, class := in[0], in[1].Unsqueeze(-1)
		z := x.Sub(x.Gather(-1, class)).AddScalar(margin).ScatterValue(-1, class, 0).positivePart()
		if m.P == 2 {
			z = z.Square()
		}
		if len(in) > 2 {
			z = z.Mul(in[2].Gather(0, in[1].Reshape(in[1].Len())).Reshape(class.Shape()...))
		}
		return z.Mean([]int{-1}, false)
	})
}

// MultiLabelMarginLoss is, for each row of v, [N, C] or [C], the sum over its classes y and the other classes i of max(0, 1 - v[y] + v[i]), by C; the rows'
// losses are reduced. target has v's shape and type int64: the row's classes, of which the first that is negative ends the list. It takes the memory
// of N*C*C elements.
func (v *Variable) MultiLabelMarginLoss(target *Variable, r Reduction) *Variable {
	in := []*Variable{v, target}
	return multiLabel.loss(r, in, func() error {
		switch n := v.NDim(); {
		case n < 1 || n > 2 || !v.Shape().Equal(target.Shape()) || v.Dim(-1) == 0:
			return multiLabel.shapes("predictions and lists of classes have one shape, [N, C] or [C]", in...)
		case target.dtype != tensor.Int64:
			return &tensor.DTypeError{Op: multiLabel.name, DTypes: dtypesOf(in), Detail: "classes are int64"}
		}
		return multiLabel.floats(v)
	}, func(in []*Variable) *Variable {
		x, target := in[0], in[1]
		listed := target.GeScalar(0).To(tensor.Int64).CumProd(-1)
		class := target.Mul(listed) // 0 after the end
		own := x.ZerosLike().ScatterAdd(-1, class, listed.To(x.dtype)).NeScalar(0)
		pairs := listed.Unsqueeze(-1).Mul(own.Not().To(tensor.Int64).Unsqueeze(-2)).EqScalar(0)
		z := x.Unsqueeze(-2).Sub(x.Gather(-1, class).Unsqueeze(-1)).AddScalar(1).positivePart().MaskedFill(pairs, 0)
		return z.Sum([]int{-1, -2}, false).DivScalar(float64(x.Dim(-1)))
	})
}
