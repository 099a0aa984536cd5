package tensor_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// refusal is the kind of an error: that of the typed error that the operation must return.
type refusal string

func kindOf(err error) refusal {
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	var value *tensor.ValueError
	switch {
	case errors.As(err, &shape):
		return "shape"
	case errors.As(err, &dtype):
		return "dtype"
	case errors.As(err, &value):
		return "value"
	}
	return refusal(fmt.Sprintf("%v", err))
}

// refusals are uses that an operation must refuse, and with which error.
var refusals = []struct {
	sample
	want refusal
}{
	{sample{"FillInPlace", "int32[2]", args{math.NaN()}}, "value"}, {sample{"FillInPlace", "uint8[2]", args{1e19}}, "value"},
	{sample{"SubScalar", "bool[2]", args{1.0}}, "dtype"},
	{sample{"Sub", "bool[2] int32[2]", nil}, "dtype"},
	{sample{"PowScalar", "int32[2]", args{-1.0}}, "value"}, {sample{"AddScaled", "bool[2] bool[2]", args{2.0}}, "value"},
	{sample{"AddScaled", "int32[2] int32[2]", args{0.5}}, "value"},
	{sample{"Clamp", "float32[2]", args{math.NaN(), 1.0}}, "value"},
	{sample{"Clamp", "float32[2]", args{1.0, math.NaN()}}, "value"},
	{sample{"Where", "int32[2] float32[2] float32[2]", nil}, "dtype"},
	{sample{"Where", "bool[3] float32[2] float32[2]", nil}, "shape"},
	{sample{"SoftmaxGrad", "float32[2] float32[2 1]", args{0.0}}, "shape"},
	{sample{"Softmax", "float32[2]", args{1.0}}, "shape"}, {sample{"LogSoftmax", "int64[2]", args{0.0}}, "dtype"},
	{sample{"Sum", "float32[2]", args{false, 1.0}}, "shape"},
	{sample{"Max", "float32[2]", args{false, 0.0, 0.0}}, "shape"}, {sample{"Min", "float32[0]", args{false}}, "shape"},
	{sample{"ArgMax", "bool[2]", args{0.0, false}}, "dtype"}, {sample{"ArgMin", "float32[0]", args{0.0, false}}, "shape"},
	{sample{"Var", "int32[2]", args{1.0, false}}, "dtype"}, {sample{"Std", "float32[2]", args{1.0, false, 2.0}}, "shape"},
	{sample{"Mean", "bool[2]", args{false}}, "dtype"},
	{sample{"AddMM", "float32[2] float32[2] float32[2 2]", args{1.0, 1.0}}, "shape"},
	{sample{"AddMM", "float32[2] float32[2 3] float32[2 2]", args{1.0, 1.0}}, "shape"},
	{sample{"MatMul", "int32[2 2] int32[2 2]", nil}, "dtype"}, {sample{"Linear", "float32[] float32[2 2]", nil}, "shape"},
	{sample{"Linear", "float32[2 2] float32[3 2] float32[2]", nil}, "shape"},
	{sample{"LinearAct", "float32[2 2] float32[3 2] float32[2]", args{1.0}}, "shape"},
	{sample{"LinearAct", "float32[2 2] float64[3 2]", args{1.0}}, "dtype"},
	{sample{"LinearAct", "float32[2 2] float32[3 2]", args{4.0}}, "value"},
	{sample{"NLL", "float32[2 3] int32[2]", args{-1.0}}, "dtype"},
	{sample{"NLL", "float32[2] int64[2]", args{-1.0}}, "shape"},
	{sample{"NLLGrad", "int64[2] int64[2]", args{3.0, -1.0}}, "dtype"},
	{sample{"NLLGrad", "float32[2] int64[3]", args{3.0, -1.0}}, "shape"},
	{sample{"NLLGrad", "float32[2] int64[2]", args{-3.0, -1.0}}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[4] float32[6 4] float32[6 4]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 3] float32[6 4]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[5 4]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[4 5 4] float32[2 6 4] float32[2 6 4]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[4 5 4] float32[3 6 4] float32[3 6 4]", args{0.0, false, true}}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[2 1 5 4] float32[3 1 6 4] float32[1 6 4]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[1 1025] float32[1 1025] float32[1 2]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4] bool[4 6]", nil}, "shape"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4] int32[5 6]", nil}, "dtype"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float64[6 4] float32[6 4]", nil}, "dtype"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4] bool[5 6]", args{0.0, true, false}}, "value"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4]", args{1.5, false, false}}, "value"},
	{sample{"CrossEntropy", "float32[2 3] int32[2]", nil}, "dtype"}, {sample{"CrossEntropy", "int64[2 3] int64[2]", nil}, "dtype"},
	{sample{"CrossEntropy", "float32[2 3] int64[2] float64[3]", nil}, "dtype"},
	{sample{"CrossEntropy", "float32[2] int64[2]", nil}, "shape"}, {sample{"CrossEntropy", "float32[2 3] int64[3]", nil}, "shape"},
	{sample{"CrossEntropy", "float32[2 3] int64[2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropy", "float32[2 3] int64[2]", args{1.5}}, "value"},
	{sample{"MSELoss", "int32[2] int64[2]", nil}, "dtype"}, {sample{"L1Loss", "float32[2] float32[3]", nil}, "shape"},
	{sample{"SmoothL1Loss", "float32[2] float32[2]", args{-1.0}}, "value"}, {sample{"HuberLoss", "float32[2] float32[2]", args{0.0}}, "value"},
	{sample{"MSELossGrad", "float32[2 2] float32[2] float32[2]", nil}, "shape"},
	{sample{"IndexSelect", "float32[2] int64[2]", args{1.0}}, "shape"},
	{sample{"IndexSelect", "float32[] int64[2]", args{0.0}}, "shape"},
	{sample{"IndexSelect", "float32[0 2] int64[2]", args{0.0}}, "shape"},
	{sample{"IndexSelect", "float32[2] uint8[2]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "int32[2] int64[1] int32[1]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "float32[2] int64[1] float64[1]", args{0.0}}, "dtype"},
	{sample{"IndexAdd", "float32[2] int64[1] float32[1]", args{3.0}}, "shape"},
	{sample{"IndexAdd", "float32[2] int64[1 1] float32[1]", args{0.0}}, "shape"},
	{sample{"Cat", "float32[] float32[]", args{0.0}}, "shape"},
	{sample{"Cat", "float32[2] float32[2 2]", args{0.0}}, "shape"}, {sample{"Cat", "float32[2]", args{1.0}}, "shape"},
	{sample{"Stack", "float32[2]", args{2.0}}, "shape"}, {sample{"T", "float32[2 2 2]", nil}, "shape"},
	{sample{"Permute", "float32[2 2]", args{0.0}}, "shape"}, {sample{"Permute", "float32[2 2]", args{0.0, 0.0}}, "shape"},
	{sample{"Permute", "float32[2 2]", args{0.0, 2.0}}, "shape"},
	{sample{"Transpose", "float32[2 2]", args{0.0, 2.0}}, "shape"},
	{sample{"Flatten", "float32[2 2]", args{1.0, 0.0}}, "shape"},
	{sample{"Slice", "float32[]", args{0.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"Select", "float32[2]", args{0.0, 2.0}}, "shape"},
	{sample{"Narrow", "float32[2]", args{0.0, 1.0, 2.0}}, "shape"}, {sample{"Squeeze", "float32[1]", args{1.0}}, "shape"},
	{sample{"View", "float32[6]", args{-1.0, -1.0}}, "shape"}, {sample{"View", "~float32[2 3]", args{6.0}}, "shape"},
	{sample{"Reshape", "float32[0]", args{0.0, -1.0}}, "shape"},
	{sample{"Expand", "float32[2]", args{-1.0, 2.0}}, "shape"}, {sample{"Expand", "float32[2 2]", args{2.0}}, "shape"},
	{sample{"CopyFrom", "float32[2] float32[3]", nil}, "shape"}, {sample{"Add", "int32[2] float32[3]", nil}, "shape"},
	{sample{"Where", "bool[3] int32[2] float32[2]", nil}, "shape"},
	{sample{"IndexAdd", "float32[2] int32[2] float32[1]", args{0.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float64[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"Conv2d", "int32[2 3 5 5] int32[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 2 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 4 5 5] float32[5 2 3 3]", args{1.0, 1.0, 1.0, 2.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[5 5] float32[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 3 3 3] float32[3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 2 5] float32[4 3 3 3]", args{1.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[0 3 3 3]", args{1.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{0.0, 1.0, 1.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, -1.0, 1.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, 1.0, 0.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, 1.0, 1.0, -1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 3 5 5] float32[4 3 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{2.0, 0.0, 2.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{0.0, 0.0, 0.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, -1.0, 0.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, 0.0, -1.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, 0.0, 0.0, -1.0}}, "value"},
	{sample{"OneHot", "int64[1 1 1 1 1 1 1 1]", args{2.0}}, "shape"},
	{sample{"ConvTranspose1d", "float32[2 4 1] float32[4 3 1]", args{1.0, 1.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvTranspose1d", "float32[2 4 1] float32[4 3 1] float32[4]", args{1.0, 0.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvGradInput", "float32[2 6 5 6] float32[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0, 6.0}}, "shape"},
	{sample{"ConvGradInput", "float32[2 6 5] float32[6 2]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0}}, "shape"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 3.0, 3.0, 3.0}}, "shape"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[3 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}}, "shape"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0}}, "shape"},
	{sample{"ConvTransposeGradInput", "float32[2 4 14] float32[3 5 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "shape"},
	{sample{"MaxPool2d", "int64[2 3 5 5]", args{2.0, 2.0, 0.0}}, "dtype"},
	{sample{"MaxPool2d", "float32[5 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 0 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 1 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 5 5]", args{2.0, 2.0, 2.0}}, "value"},
	{sample{"MaxPool1d", "float32[2 3 5]", args{0.0, 2.0, 0.0}}, "value"},
	{sample{"AvgPool2d", "float32[2 3 5 5]", args{2.0, 0.0, 0.0}}, "value"},
	{sample{"AdaptiveAvgPool2d", "float32[2 3 5 5]", args{1.0, 2.0, 3.0}}, "value"},
	{sample{"AdaptiveAvgPool1d", "float32[2 3 5]", args{-1.0}}, "value"},
	{sample{"MaxPoolGrad", "float32[2 3 4] int32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 4]", args{3.0, 2.0, 1.0, 3.0, 2.0, 3.0, 7.0}}, "value"},
	{sample{"AvgPoolGrad", "float32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 9.0}}, "shape"},
	{sample{"UpsampleNearest2d", "float32[3 4 5]", args{2.0, false}}, "shape"},
	{sample{"UpsampleNearest2d", "float32[2 3 4 5]", args{2.0, true}}, "value"},
	{sample{"UpsampleBilinear2d", "float32[2 3 4 5]", args{-1.0, true}}, "value"},
	{sample{"UpsampleBilinear2d", "float32[2 3 4 5]", args{0.2, true}}, "value"},
	{sample{"UpsampleBilinear2d", "bool[2 3 4 5]", args{2.0, true}}, "dtype"},
	{sample{"UpsampleBilinear2dGrad", "float32[2 3 8 9]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "shape"},
	{sample{"LogSoftmaxGrad", "float32[2] float32[3]", args{0.0}}, "shape"},
	{sample{"Prod", "float32[2]", args{false, 1.0}}, "shape"}, {sample{"Any", "bool[2]", args{false, 1.0}}, "shape"},
	{sample{"All", "bool[2]", args{false, -2.0}}, "shape"}, {sample{"SumTo", "float32[2 3]", args{2.0}}, "shape"},
	{sample{"BroadcastTo", "float32[2]", args{3.0}}, "shape"}, {sample{"Unsqueeze", "float32[2]", args{2.0}}, "shape"},
	{sample{"AddInPlace", "int32[2] float32[2]", args{1.0}}, "dtype"}, {sample{"AddInPlace", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"AdaptiveMaxPool1d", "float32[3 2 2 5]", args{2.0}}, "shape"}, {sample{"AdaptiveMaxPool1d", "int32[2 3 5]", args{2.0}}, "dtype"},
	{sample{"AdaptiveMaxPool1d", "float32[2 3 5]", args{-1.0}}, "value"},
	{sample{"AdaptiveMaxPool2d", "float32[2 3 0 5]", args{2.0}}, "shape"}, {sample{"AdaptiveMaxPool2d", "bool[2 3 5 5]", args{2.0}}, "dtype"},
	{sample{"AdaptiveMaxPool2d", "float32[2 3 5 5]", nil}, "value"}, {sample{"AdaptiveAvgPool1d", "float32[5]", args{1.0}}, "shape"},
	{sample{"AdaptiveAvgPool2d", "uint8[2 3 5 5]", args{1.0}}, "dtype"},
	{sample{"AvgPool1d", "float32[3]", args{2.0, 2.0, 0.0}}, "shape"}, {sample{"AvgPool1d", "int64[2 3 5]", args{2.0, 2.0, 0.0}}, "dtype"},
	{sample{"AvgPool1d", "float32[2 3 5]", args{2.0, 2.0, 2.0}}, "value"}, {sample{"AvgPoolGrad", "int32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 3]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "shape"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 9]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "shape"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 10]", args{2.0, false, 2.0, 3.0}}, "shape"},
	{sample{"UpsampleNearest2dGrad", "int32[2 3 8 10]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "dtype"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 10]", args{2.0, true, 2.0, 3.0, 4.0, 5.0}}, "value"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 5 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "shape"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float64[2 3 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "dtype"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 3 7]", args{0.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "value"},
	{sample{"ConvTransposeGradInput", "float32[2 4 14] float16[3 4 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"ConvGradInput", "float32[2 6 5 6] float64[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0, 6.0}}, "dtype"},
	{sample{"ConvGradWeight", "bool[2 6 5 6] bool[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}}, "dtype"},
	{sample{"Dropout", "int32[2]", args{0.5}}, "dtype"}, {sample{"Dropout", "float32[2]", args{1.5}}, "value"},
	{sample{"Dropout", "float32[2]", args{math.NaN()}}, "value"},
	{sample{"BCELoss", "float32[2] float32[3]", nil}, "shape"}, {sample{"BCELoss", "float32[3 1] float32[3]", nil}, "shape"}, {sample{"BCELoss", "int32[2] bool[2]", nil}, "dtype"},
	{sample{"BCEWithLogitsLoss", "float32[2 2] float32[3]", nil}, "shape"}, {sample{"BCEWithLogitsLoss", "float32[3] float32[1 3]", nil}, "shape"}, {sample{"BCEWithLogitsLoss", "bool[2] bool[2]", nil}, "dtype"},
	{sample{"KLDivLoss", "float32[2] float32[3]", args{false}}, "shape"}, {sample{"KLDivLoss", "uint8[2] int64[2]", args{true}}, "dtype"},
	{sample{"MSELoss", "float32[2] float32[3]", nil}, "shape"}, {sample{"L1Loss", "int32[2] int32[2]", nil}, "dtype"},
	{sample{"SmoothL1Loss", "float32[2] float32[2]", args{math.Inf(1)}}, "value"}, {sample{"HuberLoss", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"MSELossGrad", "int32[2] int32[2] int32[2]", nil}, "dtype"}, {sample{"L1LossGrad", "float32[3] float32[2] float32[2]", nil}, "shape"},
	{sample{"L1LossGrad", "float32[2] float32[3] float32[2]", nil}, "shape"}, {sample{"L1LossGrad", "int32[2] int32[2] bool[2]", nil}, "dtype"},
	{sample{"SmoothL1LossGrad", "float32[3] float32[2] float32[2]", args{1.0}}, "shape"},
	{sample{"SmoothL1LossGrad", "int32[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"SmoothL1LossGrad", "float32[2] float32[2] float32[2]", args{-1.0}}, "value"},
	{sample{"HuberLossGrad", "float32[3] float32[2] float32[2]", args{1.0}}, "shape"}, {sample{"HuberLossGrad", "bool[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"HuberLossGrad", "float32[2] float32[2] float32[2]", args{0.0}}, "value"},
	{sample{"BCELossGrad", "float32[2 2] float32[2] float32[2]", nil}, "shape"}, {sample{"BCELossGrad", "float32[] float32[3 1] float32[3]", nil}, "shape"}, {sample{"BCELossGrad", "int32[2] int32[2] int32[2]", nil}, "dtype"},
	{sample{"BCEWithLogitsLossGrad", "float32[2] float32[2] float32[3]", nil}, "shape"}, {sample{"BCEWithLogitsLossGrad", "float32[] float32[3] float32[]", nil}, "shape"},
	{sample{"BCEWithLogitsLossGrad", "bool[2] bool[2] bool[2]", nil}, "dtype"},
	{sample{"KLDivLossGrad", "float32[3] float32[2] float32[2]", args{false}}, "shape"}, {sample{"KLDivLossGrad", "int64[2] int64[2] int64[2]", args{true}}, "dtype"},
	{sample{"LinearActPre", "float32[2 2] float32[3 3] float32[3]", args{2.0}}, "shape"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float32[2]", args{2.0}}, "shape"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float64[3]", args{2.0}}, "dtype"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float32[3]", args{9.0}}, "value"},
	{sample{"ScatterAddInPlace", "float32[2 3] int64[2 1] float32[1 1]", args{1.0}}, "shape"},
	{sample{"ScatterAddInPlace", "float32[2 3] int64[2 1] float64[2 3]", args{1.0}}, "dtype"},
	{sample{"ScatterAddInPlace", "float32[2 3] float32[2 1] float32[2 3]", args{1.0}}, "dtype"},
	{sample{"MulScalarInPlace", "bool[2]", args{2.0}}, "dtype"}, {sample{"MulScalarInPlace", "int32[2]", args{0.5}}, "value"},
}

// clonesOf is how many tensors the test makes for an operation: it runs those in place on a clone, and gradients of outputs on an
// output.
func clonesOf(op string) int64 {
	switch name := operationOf(op); {
	case op == "BatchMoments running":
		return 2
	case strings.HasSuffix(name, "InPlace"), strings.HasSuffix(name, "Step"), strings.HasPrefix(name, "Amp"):
		return 1
	case name == "CopyFrom", name == "IndexAdd", name == "ClipGradNorm", name == "ClipGradValue", name == "AttentionGradInto":
		return 1
	case helped[op] && strings.HasSuffix(op, "Grad"):
		return 1
	}
	return 0
}

func TestOperations_RefuseWhatTheyCannotDo(t *testing.T) {
	for _, c := range refusals {
		b, _ := onSim(t)
		in := c.inputs(t, b.Exec)
		before := b.alloc.Stats().Allocation.All.Allocated
		_, err := c.run(in)
		require.Error(t, err, "%v", c.sample)
		require.Equal(t, c.want, kindOf(err), "%v: %v", c.sample, err)
		require.Contains(t, err.Error(), "tensor: "+operationOf(c.op)+": ", "%v", c.sample)
		clones := clonesOf(c.op)
		if in[0].Len() == 0 { // which takes no memory
			clones = 0
		}
		require.Equal(t, before+clones, b.alloc.Stats().Allocation.All.Allocated, "%v: a refusal comes before any allocation", c.sample)
	}
}
