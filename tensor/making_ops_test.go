package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// What makes tensors like others, draws from them, and looks up places among sorted elements.

func init() { register(makingOperations, makingSamples, makingRefusals) }

func drawn(f func(t *tensor.Tensor, gen *tensor.Generator) (*tensor.Tensor, error)) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) { return f(in[0], tensor.NewGenerator(1)) }
}

var makingOperations = map[string]operation{
	"EmptyLike": func(in tensors, _ args) (*tensor.Tensor, error) { // whose content is undefined
		t, err := in[0].EmptyLike()
		if err != nil {
			return nil, err
		}
		if err := t.ZeroInPlace(); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	},
	"ZerosLike": one((*tensor.Tensor).ZerosLike), "OnesLike": one((*tensor.Tensor).OnesLike), "FullLike": scalar((*tensor.Tensor).FullLike),
	"RandLike": drawn((*tensor.Tensor).RandLike), "RandNLike": drawn((*tensor.Tensor).RandNLike),
	"MeshGrid": func(in tensors, a args) (*tensor.Tensor, error) { return first(tensor.MeshGrid(in, a.bool(0))) },
	"SearchSorted": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].SearchSorted(in[1], a.bool(0))
	},
	"Bucketize": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Bucketize(in[1], a.bool(0)) },
	"Multinomial": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Multinomial(tensor.NewGenerator(1), a.int(0), a.bool(1))
	},
}

var makingSamples = []sample{
	{"EmptyLike", "~float16[2 3]", nil}, {"ZerosLike", "bool[2 3]", nil}, {"OnesLike", "~int32[2 3]", nil}, {"FullLike", "float64[3]", args{2.5}},
	{"RandLike", "float32[2 3]", nil}, {"RandNLike", "~float16[2 3]", nil}, {"MeshGrid", "float32[2] float32[3]", args{0.0}},
	{"MeshGrid", "float32[2] float32[] float32[4]", args{1.0}}, {"SearchSorted", "int64[4] int64[2 3]", args{0.0}},
	{"SearchSorted", "~float32[3 2] float32[2 3]", args{1.0}}, {"Bucketize", "~int32[2 3] int32[4]", args{1.0}},
	{"Multinomial", "~float16[2 1]", args{2.0, 0.0}}, {"Multinomial", "float64[2]", args{7.0, 1.0}},
}

var makingRefusals = []refused{
	{sample{"FullLike", "int32[2]", args{math.NaN()}}, "value"}, {sample{"RandLike", "int32[2]", nil}, "dtype"}, {sample{"RandNLike", "bool[2]", nil}, "dtype"},
	{sample{"MeshGrid", "float32[2] float32[2 2]", args{0.0}}, "shape"}, {sample{"MeshGrid", "float32[2] int32[2]", args{0.0}}, "dtype"},
	{sample{"SearchSorted", "float32[2] int32[2]", args{0.0}}, "dtype"}, {sample{"SearchSorted", "float32[] float32[2]", args{0.0}}, "shape"},
	{sample{"SearchSorted", "float32[2 2] float32[2]", args{0.0}}, "shape"}, {sample{"SearchSorted", "float32[2 2] float32[3 2]", args{0.0}}, "shape"},
	{sample{"Bucketize", "float32[2] float32[2 2]", args{0.0}}, "shape"}, {sample{"Bucketize", "float32[2] int64[2]", args{0.0}}, "dtype"},
	{sample{"Multinomial", "float32[2]", args{3.0, 0.0}}, "value"}, {sample{"Multinomial", "float32[2]", args{0.0, 1.0}}, "value"},
	{sample{"Multinomial", "int32[2]", args{1.0, 0.0}}, "dtype"}, {sample{"Multinomial", "float32[2 2 2]", args{1.0, 0.0}}, "shape"},
	{sample{"Multinomial", "float32[2 0]", args{1.0, 1.0}}, "shape"}, {sample{"Multinomial", "float32[]", args{1.0, 1.0}}, "shape"},
}
