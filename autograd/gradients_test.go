package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

type vars = []*autograd.Variable

// gradientCase is one use of an operation, on inputs of the given shapes, random unless made by inputs.
type gradientCase struct {
	op     string
	note   string
	f      gradcheck.Func
	shapes [][]int
	inputs func(r *rig) []*tensor.Tensor // instead of shapes
	prep   func(x []float64)             // changes the random numbers, to keep away from where there is no derivative
}

func positive(x []float64) {
	for i, v := range x {
		x[i] = 0.5 + v*v
	}
}

// apart moves numbers away from 0.
func apart(x []float64) {
	for i, v := range x {
		x[i] = v + 0.1
		if v < 0 {
			x[i] = v - 0.1
		}
	}
}

var gradientCases = []gradientCase{
	{op: "add", f: func(v vars) *autograd.Variable { return v[0].Add(v[1]) }, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "add", note: "broadcast", f: func(v vars) *autograd.Variable { return v[0].Add(v[1]) }, shapes: [][]int{{2, 1, 3}, {4, 1}}},
	{op: "add", note: "itself", f: func(v vars) *autograd.Variable { return v[0].Add(v[0]) }, shapes: [][]int{{3}}},
	{op: "mul", note: "itself", f: func(v vars) *autograd.Variable { return v[0].Mul(v[0]) }, shapes: [][]int{{3}}},
	{op: "sub_scalar", f: func(v vars) *autograd.Variable { return v[0].SubScalar(3) }, shapes: [][]int{{4}}},
	{op: "pow_scalar", note: "fraction", f: func(v vars) *autograd.Variable { return v[0].PowScalar(-0.5) }, shapes: [][]int{{4}}, prep: positive},
	{op: "pow_scalar", note: "zero", f: func(v vars) *autograd.Variable { return v[0].PowScalar(0) }, shapes: [][]int{{4}}},
	{op: "softplus", note: "linear part", f: func(v vars) *autograd.Variable { return v[0].Softplus(2, -1000) }, shapes: [][]int{{8}}},
	{op: "where", f: func(v vars) *autograd.Variable { return autograd.Where(v[2].Gt(v[3]), v[0], v[1]) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3), r.random(2, 1, 3), r.ints([]int64{1, 2, 3}), r.ints([]int64{2, 1, 2})}
	}},
	{op: "where_scalar", f: func(v vars) *autograd.Variable { return autograd.WhereScalar(v[1].GtScalar(1), v[0], 2) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3), r.ints([]int64{1, 2, 3})}
	}},
	{op: "rwhere_scalar", f: func(v vars) *autograd.Variable { return autograd.RWhereScalar(v[1].GtScalar(1), 0, v[0]) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 1), r.ints([]int64{1, 2, 3})}
	}},
	{op: "sum", f: func(v vars) *autograd.Variable { return v[0].Sum(nil, false) }, shapes: [][]int{{2, 3}}},
	{op: "sum", note: "dims", f: func(v vars) *autograd.Variable { return v[0].Sum([]int{0, -1}, false) }, shapes: [][]int{{2, 3, 4}}},
	{op: "sum", note: "keep", f: func(v vars) *autograd.Variable { return v[0].Sum([]int{1}, true) }, shapes: [][]int{{2, 3, 4}}},
	{op: "mean", f: func(v vars) *autograd.Variable { return v[0].Mean(nil, false) }, shapes: [][]int{{2, 3}}},
	{op: "mean", note: "dims", f: func(v vars) *autograd.Variable { return v[0].Mean([]int{-2}, false) }, shapes: [][]int{{2, 3, 4}}},
	{op: "var", f: func(v vars) *autograd.Variable { return v[0].Var(nil, 1, false) }, shapes: [][]int{{2, 3}}},
	{op: "var", note: "dims", f: func(v vars) *autograd.Variable { return v[0].Var([]int{1}, 0, true) }, shapes: [][]int{{2, 3, 2}}},
	{op: "std", f: func(v vars) *autograd.Variable { return v[0].Std([]int{0}, 1, false) }, shapes: [][]int{{3, 2}}},
	{op: "amax", f: func(v vars) *autograd.Variable { return v[0].Max(nil, false) }, shapes: [][]int{{2, 3}}},
	{op: "amax", note: "dims", f: func(v vars) *autograd.Variable { return v[0].Max([]int{0, 2}, false) }, shapes: [][]int{{2, 3, 4}}},
	{op: "amin", f: func(v vars) *autograd.Variable { return v[0].Min([]int{1}, true) }, shapes: [][]int{{2, 3, 4}}},
	{op: "matmul", note: "dot", f: matMul, shapes: [][]int{{3}, {3}}},
	{op: "matmul", note: "matrix vector", f: matMul, shapes: [][]int{{2, 3}, {3}}},
	{op: "matmul", note: "vector matrix", f: matMul, shapes: [][]int{{3}, {3, 2}}},
	{op: "matmul", note: "matrices", f: matMul, shapes: [][]int{{2, 3}, {3, 4}}},
	{op: "matmul", note: "batch matrix", f: matMul, shapes: [][]int{{2, 2, 3}, {3, 4}}},
	{op: "matmul", note: "matrix batch", f: matMul, shapes: [][]int{{2, 3}, {2, 3, 4}}},
	{op: "matmul", note: "batches broadcast", f: matMul, shapes: [][]int{{2, 1, 2, 3}, {3, 3, 2}}},
	{op: "matmul", note: "batch vector", f: matMul, shapes: [][]int{{2, 2, 2, 3}, {3}}},
	{op: "matmul", note: "vector batch", f: matMul, shapes: [][]int{{3}, {2, 2, 3, 2}}},
	{op: "linear", f: func(v vars) *autograd.Variable { return v[0].Linear(v[1], nil) }, shapes: [][]int{{2, 3}, {4, 3}}},
	{op: "linear", note: "vector", f: func(v vars) *autograd.Variable { return v[0].Linear(v[1], nil) }, shapes: [][]int{{3}, {4, 3}}},
	{op: "linear_bias", f: func(v vars) *autograd.Variable { return v[0].Linear(v[1], v[2]) }, shapes: [][]int{{2, 3}, {4, 3}, {4}}},
	{op: "linear", note: "gelu", f: func(v vars) *autograd.Variable { return v[0].LinearGELU(v[1], nil) }, shapes: [][]int{{2, 3}, {4, 3}}},
	{op: "linear_bias", note: "gelu", f: func(v vars) *autograd.Variable { return v[0].LinearGELU(v[1], v[2]) }, shapes: [][]int{{2, 2, 3}, {4, 3}, {4}}},
	{op: "linear_bias", note: "gelu tanh", f: func(v vars) *autograd.Variable { return v[0].LinearGELUTanh(v[1], v[2]) }, shapes: [][]int{{3}, {4, 3}, {4}}},
	{op: "linear_bias", note: "relu", f: func(v vars) *autograd.Variable { return v[0].LinearReLU(v[1], v[2]) }, shapes: [][]int{{2, 3}, {4, 3}, {4}}},
	{op: "linear_bias", note: "batch", f: func(v vars) *autograd.Variable { return v[0].Linear(v[1], v[2]) }, shapes: [][]int{{2, 2, 3}, {4, 3}, {4}}},
	{op: "conv1d", f: func(v vars) *autograd.Variable {
		return v[0].Conv1d(v[1], nil, tensor.Conv{Stride: []int{2}, Padding: []int{1}})
	}, shapes: [][]int{{2, 3, 6}, {4, 3, 3}}},
	{op: "conv1d_bias", f: func(v vars) *autograd.Variable { return v[0].Conv1d(v[1], v[2], tensor.Conv{Same: true}) }, shapes: [][]int{{2, 5}, {3, 2, 2}, {3}}},
	{op: "conv2d", f: func(v vars) *autograd.Variable { return v[0].Conv2d(v[1], nil, tensor.Conv{Padding: []int{1}}) }, shapes: [][]int{{2, 2, 4, 3}, {3, 2, 3, 3}}},
	{op: "conv2d", note: "strided", f: func(v vars) *autograd.Variable {
		return v[0].Conv2d(v[1], nil, tensor.Conv{Stride: []int{2, 3}, Padding: []int{0, 1}, Dilation: []int{2, 1}, Groups: 2})
	}, shapes: [][]int{{1, 4, 6, 5}, {2, 2, 2, 3}}},
	{op: "conv2d_bias", note: "depthwise", f: func(v vars) *autograd.Variable {
		return v[0].Conv2d(v[1], v[2], tensor.Conv{Padding: []int{1}, Groups: 3, Stride: []int{2}})
	}, shapes: [][]int{{2, 3, 4, 5}, {6, 1, 3, 3}, {6}}},
	{op: "conv2d_bias", note: "one image", f: func(v vars) *autograd.Variable { return v[0].Conv2d(v[1], v[2], tensor.Conv{}) }, shapes: [][]int{{2, 3, 4}, {2, 2, 2, 1}, {2}}},
	{op: "conv_transpose1d", f: func(v vars) *autograd.Variable {
		return v[0].ConvTranspose1d(v[1], nil, tensor.ConvTranspose{Stride: []int{2}, OutputPadding: []int{1}})
	}, shapes: [][]int{{2, 3, 4}, {3, 2, 3}}},
	{op: "conv_transpose1d_bias", f: func(v vars) *autograd.Variable {
		return v[0].ConvTranspose1d(v[1], v[2], tensor.ConvTranspose{Padding: []int{1}})
	}, shapes: [][]int{{3, 4}, {3, 2, 3}, {2}}},
	{op: "conv_transpose2d", f: func(v vars) *autograd.Variable {
		return v[0].ConvTranspose2d(v[1], nil, tensor.ConvTranspose{Stride: []int{2, 1}, Padding: []int{1, 0}, Groups: 2})
	}, shapes: [][]int{{2, 4, 2, 3}, {4, 1, 3, 2}}},
	{op: "conv_transpose2d_bias", f: func(v vars) *autograd.Variable {
		return v[0].ConvTranspose2d(v[1], v[2], tensor.ConvTranspose{Stride: []int{2}, Dilation: []int{2}, OutputPadding: []int{1}})
	}, shapes: [][]int{{1, 2, 2, 3}, {2, 2, 2, 2}, {2}}},
	{op: "max_pool1d", f: func(v vars) *autograd.Variable {
		return v[0].MaxPool1d(tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}})
	}, shapes: [][]int{{2, 2, 7}}},
	{op: "max_pool2d", f: func(v vars) *autograd.Variable {
		return v[0].MaxPool2d(tensor.Pool{Kernel: []int{3, 2}, Stride: []int{2}, Padding: []int{1}, CeilMode: true})
	}, shapes: [][]int{{2, 2, 6, 5}}},
	{op: "max_pool2d", note: "dilated", f: func(v vars) *autograd.Variable {
		return v[0].MaxPool2d(tensor.Pool{Kernel: []int{2}, Stride: []int{1}, Dilation: []int{2, 3}})
	}, shapes: [][]int{{2, 5, 6}}},
	{op: "adaptive_max_pool1d", f: func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool1d(3) }, shapes: [][]int{{2, 2, 7}}},
	{op: "adaptive_max_pool2d", f: func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool2d(3, 2) }, shapes: [][]int{{2, 2, 5, 6}}},
	{op: "avg_pool1d", f: func(v vars) *autograd.Variable {
		return v[0].AvgPool1d(tensor.Pool{Kernel: []int{3}, Padding: []int{1}})
	}, shapes: [][]int{{2, 2, 7}}},
	{op: "avg_pool2d", f: func(v vars) *autograd.Variable {
		return v[0].AvgPool2d(tensor.Pool{Kernel: []int{3, 2}, Stride: []int{2}, Padding: []int{1}, CeilMode: true})
	}, shapes: [][]int{{2, 2, 6, 5}}},
	{op: "avg_pool2d", note: "without padding", f: func(v vars) *autograd.Variable {
		return v[0].AvgPool2d(tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}, ExcludePadding: true})
	}, shapes: [][]int{{2, 6, 5}}},
	{op: "avg_pool2d", note: "divisor", f: func(v vars) *autograd.Variable {
		return v[0].AvgPool2d(tensor.Pool{Kernel: []int{2}, Stride: []int{1}, DivisorOverride: 3})
	}, shapes: [][]int{{1, 2, 4, 3}}},
	{op: "adaptive_avg_pool1d", f: func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool1d(3) }, shapes: [][]int{{2, 2, 7}}},
	{op: "adaptive_avg_pool2d", f: func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool2d(3) }, shapes: [][]int{{2, 2, 5, 2}}},
	{op: "upsample_nearest2d", f: func(v vars) *autograd.Variable {
		return v[0].UpsampleNearest2d(tensor.Upsample{Scale: []float64{2, 1.5}})
	}, shapes: [][]int{{2, 2, 2, 3}}},
	{op: "upsample_nearest2d", note: "smaller", f: func(v vars) *autograd.Variable { return v[0].UpsampleNearest2d(tensor.Upsample{Size: []int{2, 3}}) }, shapes: [][]int{{2, 1, 5, 4}}},
	{op: "upsample_bilinear2d", f: func(v vars) *autograd.Variable {
		return v[0].UpsampleBilinear2d(tensor.Upsample{Scale: []float64{2, 1.5}})
	}, shapes: [][]int{{2, 2, 2, 3}}},
	{op: "upsample_bilinear2d", note: "aligned", f: func(v vars) *autograd.Variable {
		return v[0].UpsampleBilinear2d(tensor.Upsample{Size: []int{5, 2}, AlignCorners: true})
	}, shapes: [][]int{{1, 2, 3, 4}}},
	{op: "upsample_bilinear2d", note: "smaller", f: func(v vars) *autograd.Variable {
		return v[0].UpsampleBilinear2d(tensor.Upsample{Scale: []float64{0.5}, RecomputeScale: true})
	}, shapes: [][]int{{1, 2, 5, 4}}},
	{op: "softmax", f: func(v vars) *autograd.Variable { return v[0].Softmax(-1) }, shapes: [][]int{{2, 3}}},
	{op: "softmax", note: "first dim", f: func(v vars) *autograd.Variable { return v[0].Softmax(0) }, shapes: [][]int{{3, 2}}},
	{op: "log_softmax", f: func(v vars) *autograd.Variable { return v[0].LogSoftmax(1) }, shapes: [][]int{{2, 3, 2}}},
	{op: "cross_entropy", f: crossEntropy(), inputs: classes(-100)},
	{op: "cross_entropy", note: "ignored, mean", f: crossEntropy(autograd.IgnoreIndex(2)), inputs: classes(2)},
	{op: "cross_entropy", note: "sum", f: crossEntropy(autograd.Reduce(autograd.SumReduction)), inputs: classes(-100)},
	{op: "cross_entropy", note: "none", f: crossEntropy(autograd.Reduce(autograd.NoReduction)), inputs: classes(-100)},
	{op: "cross_entropy", note: "one row", f: crossEntropy(), inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 3), r.ints([]int64{1}, []int{}...)}
	}},
	{op: "cross_entropy", note: "pixels", f: crossEntropy(autograd.Reduce(autograd.NoReduction)), inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3, 2), r.ints([]int64{0, 1, 2, -100}, 2, 2)}
	}},
	{op: "cross_entropy", note: "over its logits", f: func(v vars) *autograd.Variable {
		return v[0].Tanh().Unsqueeze(0).Reshape(4, 3).CrossEntropy(v[1], autograd.LabelSmoothing(0.2))
	}, inputs: classes(-100)},
	{op: "cross_entropy", note: "weights", f: weightedClasses(autograd.LabelSmoothing(0.1)), inputs: classes(0)},
	{op: "cross_entropy", note: "weights, ignored, sum", f: weightedClasses(autograd.IgnoreIndex(2), autograd.Reduce(autograd.SumReduction)), inputs: classes(2)},
	{op: "cross_entropy", note: "smoothing, none", f: crossEntropy(autograd.LabelSmoothing(1), autograd.Reduce(autograd.NoReduction)), inputs: classes(-100)},
	{op: "cross_entropy", note: "probabilities", f: func(v vars) *autograd.Variable { return v[0].CrossEntropy(v[1].Softmax(1)) }, shapes: [][]int{{4, 3}, {4, 3}}},
	{op: "cross_entropy", note: "probabilities, weights, pixels", f: func(v vars) *autograd.Variable {
		return v[0].CrossEntropy(v[1], autograd.ClassWeights(v[2]), autograd.LabelSmoothing(0.3), autograd.Reduce(autograd.NoReduction))
	}, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3, 2), r.random(2, 2, 3, 2), r.ints([]int64{1, 2, 3})}
	}},
	{op: "nll_loss", note: "weights, ignored", f: func(v vars) *autograd.Variable {
		w := v[0].Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float64{0.5, 2, 1.25}) })
		return v[0].NLLLoss(v[1], autograd.ClassWeights(w))
	}, inputs: classes(-100)},
	{op: "nll_loss", f: func(v vars) *autograd.Variable { return v[0].NLLLoss(v[1]) }, inputs: classes(-100)},
	{op: "nll_loss", note: "sum", f: func(v vars) *autograd.Variable {
		return v[0].NLLLoss(v[1], autograd.Reduce(autograd.SumReduction), autograd.IgnoreIndex(0))
	}, inputs: classes(0)},
	{op: "mse_loss", f: func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.MeanReduction) }, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "mse_loss", note: "none", f: func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.NoReduction) }, shapes: [][]int{{2, 3}, {3}}},
	{op: "l1_loss", f: func(v vars) *autograd.Variable { return v[0].L1Loss(v[1], autograd.MeanReduction) }, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "l1_loss", note: "sum", f: func(v vars) *autograd.Variable { return v[0].L1Loss(v[1], autograd.SumReduction) }, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "smooth_l1_loss", f: func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 0.7, autograd.MeanReduction) }, shapes: [][]int{{3, 4}, {4}}},
	{op: "smooth_l1_loss", note: "none", f: func(v vars) *autograd.Variable {
		return v[0].T().SmoothL1Loss(v[1], 0, autograd.NoReduction)
	}, shapes: [][]int{{3, 4}, {4, 3}}},
	{op: "huber_loss", f: func(v vars) *autograd.Variable { return v[0].HuberLoss(v[1], 0.8, autograd.SumReduction) }, shapes: [][]int{{3, 4}, {3, 4}}},
	{op: "kl_div", f: func(v vars) *autograd.Variable {
		return v[0].LogSoftmax(1).KLDivLoss(v[1].Softmax(1), false, autograd.BatchMeanReduction)
	}, shapes: [][]int{{3, 4}, {3, 4}}},
	{op: "kl_div", note: "of logarithms", f: func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], true, autograd.MeanReduction) }, shapes: [][]int{{3, 4}, {3, 4}}},
	{op: "binary_cross_entropy", f: func(v vars) *autograd.Variable {
		return v[0].Sigmoid().BCELoss(v[1].Sigmoid(), autograd.MeanReduction)
	}, shapes: [][]int{{3, 4}, {3, 4}}},
	{op: "binary_cross_entropy", note: "weight", f: func(v vars) *autograd.Variable {
		return v[0].Sigmoid().BCELoss(v[1].Sigmoid(), autograd.SumReduction, autograd.BCEWeight(v[2]))
	}, shapes: [][]int{{3, 4}, {3, 4}, {4}}},
	{op: "binary_cross_entropy_with_logits", note: "weight, positive weight", f: func(v vars) *autograd.Variable {
		return v[0].BCEWithLogitsLoss(v[1], autograd.MeanReduction, autograd.BCEWeight(v[2]), autograd.PosWeight(v[3]))
	}, shapes: [][]int{{3, 4}, {3, 4}, {3, 1}, {4}}},
	{op: "binary_cross_entropy_with_logits", f: func(v vars) *autograd.Variable {
		return v[0].BCEWithLogitsLoss(v[1].Sigmoid(), autograd.MeanReduction)
	}, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "binary_cross_entropy_with_logits", note: "none", f: func(v vars) *autograd.Variable {
		return v[0].BCEWithLogitsLoss(v[1], autograd.NoReduction)
	}, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "scaled_dot_product_attention", f: attend(), shapes: [][]int{{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}}},
	{op: "scaled_dot_product_attention", note: "one head, causal", f: attend(autograd.IsCausal(), autograd.AttnScale(0.7)), shapes: [][]int{{5, 2}, {3, 2}, {3, 2}}},
	{op: "scaled_dot_product_attention", note: "lower right", f: attend(autograd.CausalLowerRight()), shapes: [][]int{{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}}},
	{op: "scaled_dot_product_attention", note: "lower right, more queries than keys", f: attend(autograd.CausalLowerRight()), shapes: [][]int{{5, 2}, {3, 2}, {3, 2}}},
	{op: "scaled_dot_product_attention", note: "lower right, one query", f: attend(autograd.CausalLowerRight()), shapes: [][]int{{1, 2}, {3, 2}, {3, 2}}},
	{op: "scaled_dot_product_attention_packed", note: "lower right", f: func(v vars) *autograd.Variable { return v[0].SelfAttention(2, 2, autograd.CausalLowerRight()) }, shapes: [][]int{{2, 3, 12}}},
	{op: "scaled_dot_product_attention", note: "shared heads, broadcast", f: attend(autograd.EnableGQA()), shapes: [][]int{{2, 4, 3, 2}, {1, 2, 3, 2}, {2, 3, 2}}},
	{op: "scaled_dot_product_attention", note: "dropout", f: attend(autograd.AttnDropout(0.3)), shapes: [][]int{{2, 3, 4}, {2, 6, 4}, {2, 6, 2}}},
	{op: "scaled_dot_product_attention", note: "mask", f: func(v vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(v[0], v[1], v[2], autograd.AttnMask(v[3]), autograd.AttnDropout(0.2))
	}, shapes: [][]int{{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2, 1, 4}}},
	{op: "scaled_dot_product_attention", note: "strided, bool mask", f: func(v vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(v[0].Transpose(1, 2), v[1].Transpose(1, 2), v[1].Transpose(1, 2), autograd.AttnMask(v[2].Gt(v[3])))
	}, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3, 2, 4), r.random(2, 2, 3, 2, 4), r.ints([]int64{0, 1, 2}, 3, 1), r.ints([]int64{0, 0, 1})}
	}},
	{op: "scaled_dot_product_attention", note: "in a checkpoint", f: func(v vars) *autograd.Variable {
		return autograd.Checkpoint(func(in vars) *autograd.Variable { return attend(autograd.AttnDropout(0.4))(in).Tanh() }, v...)
	}, shapes: [][]int{{2, 3, 4}, {2, 5, 4}, {2, 5, 2}}},
	{op: "scaled_dot_product_attention_packed", f: func(v vars) *autograd.Variable { return v[0].SelfAttention(2, 2, autograd.IsCausal()) }, shapes: [][]int{{2, 3, 12}}},
	{op: "scaled_dot_product_attention_packed", note: "shared heads, one batch", f: func(v vars) *autograd.Variable { return v[0].SelfAttention(4, 2) }, shapes: [][]int{{3, 16}}},
	{op: "scaled_dot_product_attention_packed", note: "mask, dropout", f: func(v vars) *autograd.Variable {
		return v[0].SelfAttention(2, 1, autograd.AttnMask(v[1]), autograd.AttnDropout(0.3))
	}, shapes: [][]int{{2, 1, 4, 8}, {2, 1, 4, 4}}},
	{op: "scaled_dot_product_attention_packed", note: "strided", f: func(v vars) *autograd.Variable { return v[0].Transpose(0, 1).SelfAttention(1, 1) }, shapes: [][]int{{3, 2, 6}}},
	{op: "reshape", f: func(v vars) *autograd.Variable { return v[0].Reshape(3, -1) }, shapes: [][]int{{2, 3}}},
	{op: "reshape", note: "copy", f: func(v vars) *autograd.Variable { return v[0].Transpose(0, 1).Reshape(6) }, shapes: [][]int{{2, 3}}},
	{op: "view", f: func(v vars) *autograd.Variable { return v[0].View(3, 2) }, shapes: [][]int{{2, 3}}},
	{op: "flatten", f: func(v vars) *autograd.Variable { return v[0].Flatten(1, -1) }, shapes: [][]int{{2, 3, 2}}},
	{op: "squeeze", f: func(v vars) *autograd.Variable { return v[0].Squeeze(1) }, shapes: [][]int{{2, 1, 3, 1}}},
	{op: "unsqueeze", f: func(v vars) *autograd.Variable { return v[0].Unsqueeze(-1) }, shapes: [][]int{{2, 3}}},
	{op: "transpose", f: func(v vars) *autograd.Variable { return v[0].Transpose(0, -1) }, shapes: [][]int{{2, 3, 4}}},
	{op: "t", f: func(v vars) *autograd.Variable { return v[0].T() }, shapes: [][]int{{2, 3}}},
	{op: "permute", f: func(v vars) *autograd.Variable { return v[0].Permute(2, 0, -2) }, shapes: [][]int{{2, 3, 4}}},
	{op: "expand", f: func(v vars) *autograd.Variable { return v[0].Expand(2, -1, 4) }, shapes: [][]int{{3, 1}}},
	{op: "slice", f: func(v vars) *autograd.Variable { return v[0].Slice(1, 1, tensor.End, 2) }, shapes: [][]int{{2, 6}}},
	{op: "narrow", f: func(v vars) *autograd.Variable { return v[0].Narrow(0, 1, 2) }, shapes: [][]int{{4, 2}}},
	{op: "select", f: func(v vars) *autograd.Variable { return v[0].Select(1, -1) }, shapes: [][]int{{2, 3}}},
	{op: "cat", f: func(v vars) *autograd.Variable { return autograd.Cat(v, -1) }, shapes: [][]int{{2, 3}, {2, 1}, {2, 2}}},
	{op: "stack", f: func(v vars) *autograd.Variable { return autograd.Stack(v, -1) }, shapes: [][]int{{2, 3}, {2, 3}}},
	{op: "index_select", f: func(v vars) *autograd.Variable { return v[0].IndexSelect(1, v[1]) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 2, 3), r.ints([]int64{2, 0, 2, 2})}
	}},
	{op: "embedding", f: func(v vars) *autograd.Variable { return v[0].Embedding(v[1]) }, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 4, 3), r.ints([]int64{2, 0, 2, 3}, 2, 2)}
	}},
	{op: "dropout", f: func(v vars) *autograd.Variable { return v[0].Dropout(0.4) }, shapes: [][]int{{4, 5}}},
	{op: "checkpoint", f: func(v vars) *autograd.Variable {
		return autograd.Checkpoint(func(in vars) *autograd.Variable { return in[0].Mul(in[1]).Dropout(0.3).Tanh() }, v...)
	}, shapes: [][]int{{2, 3}, {3}}},
	{op: "to", f: func(v vars) *autograd.Variable { return v[0].To(tensor.Float64) }, shapes: [][]int{{2, 3}}},
	{op: "lstm", f: lstm(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}}},
	{op: "lstm", note: "reverse, one step", f: lstm(true), shapes: [][]int{{1, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}}},
	{op: "lstm_bias", f: lstm(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}, {12}, {12}}},
	{op: "lstm_bias", note: "reverse", f: lstm(true), shapes: [][]int{{4, 1, 3}, {1, 2}, {1, 2}, {8, 3}, {8, 2}, {8}, {8}}},
	{op: "lstm_bias", note: "output alone", f: func(v vars) *autograd.Variable {
		out, _, _ := v[0].LSTM(v[1], v[2], autograd.RecurrentWeights{IH: v[3], HH: v[4], BiasIH: v[5], BiasHH: v[6]}, false)
		return out
	}, shapes: [][]int{{3, 2, 2}, {2, 2}, {2, 2}, {8, 2}, {8, 2}, {8}, {8}}},
	{op: "lstm_bias", note: "cell alone", f: func(v vars) *autograd.Variable {
		_, _, c := v[0].LSTM(v[1], v[2], autograd.RecurrentWeights{IH: v[3], HH: v[4], BiasIH: v[5], BiasHH: v[6]}, false)
		return c
	}, shapes: [][]int{{3, 2, 2}, {2, 2}, {2, 2}, {8, 2}, {8, 2}, {8}, {8}}},
	{op: "gru", f: gru(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {9, 2}, {9, 3}}},
	{op: "gru", note: "reverse", f: gru(true), shapes: [][]int{{3, 1, 2}, {1, 2}, {6, 2}, {6, 2}}},
	{op: "gru_bias", f: gru(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {9, 2}, {9, 3}, {9}, {9}}},
	{op: "gru_bias", note: "reverse", f: gru(true), shapes: [][]int{{4, 2, 1}, {2, 2}, {6, 1}, {6, 2}, {6}, {6}}},
	{op: "gru_bias", note: "transposed", f: func(v vars) *autograd.Variable {
		out, _ := v[0].Transpose(0, 1).GRU(v[1].T(), autograd.RecurrentWeights{IH: v[2].T(), HH: v[3].T(), BiasIH: v[4], BiasHH: v[5]}, false)
		return out.Transpose(0, 1)
	}, shapes: [][]int{{2, 3, 2}, {3, 2}, {2, 9}, {3, 9}, {9}, {9}}},
	{op: "to_memory_format", f: func(v vars) *autograd.Variable { return v[0].ToMemoryFormat(tensor.ChannelsLast) }, shapes: [][]int{{2, 3, 2, 2}}},
	{op: "contiguous", f: func(v vars) *autograd.Variable { return v[0].T().Contiguous() }, shapes: [][]int{{2, 3}}},
}

func attend(opts ...autograd.AttentionOption) gradcheck.Func {
	return func(v vars) *autograd.Variable { return autograd.ScaledDotProductAttention(v[0], v[1], v[2], opts...) }
}

// lstm and gru join all results, so that each has a gradient.
func lstm(reverse bool) gradcheck.Func {
	return func(v vars) *autograd.Variable {
		w := autograd.RecurrentWeights{IH: v[3], HH: v[4]}
		if len(v) > 5 {
			w.BiasIH, w.BiasHH = v[5], v[6]
		}
		out, h, c := v[0].LSTM(v[1], v[2], w, reverse)
		return autograd.Cat(vars{out.Flatten(0, -1), h.Flatten(0, -1), c.Flatten(0, -1)}, 0)
	}
}

func gru(reverse bool) gradcheck.Func {
	return func(v vars) *autograd.Variable {
		w := autograd.RecurrentWeights{IH: v[2], HH: v[3]}
		if len(v) > 4 {
			w.BiasIH, w.BiasHH = v[4], v[5]
		}
		out, h := v[0].GRU(v[1], w, reverse)
		return autograd.Cat(vars{out.Flatten(0, -1), h.Flatten(0, -1)}, 0)
	}
}

func matMul(v vars) *autograd.Variable { return v[0].MatMul(v[1]) }

func crossEntropy(opts ...autograd.ClassLossOption) gradcheck.Func {
	return func(v vars) *autograd.Variable { return v[0].CrossEntropy(v[1], opts...) }
}

// weightedClasses is crossEntropy with weights for the three classes.
func weightedClasses(opts ...autograd.ClassLossOption) gradcheck.Func {
	return func(v vars) *autograd.Variable {
		w := v[0].Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float64{0.5, 2, 1.25}) })
		return v[0].CrossEntropy(v[1], append(opts, autograd.ClassWeights(w))...)
	}
}

// classes are logits [4, 3] and classes of which the last is class.
func classes(class int64) func(r *rig) []*tensor.Tensor {
	return func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 4, 3), r.ints([]int64{1, 0, 2, class})}
	}
}

func (c gradientCase) make(r *rig) []*tensor.Tensor {
	if c.inputs != nil {
		return c.inputs(r)
	}
	ts := make([]*tensor.Tensor, len(c.shapes))
	for i, shape := range c.shapes {
		x := values(r.t, r.random(uint64(10+i), shape...))
		if c.prep != nil {
			c.prep(x)
		}
		ts[i] = r.tensor(x, shape...)
	}
	return ts
}

func TestGradients_AgreeWithFiniteDifferences(t *testing.T) {
	for _, c := range gradientCases {
		t.Run(strings.TrimSpace(c.op+" "+c.note), func(t *testing.T) {
			r := onHost(t)
			options := func() []autograd.Option {
				return []autograd.Option{autograd.WithAllocator(r.alloc), autograd.WithGenerator(tensor.NewGenerator(7))}
			}
			require.NoError(t, gradcheck.Check(r.dev, c.f, c.make(r), gradcheck.Graph(options)))
		})
	}
}

func TestEveryOperation_HasRulesThatAreChecked_OrSaysWhyNot(t *testing.T) {
	checked := map[string]bool{}
	for _, c := range gradientCases {
		checked[c.op] = true
	}
	for _, name := range autograd.Operations() {
		some, reasons := inspect.Differentiable(name)
		require.Equal(t, some, checked[name], "%s has rules: %v; is in gradientCases: %v", name, some, checked[name])
		for _, reason := range reasons {
			require.NotEmpty(t, reason, "%s has an input without a rule and without a reason", name)
		}
	}
}
