package tensor_test

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Running sums and products, and sorting.

func init() { register(scanOperations, scanSamples, scanRefusals) }

var scanOperations = map[string]operation{
	"CumSum": dim((*tensor.Tensor).CumSum), "CumProd": dim((*tensor.Tensor).CumProd),
	"CumSumGrad": func(in tensors, a args) (*tensor.Tensor, error) { return gradients.CumSum(in[0], a.int(0)) },
	"CumProdGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.CumProd(in[0], in[1], in[2], a.int(0))
	},
	"Sort":    flag((*tensor.Tensor).Sort, firstOf),
	"ArgSort": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].ArgSort(a.int(0), a.bool(1)) },
	"TopK": func(in tensors, a args) (*tensor.Tensor, error) {
		return firstOf(in[0].TopK(a.int(0), a.int(1), a.bool(2)))
	},
	"TopK indices": func(in tensors, a args) (*tensor.Tensor, error) {
		return secondOf(in[0].TopK(a.int(0), a.int(1), a.bool(2)))
	},
}

var scanSamples = []sample{
	{"CumSum", "~bool[2 3]", args{1.0}}, {"CumProd", "float32[2 3]", args{0.0}}, {"CumSumGrad", "~float32[2 3]", args{0.0}},
	{"CumSumGrad", "float16[]", args{0.0}}, {"CumProdGrad", "float32[2 3] float32[2 3] ~float32[3 2]", args{1.0}},
	{"Sort", "float32[2 3]", args{0.0, true}}, {"ArgSort", "~int32[2 3]", args{1.0, false}}, {"TopK", "float32[2 3]", args{2.0, 1.0, true}},
	{"TopK indices", "bool[2 3]", args{1.0, 0.0, false}},
}

var scanRefusals = []refused{
	{sample{"CumSum", "float32[2]", args{1.0}}, "shape"}, {sample{"CumProd", "float32[2]", args{-2.0}}, "shape"},
	{sample{"CumSumGrad", "int32[2]", args{0.0}}, "dtype"}, {sample{"CumProdGrad", "float32[2] float32[2] float32[3]", args{0.0}}, "shape"},
	{sample{"CumProdGrad", "float32[2] float64[2] float32[2]", args{0.0}}, "dtype"}, {sample{"Sort", "float32[2]", args{1.0, false}}, "shape"},
	{sample{"ArgSort", "float32[2]", args{1.0, false}}, "shape"}, {sample{"TopK", "float32[2]", args{3.0, 0.0, true}}, "shape"},
	{sample{"TopK", "float32[2]", args{1.0, 1.0, true}}, "shape"},
}
