package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Softmax, and losses.

func init() { register(lossOperations, lossSamples, lossRefusals) }

var lossOperations = map[string]operation{
	// The golden files have the input of the function as what was saved; these want its output.
	"SoftmaxGrad":       gradAlong((*tensor.Tensor).Softmax, gradients.Softmax),
	"SoftmaxGrad given": func(in tensors, a args) (*tensor.Tensor, error) { return gradients.Softmax(in[0], in[1], a.int(0)) },
	"LogSoftmaxGrad":    gradAlong((*tensor.Tensor).LogSoftmax, gradients.LogSoftmax),
	"LogSoftmaxGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.LogSoftmax(in[0], in[1], a.int(0))
	},
	"Softmax": dim((*tensor.Tensor).Softmax), "LogSoftmax": dim((*tensor.Tensor).LogSoftmax),
	"NLL": func(in tensors, a args) (*tensor.Tensor, error) { return tensor.NLL(in[0], in[1], int64(a.int(0))) },
	"NLLGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.NLL(in[0], in[1], a.int(0), int64(a.int(1)))
	},
	"CrossEntropy": func(in tensors, a args) (*tensor.Tensor, error) {
		loss, lse, weight, err := tensor.CrossEntropy(in[0], in[1], classLoss(in[2:], a))
		lse.Release()
		weight.Release()
		return loss, err
	},
	"MSELoss": two(tensor.MSELoss), "L1Loss": two(tensor.L1Loss), "BCELoss": two(tensor.BCELoss),
	"BCEWithLogitsLoss": two(tensor.BCEWithLogitsLoss),
	"SmoothL1Loss":      func(in tensors, a args) (*tensor.Tensor, error) { return tensor.SmoothL1Loss(in[0], in[1], a.float(0)) },
	"HuberLoss":         func(in tensors, a args) (*tensor.Tensor, error) { return tensor.HuberLoss(in[0], in[1], a.float(0)) },
	"KLDivLoss":         func(in tensors, a args) (*tensor.Tensor, error) { return tensor.KLDivLoss(in[0], in[1], a.bool(0)) },
	"MSELossGrad":       three(gradients.MSELoss), "L1LossGrad": three(gradients.L1Loss), "BCELossGrad": three(gradients.BCELoss),
	"BCEWithLogitsLossGrad": three(gradients.BCEWithLogitsLoss),
	"SmoothL1LossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.SmoothL1Loss(in[0], in[1], in[2], a.float(0))
	},
	"HuberLossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.HuberLoss(in[0], in[1], in[2], a.float(0))
	},
	"KLDivLossGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.KLDivLoss(in[0], in[1], in[2], a.bool(0))
	},
	"CrossEntropyGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.CrossEntropy(in[0], in[1], in[2], optional(in, 3), classLoss(from(in, 4), a))
	},
	"CrossEntropyGradInPlace given": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return gradients.CrossEntropyInPlace(t, in[1], in[2], in[3], classLoss(from(in, 4), a))
	}),
}

var lossSamples = []sample{
	{"SoftmaxGrad", "float32[2 3] ~float32[3 2]", args{0.0}}, {"SoftmaxGrad given", "float32[2 3] ~float32[3 2]", args{0.0}},
	{"LogSoftmaxGrad", "float32[2 3] float32[2 3]", args{1.0}}, {"LogSoftmaxGrad given", "float32[2 3] float32[2 3]", args{1.0}},
	{"Softmax", "float32[2 3]", args{0.0}}, {"LogSoftmax", "~float32[2 3]", args{1.0}}, {"NLL", "float32[4 2] int64[4]", args{-100.0}},
	{"NLLGrad", "float32[4] int64[4]", args{2.0, -100.0}}, {"CrossEntropy", "float32[4 2] int64[4]", args{0.0}},
	{"CrossEntropy", "~float16[2 4] int64[4] float16[2]", args{0.1}}, {"MSELoss", "float32[2 3] ~float64[3 2]", nil},
	{"L1Loss", "float16[2 3] float16[3]", nil}, {"BCELoss", "float32[3] float32[3]", nil}, {"BCEWithLogitsLoss", "float32[3] int64[3]", nil},
	{"SmoothL1Loss", "float32[3] float32[3]", args{0.5}}, {"HuberLoss", "bfloat16[3] bfloat16[2 1]", args{2.0}},
	{"KLDivLoss", "float32[3] float32[3]", args{true}}, {"MSELossGrad", "float32[] float32[2 3] ~float64[3 2]", nil},
	{"L1LossGrad", "float16[2 3] float16[2 3] float16[3]", nil}, {"BCELossGrad", "float32[] float32[3] float32[3]", nil},
	{"BCEWithLogitsLossGrad", "float32[3] float32[3] int64[3]", nil}, {"SmoothL1LossGrad", "float32[3] float32[3] float32[3]", args{0.5}},
	{"HuberLossGrad", "float32[1] bfloat16[3] bfloat16[2 1]", args{2.0}}, {"KLDivLossGrad", "float32[3] float32[3] float32[3]", args{false}},
	{"CrossEntropyGrad given", "float32[4] float16[4 2] int64[4] float32[2 4] float16[2]", nil},
	{"CrossEntropyGrad given", "float32[4] float32[4 2] int64[4] float32[2 4]", args{0.0}},
	{"CrossEntropyGrad given", "float64[4] ~float64[2 4] int64[4] float64[2 4] float64[2]", args{0.1}},
	{"CrossEntropyGradInPlace given", "float32[4 2] float32[4] int64[4] float32[2 4]", args{0.1}},
	{"CrossEntropyGradInPlace given", "float32[4 2] float32[4] int64[4] float32[2 4] float32[2]", nil},
}

var lossRefusals = []refused{
	{sample{"SoftmaxGrad", "float32[2] float32[2 1]", args{0.0}}, "shape"},
	{sample{"SoftmaxGrad given", "float32[2 3] float32[3 2]", args{0.0}}, "shape"},
	{sample{"SoftmaxGrad given", "float32[2] float32[2]", args{1.0}}, "shape"},
	{sample{"SoftmaxGrad given", "float32[2] float64[2]", args{0.0}}, "dtype"},
	{sample{"LogSoftmaxGrad", "float32[2] float32[3]", args{0.0}}, "shape"},
	{sample{"LogSoftmaxGrad given", "float32[2 3] float32[2]", args{0.0}}, "shape"},
	{sample{"LogSoftmaxGrad given", "int32[2] int32[2]", args{0.0}}, "dtype"}, {sample{"Softmax", "float32[2]", args{1.0}}, "shape"},
	{sample{"LogSoftmax", "int64[2]", args{0.0}}, "dtype"}, {sample{"NLL", "float32[2 3] int32[2]", args{-1.0}}, "dtype"},
	{sample{"NLL", "float32[2] int64[2]", args{-1.0}}, "shape"}, {sample{"NLLGrad", "int64[2] int64[2]", args{3.0, -1.0}}, "dtype"},
	{sample{"NLLGrad", "float32[2] int64[3]", args{3.0, -1.0}}, "shape"}, {sample{"NLLGrad", "float32[2] int64[2]", args{-3.0, -1.0}}, "shape"},
	{sample{"CrossEntropy", "float32[2 3] int32[2]", nil}, "dtype"}, {sample{"CrossEntropy", "int64[2 3] int64[2]", nil}, "dtype"},
	{sample{"CrossEntropy", "float32[2 3] int64[2] float64[3]", nil}, "dtype"}, {sample{"CrossEntropy", "float32[2] int64[2]", nil}, "shape"},
	{sample{"CrossEntropy", "float32[2 3] int64[3]", nil}, "shape"}, {sample{"CrossEntropy", "float32[2 3] int64[2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropy", "float32[2 3] int64[2]", args{1.5}}, "value"}, {sample{"MSELoss", "int32[2] int64[2]", nil}, "dtype"},
	{sample{"MSELoss", "float32[2] float32[3]", nil}, "shape"}, {sample{"L1Loss", "float32[2] float32[3]", nil}, "shape"},
	{sample{"L1Loss", "int32[2] int32[2]", nil}, "dtype"}, {sample{"BCELoss", "float32[2] float32[3]", nil}, "shape"},
	{sample{"BCELoss", "float32[3 1] float32[3]", nil}, "shape"}, {sample{"BCELoss", "int32[2] bool[2]", nil}, "dtype"},
	{sample{"BCEWithLogitsLoss", "float32[2 2] float32[3]", nil}, "shape"},
	{sample{"BCEWithLogitsLoss", "float32[3] float32[1 3]", nil}, "shape"}, {sample{"BCEWithLogitsLoss", "bool[2] bool[2]", nil}, "dtype"},
	{sample{"SmoothL1Loss", "float32[2] float32[2]", args{-1.0}}, "value"},
	{sample{"SmoothL1Loss", "float32[2] float32[2]", args{math.Inf(1)}}, "value"},
	{sample{"SmoothL1Loss", "float32[2] float32[3]", args{1.0}}, "shape"}, {sample{"SmoothL1Loss", "int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"HuberLoss", "float32[2] float32[2]", args{0.0}}, "value"}, {sample{"HuberLoss", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"HuberLoss", "int32[2] bool[2]", args{1.0}}, "dtype"}, {sample{"KLDivLoss", "float32[2] float32[3]", args{false}}, "shape"},
	{sample{"KLDivLoss", "uint8[2] int64[2]", args{true}}, "dtype"},
	{sample{"MSELossGrad", "float32[2 2] float32[2] float32[2]", nil}, "shape"},
	{sample{"MSELossGrad", "int32[2] int32[2] int32[2]", nil}, "dtype"},
	{sample{"L1LossGrad", "float32[3] float32[2] float32[2]", nil}, "shape"},
	{sample{"L1LossGrad", "float32[2] float32[3] float32[2]", nil}, "shape"}, {sample{"L1LossGrad", "int32[2] int32[2] bool[2]", nil}, "dtype"},
	{sample{"BCELossGrad", "float32[2 2] float32[2] float32[2]", nil}, "shape"},
	{sample{"BCELossGrad", "float32[] float32[3 1] float32[3]", nil}, "shape"},
	{sample{"BCELossGrad", "int32[2] int32[2] int32[2]", nil}, "dtype"},
	{sample{"BCEWithLogitsLossGrad", "float32[2] float32[2] float32[3]", nil}, "shape"},
	{sample{"BCEWithLogitsLossGrad", "float32[] float32[3] float32[]", nil}, "shape"},
	{sample{"BCEWithLogitsLossGrad", "bool[2] bool[2] bool[2]", nil}, "dtype"},
	{sample{"SmoothL1LossGrad", "float32[3] float32[2] float32[2]", args{1.0}}, "shape"},
	{sample{"SmoothL1LossGrad", "int32[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"SmoothL1LossGrad", "float32[2] float32[2] float32[2]", args{-1.0}}, "value"},
	{sample{"HuberLossGrad", "float32[3] float32[2] float32[2]", args{1.0}}, "shape"},
	{sample{"HuberLossGrad", "bool[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"HuberLossGrad", "float32[2] float32[2] float32[2]", args{0.0}}, "value"},
	{sample{"KLDivLossGrad", "float32[3] float32[2] float32[2]", args{false}}, "shape"},
	{sample{"KLDivLossGrad", "int64[2] int64[2] int64[2]", args{true}}, "dtype"},
	{sample{"CrossEntropyGrad given", "float64[2] float32[2 3] int64[2] float32[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGrad given", "float32[3] float32[2 3] int64[2] float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float64[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] ~float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float32[2 2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float32[1] int64[2] float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float16[2] int64[2] float32[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float32[2] int64[2] float32[2 2]", args{2.0}}, "value"},
}

func gradAlong(
	f func(*tensor.Tensor, int) (*tensor.Tensor, error), g func(t, u *tensor.Tensor, dim int) (*tensor.Tensor, error),
) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		out, err := f(in[1], a.int(0))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		return g(in[0], out, a.int(0))
	}
}

// classLoss has the label smoothing as argument, and perhaps weights.
func classLoss(weights tensors, a args) tensor.ClassLoss {
	c := tensor.ClassLoss{IgnoreIndex: -100}
	if len(a) > 0 {
		c.LabelSmoothing = a.float(0)
	}
	if len(weights) > 0 {
		c.Weight = weights[0]
	}
	return c
}
