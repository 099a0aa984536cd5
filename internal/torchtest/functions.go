package torchtest

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// functions are the operations of graphs that are not methods, or whose options need a place among the arguments.
var functions = map[string]any{
	"Where": autograd.Where, "WhereScalar": autograd.WhereScalar, "RWhereScalar": autograd.RWhereScalar, "Cat": autograd.Cat, "Stack": autograd.Stack, "AddMM": autograd.AddMM, "BAddBMM": autograd.BAddBMM,
	"Einsum":    autograd.Einsum,
	"Attention": attend, "CrossEntropy": crossEntropy, "NLLLoss": nllLoss, "BCELoss": bceLoss, "BCEWithLogitsLoss": bceWithLogitsLoss,
	"Embedding": embedding, "EmbeddingBag": embeddingBag, "Hook": hook,
}

// eagerFunctions are those of tensors.
var eagerFunctions = map[string]any{
	"Where": tensor.Where, "WhereScalar": tensor.WhereScalar, "RWhereScalar": tensor.RWhereScalar, "Cat": tensor.Cat, "Stack": tensor.Stack, "AddMM": tensor.AddMM, "BAddBMM": tensor.BAddBMM, "Einsum": tensor.Einsum,
	"Linear": tensor.Linear, "Conv1d": tensor.Conv1d, "Conv2d": tensor.Conv2d, "ConvTranspose1d": tensor.ConvTranspose1d,
	"ConvTranspose2d": tensor.ConvTranspose2d,
}

func attend(q, k, v, mask variable, causal bool, scale float64, gqa bool) variable {
	var opts []autograd.AttentionOption
	if mask != nil {
		opts = append(opts, autograd.AttnMask(mask))
	}
	if causal {
		opts = append(opts, autograd.IsCausal())
	}
	if scale != 0 {
		opts = append(opts, autograd.AttnScale(scale))
	}
	if gqa {
		opts = append(opts, autograd.EnableGQA())
	}
	return autograd.ScaledDotProductAttention(q, k, v, opts...)
}

func crossEntropy(x, target, weight variable, ignore int64, smoothing float64, r autograd.Reduction) variable {
	opts := []autograd.ClassLossOption{autograd.IgnoreIndex(ignore), autograd.LabelSmoothing(smoothing), autograd.Reduce(r)}
	if weight != nil {
		opts = append(opts, autograd.ClassWeights(weight))
	}
	return x.CrossEntropy(target, opts...)
}

func nllLoss(x, target, weight variable, ignore int64, r autograd.Reduction) variable {
	opts := []autograd.ClassLossOption{autograd.IgnoreIndex(ignore), autograd.Reduce(r)}
	if weight != nil {
		opts = append(opts, autograd.ClassWeights(weight))
	}
	return x.NLLLoss(target, opts...)
}

func bceLoss(x, target, weight variable, r autograd.Reduction) variable {
	if weight == nil {
		return x.BCELoss(target, r)
	}
	return x.BCELoss(target, r, autograd.BCEWeight(weight))
}

func bceWithLogitsLoss(x, target, weight, positive variable, r autograd.Reduction) variable {
	var opts []autograd.BCEOption
	if weight != nil {
		opts = append(opts, autograd.BCEWeight(weight))
	}
	if positive != nil {
		opts = append(opts, autograd.PosWeight(positive))
	}
	return x.BCEWithLogitsLoss(target, r, opts...)
}

func embedding(table, index variable, padding *int) variable {
	if padding == nil {
		return table.Embedding(index)
	}
	return table.Embedding(index, autograd.PaddingIdx(*padding))
}

func embeddingBag(table, index, offsets variable, mode tensor.BagMode, padding *int) variable {
	if padding == nil {
		return table.EmbeddingBag(index, offsets, mode)
	}
	return table.EmbeddingBag(index, offsets, mode, autograd.PaddingIdx(*padding))
}

// hook multiplies the gradient of v.
func hook(v variable, factor float64) variable {
	v.RegisterHook(func(g array) (array, error) { return g.MulScalar(factor) })
	return v
}
