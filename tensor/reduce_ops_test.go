package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Reductions.

func init() { register(reduceOperations, reduceSamples, reduceRefusals) }

var reduceOperations = map[string]operation{
	"SumTo": shaped((*tensor.Tensor).SumTo), "Sum": reduction((*tensor.Tensor).Sum), "Mean": reduction((*tensor.Tensor).Mean),
	"Max": reduction((*tensor.Tensor).Max), "Min": reduction((*tensor.Tensor).Min), "Any": reduction((*tensor.Tensor).Any),
	"All": reduction((*tensor.Tensor).All),
	"Prod": func(in tensors, a args) (*tensor.Tensor, error) {
		if len(a) == 0 {
			return in[0].Prod(nil, false)
		}
		return in[0].Prod(a.ints(1), a.bool(0))
	},
	"Var": spread((*tensor.Tensor).Var), "Std": spread((*tensor.Tensor).Std), "ArgMax": arg((*tensor.Tensor).ArgMax),
	"ArgMin": arg((*tensor.Tensor).ArgMin),
	"Norm": func(in tensors, a args) (*tensor.Tensor, error) {
		p, ok := a[0].(float64)
		if !ok { // the golden files write infinity as a text
			p = map[any]float64{"inf": math.Inf(1), "-inf": math.Inf(-1)}[a[0]]
		}
		return in[0].Norm(p, a.ints(2), a.bool(1))
	},
	"LogSumExp": reduction((*tensor.Tensor).LogSumExp), "CountNonzero": shaped((*tensor.Tensor).CountNonzero),
	"MaxDim": flag((*tensor.Tensor).MaxDim, firstOf), "MaxDim indices": flag((*tensor.Tensor).MaxDim, secondOf),
	"MinDim": flag((*tensor.Tensor).MinDim, firstOf),
}

var reduceSamples = []sample{
	{"SumTo", "float32[2 3]", args{3.0}}, {"SumTo", "int32[4 2 3]", args{2.0, 1.0}}, {"Sum", "~float32[2 3]", args{false, 0.0}},
	{"Sum", "int32[2 3]", args{true}}, {"Mean", "bfloat16[2 3]", args{false, 1.0}}, {"Max", "float32[2 3]", args{false, 0.0}},
	{"Min", "bool[2 3]", args{false}}, {"Any", "float32[2 3]", args{false, 0.0}}, {"All", "bool[2 3]", args{true, 0.0}},
	{"Prod", "bool[2 3]", nil}, {"Var", "float16[2 3]", args{1.0, false, 1.0}}, {"Std", "float32[2 3]", args{1.0, true}},
	{"ArgMax", "float32[2 3]", args{1.0, false}}, {"ArgMin", "float32[]", args{0.0, false}}, {"Norm", "float32[2 3]", args{2.0, false, 1.0}},
	{"Norm", "float16[2 3]", args{3.0, true, 0.0}}, {"Norm", "float32[2 3]", args{0.0, false}},
	{"LogSumExp", "~float32[2 3]", args{false, 1.0}}, {"CountNonzero", "bool[2 3]", args{0.0}}, {"CountNonzero", "float32[2 3]", nil},
	{"MaxDim", "float32[2 3]", args{1.0, false}}, {"MaxDim indices", "float32[]", args{0.0, false}}, {"MinDim", "int32[2 3]", args{0.0, true}},
}

var reduceRefusals = []refused{
	{sample{"SumTo", "float32[2 3]", args{2.0}}, "shape"}, {sample{"Sum", "float32[2]", args{false, 1.0}}, "shape"},
	{sample{"Mean", "bool[2]", args{false}}, "dtype"}, {sample{"Max", "float32[2]", args{false, 0.0, 0.0}}, "shape"},
	{sample{"Min", "float32[0]", args{false}}, "shape"}, {sample{"Any", "bool[2]", args{false, 1.0}}, "shape"},
	{sample{"All", "bool[2]", args{false, -2.0}}, "shape"}, {sample{"Prod", "float32[2]", args{false, 1.0}}, "shape"},
	{sample{"Var", "int32[2]", args{1.0, false}}, "dtype"}, {sample{"Std", "float32[2]", args{1.0, false, 2.0}}, "shape"},
	{sample{"ArgMax", "bool[2]", args{0.0, false}}, "dtype"}, {sample{"ArgMin", "float32[0]", args{0.0, false}}, "shape"},
	{sample{"Norm", "int32[2]", args{2.0, false}}, "dtype"}, {sample{"Norm", "float32[2]", args{2.0, false, 1.0}}, "shape"},
	{sample{"Norm", "float32[2]", args{math.NaN(), false}}, "value"}, {sample{"Norm", "float32[0]", args{math.Inf(1), false}}, "shape"},
	{sample{"LogSumExp", "int32[2]", args{false}}, "dtype"}, {sample{"LogSumExp", "float32[2]", args{false, 2.0}}, "shape"},
	{sample{"CountNonzero", "float32[2]", args{1.0}}, "shape"}, {sample{"MaxDim", "bool[2]", args{0.0, false}}, "dtype"},
	{sample{"MinDim", "float32[0]", args{0.0, false}}, "shape"},
}
