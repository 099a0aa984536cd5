package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Element-wise operations, and the gradients of functions.

func init() { register(elementwiseOperations, elementwiseSamples, elementwiseRefusals) }

var elementwiseOperations = map[string]operation{
	"Add": two((*tensor.Tensor).Add), "Sub": two((*tensor.Tensor).Sub),
	"AddScaled": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddScaled(in[1], a.float(0)) },
	"SubScalar": scalar((*tensor.Tensor).SubScalar), "PowScalar": scalar((*tensor.Tensor).PowScalar),
	"EqScalar": scalar((*tensor.Tensor).EqScalar), "NeScalar": scalar((*tensor.Tensor).NeScalar), "LtScalar": scalar((*tensor.Tensor).LtScalar),
	"LeScalar": scalar((*tensor.Tensor).LeScalar), "GtScalar": scalar((*tensor.Tensor).GtScalar), "GeScalar": scalar((*tensor.Tensor).GeScalar),
	"Clamp":        scalars((*tensor.Tensor).Clamp),
	"Where":        func(in tensors, _ args) (*tensor.Tensor, error) { return tensor.Where(in[0], in[1], in[2]) },
	"WhereScalar":  func(in tensors, a args) (*tensor.Tensor, error) { return tensor.WhereScalar(in[0], in[1], a.float(0)) },
	"RWhereScalar": func(in tensors, a args) (*tensor.Tensor, error) { return tensor.RWhereScalar(in[0], a.float(0), in[1]) },
	"Dropout": func(in []*tensor.Tensor, a args) (*tensor.Tensor, error) {
		return in[0].Dropout(tensor.NewGenerator(1), a[0].(float64))
	},
	"CELU": scalar((*tensor.Tensor).CELU), "Softshrink": scalar((*tensor.Tensor).Softshrink),
	"Polygamma": scalar((*tensor.Tensor).Polygamma), "Hardtanh": scalars((*tensor.Tensor).Hardtanh), "ReLU6": one((*tensor.Tensor).ReLU6),
	"FmodScalar": scalar((*tensor.Tensor).FmodScalar), "RemainderScalar": scalar((*tensor.Tensor).RemainderScalar),
	"RSubScalar": scalar((*tensor.Tensor).RSubScalar), "RDivScalar": scalar((*tensor.Tensor).RDivScalar),
	"RPowScalar": scalar((*tensor.Tensor).RPowScalar),
	"Lerp":       func(in tensors, _ args) (*tensor.Tensor, error) { return in[0].Lerp(in[1], in[2]) },
	"LerpScalar": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].LerpScalar(in[1], a.float(0)) },
	"AddCMul":    func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddCMul(in[1], in[2], a.float(0)) },
	"AddCDiv":    func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddCDiv(in[1], in[2], a.float(0)) },
	"MaskedFill": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].MaskedFill(optional(in, 1), a.float(0)) },
}

var elementwiseSamples = []sample{
	{"Add", "float32[2 3] float32[2 3]", nil}, {"Add", "float32[2 3] ~float64[1 2]", nil}, {"Add", "int64[2] float16[2]", nil},
	{"Add", "bool[2] bool[2]", nil}, {"Sub", "float32[3] bfloat16[2 1]", nil}, {"AddScaled", "int32[3] uint8[3]", args{2.0}},
	{"SubScalar", "float32[3]", args{2.5}}, {"PowScalar", "int32[3]", args{2.0}}, {"EqScalar", "int32[3]", args{1.5}},
	{"NeScalar", "uint8[3]", args{300.0}}, {"LtScalar", "float32[3]", args{1.0}}, {"LeScalar", "float32[3]", args{1.0}},
	{"GtScalar", "bool[3]", args{0.0}}, {"GeScalar", "float16[3]", args{0.0}}, {"Clamp", "int32[3]", args{-0.5, 0.5}},
	{"Where", "bool[3] float32[2 1] float64[3]", nil}, {"WhereScalar", "bool[3] ~float16[2 3 1]", args{0.5}}, {"RWhereScalar", "bool[2 3] int32[3]", args{0.5}}, {"Dropout", "float32[2 3]", args{0.5}}, {"Dropout", "~float16[2 3]", args{0.5}},
	{"CELU", "~float32[2 3]", args{0.75}}, {"CELU", "float64[3]", args{0.75}}, {"Softshrink", "~float32[2 3]", args{0.75}},
	{"Softshrink", "float64[3]", args{0.75}}, {"Polygamma", "int32[3]", args{2.0}}, {"Polygamma", "bool[3]", args{0.0}},
	{"Polygamma", "float32[3]", args{2.0}}, {"Polygamma", "float64[3]", args{0.0}}, {"Hardtanh", "float32[3]", args{-1.0, 1.0}}, {"ReLU6", "float32[3]", nil}, {"FmodScalar", "float32[3]", args{2.0}},
	{"RemainderScalar", "int32[3]", args{1.5}}, {"RSubScalar", "float32[3]", args{1.0}}, {"RDivScalar", "int32[3]", args{1.0}},
	{"RPowScalar", "float32[3]", args{2.0}}, {"Lerp", "float32[3] float32[2 1] float32[]", nil},
	{"LerpScalar", "float32[3] float32[3]", args{0.25}}, {"AddCMul", "float32[3] int32[2 1] float64[3]", args{0.5}},
	{"AddCDiv", "float32[3] float32[3] int32[1]", args{0.5}}, {"MaskedFill", "float32[2 3] bool[3]", args{-1.0}},
	{"MaskedFill", "~int32[2 3] bool[2 3 1]", args{2.0}},
}

var elementwiseRefusals = []refused{
	{sample{"WhereScalar", "bool[2] float32[3]", args{0.0}}, "shape"}, {sample{"WhereScalar", "int32[2] float32[2]", args{0.0}}, "dtype"},
	{sample{"WhereScalar", "bool[2] uint8[2]", args{300.0}}, "value"}, {sample{"RWhereScalar", "bool[2] int32[2]", args{1e10}}, "value"},
	{sample{"RWhereScalar", "bool[2] float32[3]", args{0.0}}, "shape"}, {sample{"RWhereScalar", "int32[2] float32[2]", args{0.0}}, "dtype"},
	{sample{"ClampGrad", "float32[2] float32[3]", args{0.0, 1.0}}, "shape"}, {sample{"ELUGrad", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"ErfGrad", "float32[2] float64[2]", nil}, "dtype"}, {sample{"Fmod", "float32[2] float32[3]", nil}, "shape"},
	{sample{"GELUGrad", "float32[2] float32[3]", nil}, "shape"}, {sample{"GELUTanhGrad", "float32[2] float32[2 1]", nil}, "shape"},
	{sample{"HardtanhGrad", "float32[2] float64[2]", args{0.0, 1.0}}, "dtype"},
	{sample{"LeakyReLUGrad", "float32[2] float16[2]", args{0.1}}, "dtype"}, {sample{"Pow", "float32[2] float32[3]", nil}, "shape"},
	{sample{"Remainder", "bool[2] bool[2]", nil}, "dtype"}, {sample{"SiLUGrad", "float32[2] float64[2]", nil}, "dtype"},
	{sample{"SoftplusGrad", "float32[2] float64[2]", args{1.0, 20.0}}, "dtype"}, {sample{"Add", "int32[2] float32[3]", nil}, "shape"},
	{sample{"Sub", "bool[2] int32[2]", nil}, "dtype"}, {sample{"Sub", "float32[2] float32[3]", nil}, "shape"},
	{sample{"AddScaled", "bool[2] bool[2]", args{2.0}}, "value"}, {sample{"AddScaled", "int32[2] int32[2]", args{0.5}}, "value"},
	{sample{"AddScaled", "float32[2] float32[3]", args{2.0}}, "shape"}, {sample{"SubScalar", "bool[2]", args{1.0}}, "dtype"},
	{sample{"PowScalar", "int32[2]", args{-1.0}}, "value"}, {sample{"Clamp", "float32[2]", args{math.NaN(), 1.0}}, "value"},
	{sample{"Clamp", "float32[2]", args{1.0, math.NaN()}}, "value"}, {sample{"Where", "int32[2] float32[2] float32[2]", nil}, "dtype"},
	{sample{"Where", "bool[3] float32[2] float32[2]", nil}, "shape"}, {sample{"Where", "bool[3] int32[2] float32[2]", nil}, "shape"},
	{sample{"Dropout", "int32[2]", args{0.5}}, "dtype"}, {sample{"Dropout", "float32[2]", args{1.5}}, "value"},
	{sample{"Dropout", "float32[2]", args{math.NaN()}}, "value"}, {sample{"Hardtanh", "int32[2]", args{0.0, 1.0}}, "dtype"},
	{sample{"CELU", "int32[2]", args{1.0}}, "dtype"}, {sample{"CELU", "float32[2]", args{0.0}}, "value"},
	{sample{"Softshrink", "int32[2]", args{1.0}}, "dtype"}, {sample{"Softshrink", "float32[2]", args{-1.0}}, "value"},
	{sample{"Softshrink", "float32[2]", args{math.NaN()}}, "value"},
	{sample{"Polygamma", "float32[2]", args{1.5}}, "value"}, {sample{"Polygamma", "float32[2]", args{-1.0}}, "value"},
	{sample{"Hardtanh", "float32[2]", args{1.0, 0.0}}, "value"}, {sample{"ReLU6", "int32[2]", nil}, "dtype"},
	{sample{"RSubScalar", "bool[2]", args{1.0}}, "dtype"}, {sample{"Lerp", "float32[2] float64[2] float32[2]", nil}, "dtype"},
	{sample{"Lerp", "float32[2] float32[2] float32[3]", nil}, "shape"}, {sample{"LerpScalar", "int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"LerpScalar", "float32[2] float32[3]", args{1.0}}, "shape"}, {sample{"AddCMul", "bool[2] bool[2] bool[2]", args{1.0}}, "dtype"},
	{sample{"AddCMul", "int32[2] int32[2] int32[2]", args{0.5}}, "value"},
	{sample{"AddCMul", "int32[2] int32[2] int32[3]", args{1.0}}, "shape"},
	{sample{"AddCDiv", "float32[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"AddCDiv", "float32[2] float32[3] float32[2]", args{1.0}}, "shape"},
	{sample{"MaskedFill", "float32[2] int32[2]", args{1.0}}, "dtype"}, {sample{"MaskedFill", "int32[2] bool[2]", args{1.5}}, "value"},
	{sample{"MaskedFill", "int32[2] bool[3]", args{1.0}}, "shape"}, {sample{"MaskedFill", "float32[2 3] int32[2 3]", args{1.0}}, "dtype"},
	{sample{"MaskedFill", "float32[2 3] bool[2]", args{1.0}}, "shape"},
}
