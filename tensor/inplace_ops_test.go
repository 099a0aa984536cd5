package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Changes in place.

func init() { register(inplaceOperations, inplaceSamples, inplaceRefusals) }

var inplaceOperations = map[string]operation{
	"FillInPlace":      inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.FillInPlace(a.float(0)) }),
	"ZeroInPlace":      inPlace(func(t *tensor.Tensor, _ tensors, _ args) error { return t.ZeroInPlace() }),
	"CopyFrom":         inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return t.CopyFrom(in[1]) }),
	"AddInPlace":       inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddInPlace(in[1], a.float(0)) }),
	"MulScalarInPlace": inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.MulScalarInPlace(a.float(0)) }),
	"SubInPlace":       changed2((*tensor.Tensor).SubInPlace), "MulInPlace": changed2((*tensor.Tensor).MulInPlace),
	"DivInPlace":       changed2((*tensor.Tensor).DivInPlace),
	"AddScalarInPlace": inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.AddScalarInPlace(a.float(0)) }),
	"ClampInPlace":     inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.ClampInPlace(a.float(0), a.float(1)) }),
	"MaskedFillInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.MaskedFillInPlace(in[1], a.float(0))
	}),
	"AddCMulInPlace":    inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddCMulInPlace(in[1], in[2], a.float(0)) }),
	"LerpInPlace":       inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return t.LerpInPlace(in[1], in[2]) }),
	"LerpScalarInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.LerpScalarInPlace(in[1], a.float(0)) }),
	"AddCDivInPlace":    inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddCDivInPlace(in[1], in[2], a.float(0)) }),
}

var inplaceSamples = []sample{
	{"FillInPlace", "float32[2 3]", args{1.0}}, {"ZeroInPlace", "float32[3]", nil}, {"CopyFrom", "float32[2 3] int32[3]", nil},
	{"AddInPlace", "float16[2 3] float32[3]", args{2.0}}, {"AddInPlace", "float32[2 3] int32[3]", args{2.0}},
	{"MulScalarInPlace", "float32[3]", args{2.0}}, {"SubInPlace", "float16[2 3] float32[3]", nil}, {"MulInPlace", "float32[2 3] int32[3]", nil},
	{"DivInPlace", "float32[2 3] float32[3]", nil}, {"AddScalarInPlace", "int32[3]", args{2.0}}, {"ClampInPlace", "int32[3]", args{-1.0, 1.0}},
	{"MaskedFillInPlace", "float32[2 3] bool[3]", args{1.0}}, {"AddCMulInPlace", "float32[2 3] float32[3] float32[]", args{2.0}},
	{"AddCDivInPlace", "float32[2 3] float32[3] float32[2 1]", args{2.0}}, {"LerpInPlace", "~float16[2 3] float16[2] float16[]", nil},
	{"LerpScalarInPlace", "float32[2 3] float32[3]", args{0.25}},
}

var inplaceRefusals = []refused{
	{sample{"FillInPlace", "int32[2]", args{math.NaN()}}, "value"}, {sample{"FillInPlace", "uint8[2]", args{1e19}}, "value"},
	{sample{"CopyFrom", "float32[2] float32[3]", nil}, "shape"}, {sample{"AddInPlace", "int32[2] float32[2]", args{1.0}}, "dtype"},
	{sample{"AddInPlace", "float32[2] float32[3]", args{1.0}}, "shape"}, {sample{"MulScalarInPlace", "bool[2]", args{2.0}}, "dtype"},
	{sample{"MulScalarInPlace", "int32[2]", args{0.5}}, "value"}, {sample{"SubInPlace", "int32[2] float32[2]", nil}, "dtype"},
	{sample{"SubInPlace", "float32[2] float32[3]", nil}, "shape"}, {sample{"MulInPlace", "float32[2] float32[3]", nil}, "shape"},
	{sample{"MulInPlace", "int32[2] float32[2]", nil}, "dtype"}, {sample{"DivInPlace", "int32[2] int32[2]", nil}, "dtype"},
	{sample{"DivInPlace", "float32[2] float32[3]", nil}, "shape"}, {sample{"AddScalarInPlace", "int32[2]", args{0.5}}, "value"},
	{sample{"ClampInPlace", "int32[2]", args{0.5, 1.0}}, "value"}, {sample{"MaskedFillInPlace", "float32[2] bool[3]", args{1.0}}, "shape"},
	{sample{"MaskedFillInPlace", "float32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"AddCMulInPlace", "float32[2] float32[2] float64[2]", args{1.0}}, "dtype"},
	{sample{"LerpInPlace", "float32[2] float32[2] float64[2]", nil}, "dtype"}, {sample{"LerpInPlace", "float32[2] float32[2] float32[3]", nil}, "shape"},
	{sample{"LerpScalarInPlace", "int32[2] int32[2]", args{0.5}}, "dtype"}, {sample{"LerpScalarInPlace", "float32[2] float32[1 2]", args{0.5}}, "shape"},
	{sample{"AddCMulInPlace", "float32[2] float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"AddCDivInPlace", "float32[2] float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"AddCDivInPlace", "float32[2] float64[2] float32[2]", args{1.0}}, "dtype"},
}
