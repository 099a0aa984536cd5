package tensor_test

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Products of matrices, and contractions.

func init() { register(productOperations, productSamples, productRefusals) }

var productOperations = map[string]operation{
	"MatMul": two((*tensor.Tensor).MatMul),
	"Linear": func(in tensors, _ args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return tensor.Linear(in[0], in[1], nil)
		}
		return tensor.Linear(in[0], in[1], in[2])
	},
	"LinearAct": func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return tensor.LinearAct(in[0], in[1], nil, tensor.Activation(a.int(0)))
		}
		return tensor.LinearAct(in[0], in[1], in[2], tensor.Activation(a.int(0)))
	},
	"LinearActPre": func(in tensors, a args) (*tensor.Tensor, error) {
		out, pre, err := gradients.LinearActPre(in[0], in[1], in[2], tensor.Activation(a.int(0)))
		if err != nil {
			return nil, err
		}
		defer out.Release()
		defer pre.Release()
		return tensor.Cat([]*tensor.Tensor{out, pre}, 0)
	},
	"LinearGradWeight": func(in tensors, a args) (*tensor.Tensor, error) {
		weight, sum, err := gradients.LinearWeight(in[0], in[1], a.int(0) == 1)
		if err != nil || sum == nil {
			return weight, err
		}
		defer weight.Release()
		defer sum.Release()
		row, err := sum.Reshape(sum.Len(), 1)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		return tensor.Cat([]*tensor.Tensor{weight, row}, 1)
	},
	"AddMM": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.AddMM(in[0], in[1], in[2], a.float(0), a.float(1))
	},
	"Dot": two((*tensor.Tensor).Dot), "MV": two((*tensor.Tensor).MV), "MM": two((*tensor.Tensor).MM), "BMM": two((*tensor.Tensor).BMM),
	"Outer": two((*tensor.Tensor).Outer),
	"BAddBMM": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.BAddBMM(in[0], in[1], in[2], a.float(0), a.float(1))
	},
	"Einsum": func(in tensors, a args) (*tensor.Tensor, error) { return tensor.Einsum(a.text(0), in...) },
	"EinsumGrad": func(in tensors, a args) (*tensor.Tensor, error) { // the gradient, then the operands
		if in[1] == nil {
			return gradients.Einsum("i,i->", 0, nil, in[0], in[1], in[2])
		}
		return gradients.Einsum(a.text(0), a.int(1), in[1+a.int(1)].Shape(), in[0], in[1:]...)
	},
	"TensorDot": func(in tensors, a args) (*tensor.Tensor, error) { // dimensions of one, then as many of the other
		n := len(a) / 2
		return in[0].TensorDot(in[1], a[:n].ints(0), a[n:].ints(0))
	},
}

var productSamples = []sample{
	{"MatMul", "float32[2 3] ~float32[4 3]", nil}, {"MatMul", "float32[3] float32[5 3 2]", nil},
	{"Linear", "float32[5 2 3] float32[4 3] float32[4]", nil}, {"Linear", "~float32[3 2] float32[4 3]", nil},
	{"LinearAct", "float32[5 2 3] float32[4 3] float32[4]", args{2.0}}, {"LinearAct", "float32[3] float32[4 3] float32[4]", args{1.0}},
	{"LinearAct", "~float32[3 2] float32[4 3]", args{3.0}}, {"LinearAct", "~float32[3 2 5] float32[4 5]", args{0.0}},
	{"LinearActPre", "float32[5 2 3] float32[4 3] float32[4]", args{2.0}},
	{"LinearActPre", "~float32[3 2 5] float32[4 5] float32[4]", args{3.0}}, {"AddMM", "float32[4] float32[2 3] float32[3 4]", args{0.5, 2.0}},
	{"LinearGradWeight", "float32[5 4] float32[5 3]", args{1.0}}, {"LinearGradWeight", "~bfloat16[4 5] bfloat16[5 3]", args{1.0}},
	{"LinearGradWeight", "float16[5 4] ~float16[3 5]", args{0.0}},
	{"Dot", "float32[3] float32[3]", nil}, {"MV", "float32[2 3] float32[3]", nil}, {"MM", "float32[2 3] float32[3 2]", nil},
	{"BMM", "float32[2 2 3] float32[2 3 2]", nil}, {"Outer", "float32[3] int32[2]", nil},
	{"BAddBMM", "float32[2] float32[2 2 3] float32[2 3 2]", args{0.5, 2.0}},
	{"Einsum", "float32[2 3] float32[3 4] ~float32[5 4]", args{"ij,jk,kl->li"}}, {"Einsum", "float32[3 3]", args{"ii"}},
	{"Einsum", "float32[2 3]", args{"ij->ji"}}, {"Einsum", "float32[2 3 4] float32[5 1 4 3]", args{"...ij,...ji->..."}},
	{"EinsumGrad", "float32[2 4] float32[2 3] float32[3 4]", args{"ij,jk->ik", 0.0}},
	{"EinsumGrad", "float32[] float32[3 3] float32[2]", args{"ii,k->", 0.0}},
	{"TensorDot", "float32[2 3 4] float32[4 3]", args{1.0, 2.0, 1.0, 0.0}},
}

var productRefusals = []refused{
	{sample{"MatMul", "int32[2 2] int32[2 2]", nil}, "dtype"}, {sample{"MatMul", "float32[2 3] float32[2 3]", nil}, "shape"},
	{sample{"MatMul", "float32[] float32[]", nil}, "shape"}, {sample{"Linear", "float32[] float32[2 2]", nil}, "shape"},
	{sample{"Linear", "float32[2 2] float32[3 2] float32[2]", nil}, "shape"}, {sample{"Linear", "float32[2 2] float64[3 2]", nil}, "dtype"},
	{sample{"LinearAct", "float32[2 2] float32[3 2] float32[2]", args{1.0}}, "shape"},
	{sample{"LinearAct", "float32[2 2] float64[3 2]", args{1.0}}, "dtype"},
	{sample{"LinearAct", "float32[2 2] float32[3 2]", args{4.0}}, "value"},
	{sample{"LinearGradWeight", "float32[2 2] float32[3 2]", args{1.0}}, "shape"}, {sample{"LinearGradWeight", "float32[2] float32[2 2]", args{1.0}}, "shape"},
	{sample{"LinearGradWeight", "float32[2 2] float16[2 2]", args{1.0}}, "dtype"},
	{sample{"LinearActPre", "float32[2 2] float32[3 3] float32[3]", args{2.0}}, "shape"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float32[2]", args{2.0}}, "shape"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float64[3]", args{2.0}}, "dtype"},
	{sample{"LinearActPre", "float32[2 2] float32[3 2] float32[3]", args{9.0}}, "value"},
	{sample{"AddMM", "float32[2] float32[2] float32[2 2]", args{1.0, 1.0}}, "shape"},
	{sample{"AddMM", "float32[2] float32[2 3] float32[2 2]", args{1.0, 1.0}}, "shape"},
	{sample{"AddMM", "float32[2] float32[2 2] float64[2 2]", args{1.0, 1.0}}, "dtype"}, {sample{"Dot", "float32[2] float32[3]", nil}, "shape"},
	{sample{"Dot", "float32[2] float64[2]", nil}, "dtype"}, {sample{"MV", "float32[2] float32[2]", nil}, "shape"},
	{sample{"MV", "float32[2 3] float64[3]", nil}, "dtype"}, {sample{"MM", "float32[2 3] float32[2 3]", nil}, "shape"},
	{sample{"MM", "float32[2 3] float64[3 2]", nil}, "dtype"}, {sample{"BMM", "float32[2 2 3] float32[1 3 2]", nil}, "shape"},
	{sample{"BMM", "int32[2 2 3] int32[2 3 2]", nil}, "dtype"}, {sample{"Outer", "float32[2 1] float32[2]", nil}, "shape"},
	{sample{"BAddBMM", "float32[3] float32[2 2 3] float32[2 3 2]", args{1.0, 1.0}}, "shape"},
	{sample{"BAddBMM", "float32[2] float32[2 3] float32[3 2]", args{1.0, 1.0}}, "shape"},
	{sample{"BAddBMM", "float32[2] float32[2 2 3] float64[2 3 2]", args{1.0, 1.0}}, "dtype"},
	{sample{"Einsum", "float32[2 3] float32[2 3]", args{"ij,jk->ik"}}, "shape"}, {sample{"Einsum", "int32[2]", args{"i"}}, "dtype"},
	{sample{"Einsum", "float32[2]", args{"ij"}}, "shape"}, {sample{"Einsum", "float32[2]", args{"i,j"}}, "value"},
	{sample{"Einsum", "float32[2]", args{"i->j"}}, "value"}, {sample{"Einsum", "float32[2]", args{"i->ii"}}, "value"},
	{sample{"Einsum", "float32[2]", args{"1"}}, "value"}, {sample{"EinsumGrad", "float32[3] float32[2]", args{"i->i", 0.0}}, "shape"},
	{sample{"EinsumGrad", "float32[2] float64[2] int32[2]", args{"i,i->i", 0.0}}, "dtype"},
	{sample{"TensorDot", "float32[2 3] float32[2 3]", args{1.0, 0.0}}, "shape"},
	{sample{"TensorDot", "float32[2 3] float32[2 3]", args{2.0, 0.0}}, "shape"},
	{sample{"TensorDot", "float32[2 3] float32[2 3]", args{0.0, -3.0}}, "shape"},
	{sample{"TensorDot", "float32[2 3] float64[2 3]", args{0.0, 0.0}}, "dtype"},
	{sample{"TensorDot", "float32[2 2] float32[2 2]", args{0.0, 0.0, 0.0, 1.0}}, "shape"},
}
