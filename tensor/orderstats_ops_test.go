package tensor_test

import (
	"testing"

	"github.com/cistern-ml/cistern/tensor"
)

// What is chosen by order, with its index.

func init() { register(orderOperations, orderSamples, orderRefusals) }

func kth(of func(a, b *tensor.Tensor, err error) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		return of(in[0].KthValue(a.int(0), a.int(1), a.bool(2)))
	}
}

func running(f func(t *tensor.Tensor, dim int) (values, indices *tensor.Tensor, err error), of func(a, b *tensor.Tensor, err error) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return of(f(in[0], a.int(0))) }
}

var orderOperations = map[string]operation{
	"KthValue": kth(firstOf), "KthValue indices": kth(secondOf),
	"MedianDim": flag((*tensor.Tensor).MedianDim, firstOf), "MedianDim indices": flag((*tensor.Tensor).MedianDim, secondOf),
	"NanMedianDim": flag((*tensor.Tensor).NanMedianDim, firstOf), "NanMedianDim indices": flag((*tensor.Tensor).NanMedianDim, secondOf),
	"ModeDim": flag((*tensor.Tensor).ModeDim, firstOf), "ModeDim indices": flag((*tensor.Tensor).ModeDim, secondOf),
	"CumMax": running((*tensor.Tensor).CumMax, firstOf), "CumMax indices": running((*tensor.Tensor).CumMax, secondOf),
	"CumMin": running((*tensor.Tensor).CumMin, firstOf), "CumMin indices": running((*tensor.Tensor).CumMin, secondOf),
	"IsClose": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].IsClose(in[1], a.float(0), a.float(1), a.bool(2))
	},
}

var orderSamples = []sample{
	{"KthValue", "~float32[3 2]", args{2.0, 1.0, true}}, {"KthValue", "int32[]", args{1.0, 0.0, false}}, {"KthValue indices", "float16[2 3]", args{3.0, -1.0, false}},
	{"MedianDim", "~float32[3 4]", args{0.0, false}}, {"MedianDim", "int64[]", args{0.0, true}}, {"MedianDim indices", "int32[2 3]", args{1.0, true}},
	{"NanMedianDim", "float64[4 2]", args{0.0, false}}, {"NanMedianDim indices", "bfloat16[4]", args{0.0, true}},
	{"ModeDim", "~int32[3 4]", args{0.0, true}}, {"ModeDim", "float32[]", args{0.0, false}}, {"ModeDim indices", "bool[2 4]", args{-1.0, false}},
	{"CumMax", "~float32[3 5]", args{1.0}}, {"CumMax", "int32[]", args{0.0}}, {"CumMax indices", "int64[7]", args{0.0}},
	{"CumMin", "uint8[3 5]", args{0.0}}, {"CumMin indices", "float16[1 2]", args{0.0}},
	{"IsClose", "~float32[3 2] float32[2 1]", args{0.1, 0.1, true}}, {"IsClose", "int32[3] int32[]", args{0.0, 1.0, false}},
}

var orderRefusals = []refused{
	{sample{"KthValue", "float32[3]", args{4.0, 0.0, false}}, "value"}, {sample{"KthValue", "float32[3]", args{1.0, 1.0, false}}, "shape"},
	{sample{"KthValue", "float32[0]", args{1.0, 0.0, false}}, "shape"}, {sample{"MedianDim", "float32[2 0]", args{1.0, false}}, "shape"},
	{sample{"NanMedianDim", "float32[2]", args{1.0, false}}, "shape"}, {sample{"ModeDim", "float32[0]", args{0.0, false}}, "shape"},
	{sample{"CumMax", "bool[2]", args{0.0}}, "dtype"}, {sample{"CumMin", "float32[2]", args{1.0}}, "shape"},
	{sample{"IsClose", "float32[2] float64[2]", args{0.1, 0.1, false}}, "dtype"}, {sample{"IsClose", "float32[2] float32[3]", args{0.1, 0.1, false}}, "shape"},
	{sample{"IsClose", "float32[2] float32[2]", args{-0.1, 0.1, false}}, "value"},
}

func TestOrderStatistics_GiveWhatPyTorchGives(t *testing.T) {
	checkProgramFile(t, onHost(t), "orderstats.json")
}
