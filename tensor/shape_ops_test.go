package tensor_test

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

// Views, and what moves elements to other places: flips, rolls, pieces, padding, repetition, triangles.

func init() { register(shapeOperations, shapeSamples, shapeRefusals) }

var shapeOperations = map[string]operation{
	"View": shaped((*tensor.Tensor).View), "Reshape": shaped((*tensor.Tensor).Reshape), "Expand": shaped((*tensor.Tensor).Expand),
	"BroadcastTo": shaped((*tensor.Tensor).BroadcastTo), "Permute": shaped((*tensor.Tensor).Permute),
	"Squeeze": shaped((*tensor.Tensor).Squeeze), "Unsqueeze": dim((*tensor.Tensor).Unsqueeze), "Flatten": dims((*tensor.Tensor).Flatten),
	"Transpose": dims((*tensor.Tensor).Transpose), "Select": dims((*tensor.Tensor).Select), "T": one((*tensor.Tensor).T), "MT": one((*tensor.Tensor).MT),
	"Slice": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Slice(a.int(0), a.int(1), a.int(2), a.int(3))
	},
	"Narrow": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Narrow(a.int(0), a.int(1), a.int(2))
	},
	"ToMemoryFormat": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].ToMemoryFormat(tensor.MemoryFormat(a.int(0)))
	},
	"Contiguous": one((*tensor.Tensor).Contiguous), "Clone": one((*tensor.Tensor).Clone),
	"To": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].To(dtype.All()[a.int(0)]) },
	"ToDevice": func(in tensors, _ args) (*tensor.Tensor, error) {
		if in[0] == nil {
			return in[0].ToDevice(tensor.Exec{})
		}
		return in[0].ToDevice(in[0].Exec())
	},
	"Cat": joined(tensor.Cat), "Stack": joined(tensor.Stack), "Flip": shaped((*tensor.Tensor).Flip),
	"Roll": func(in tensors, a args) (*tensor.Tensor, error) { // shifts, then as many dimensions
		n := len(a) / 2
		if len(a) == 1 {
			return in[0].Roll(a.ints(0), nil)
		}
		return in[0].Roll(a[:n].ints(0), a[n:].ints(0))
	},
	"Split":      func(in tensors, a args) (*tensor.Tensor, error) { return first(in[0].Split(a.int(0), a.int(1))) },
	"SplitSizes": func(in tensors, a args) (*tensor.Tensor, error) { return first(in[0].SplitSizes(a.ints(1), a.int(0))) },
	"Chunk":      func(in tensors, a args) (*tensor.Tensor, error) { return first(in[0].Chunk(a.int(0), a.int(1))) },
	"Unbind":     func(in tensors, a args) (*tensor.Tensor, error) { return first(in[0].Unbind(a.int(0))) },
	"MoveDim":    dims((*tensor.Tensor).MoveDim), "SwapAxes": dims((*tensor.Tensor).SwapAxes),
	"Diagonal":  func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Diagonal(a.int(0), a.int(1), a.int(2)) },
	"DiagEmbed": dim((*tensor.Tensor).DiagEmbed), "Diag": dim((*tensor.Tensor).Diag), "Tril": dim((*tensor.Tensor).Tril),
	"Triu": dim((*tensor.Tensor).Triu),
	"Pad": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Pad(a.ints(2), tensor.PadMode(a.int(0)), a.float(1))
	},
	"PadGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.Pad(in[0], a.ints(1), tensor.PadMode(a.int(0)))
	},
	"Repeat": shaped((*tensor.Tensor).Repeat), "Tile": shaped((*tensor.Tensor).Tile),
	"RepeatInterleave": dims((*tensor.Tensor).RepeatInterleave),
}

var shapeSamples = []sample{
	{"View", "float32[2 3]", args{3.0, 2.0}}, {"Reshape", "float32[2 3]", args{6.0}}, {"Reshape", "~float32[2 3]", args{6.0}},
	{"Expand", "float32[1 3]", args{2.0, 3.0}}, {"BroadcastTo", "float32[3]", args{2.0, 3.0}}, {"Permute", "float32[2 3]", args{1.0, 0.0}},
	{"Squeeze", "float32[2 1 3]", nil}, {"Unsqueeze", "float32[2]", args{0.0}}, {"Flatten", "float32[2 3]", args{0.0, 1.0}},
	{"Flatten", "~float32[2 3]", args{0.0, 1.0}}, {"Transpose", "float32[2 3]", args{0.0, 1.0}}, {"Select", "float32[2 3]", args{0.0, 1.0}},
	{"T", "float32[2 3]", nil}, {"MT", "float32[2 3 4]", nil}, {"Slice", "float32[5 3]", args{0.0, 1.0, 4.0, 2.0}}, {"Narrow", "float32[5]", args{0.0, 1.0, 2.0}},
	{"ToMemoryFormat", "float32[2 3 4 5]", args{1.0}}, {"ToMemoryFormat", "~float16[2 3 2 2 2]", args{2.0}},
	{"Contiguous", "float32[2 3]", nil}, {"Contiguous", "~float32[2 3]", nil}, {"Clone", "float32[2 3]", nil}, {"Clone", "~float16[2 3]", nil},
	{"To", "float32[2 3]", args{1.0}}, {"To", "~bool[2 3]", args{2.0}}, {"ToDevice", "float32[3]", nil},
	{"Cat", "float32[2 3] ~float64[3 1] float32[0]", args{0.0}}, {"Stack", "float32[3] int32[3]", args{1.0}},
	{"Flip", "float32[2 3]", args{0.0, 1.0}}, {"Roll", "float32[2 3]", args{1.0, -1.0, 0.0, 1.0}}, {"Roll", "~float32[2 3]", args{4.0}},
	{"Split", "float32[5 2]", args{2.0, 0.0}}, {"SplitSizes", "float32[5 2]", args{0.0, 2.0, 3.0}}, {"Chunk", "float32[5 2]", args{2.0, 0.0}},
	{"Unbind", "float32[5 2]", args{0.0}}, {"MoveDim", "float32[5 2 3]", args{0.0, 2.0}}, {"SwapAxes", "float32[5 2 3]", args{0.0, 2.0}},
	{"Diagonal", "float32[3 4]", args{1.0, 0.0, 1.0}}, {"DiagEmbed", "float32[2 3]", args{-1.0}}, {"Diag", "float32[3]", args{1.0}},
	{"Diag", "float32[3 4]", args{1.0}}, {"Tril", "~float32[3 4]", args{0.0}}, {"Triu", "bool[2 3 4]", args{-1.0}},
	{"Pad", "float32[2 3]", args{0.0, 1.5, 1.0, 2.0, -1.0, 0.0}}, {"Pad", "~float32[3 4]", args{1.0, 0.0, 2.0, 1.0, 1.0, 1.0}}, {"Pad", "~float32[3 4]", args{1.0, 0.0, -1.0, 1.0, 1.0, -2.0}},
	{"Pad", "int32[3 4]", args{2.0, 0.0, 2.0, 1.0}}, {"Pad", "float32[3 4]", args{3.0, 0.0, 2.0, 1.0, 1.0, 2.0}},
	{"PadGrad", "float32[4 6]", args{0.0, 1.0, 2.0, -1.0, 0.0}}, {"PadGrad", "float32[5 7]", args{1.0, 2.0, 1.0, 1.0, 1.0}},
	{"PadGrad", "float16[5 7]", args{2.0, 2.0, 1.0, 1.0, 1.0}}, {"PadGrad", "float32[5 7]", args{3.0, 2.0, 1.0, 1.0, 1.0}},
	{"Repeat", "~float32[2 3]", args{2.0, 1.0, 3.0}}, {"Tile", "float32[2 3]", args{2.0}}, {"RepeatInterleave", "float32[2 3]", args{2.0, 1.0}},
}

var shapeRefusals = []refused{
	{sample{"View", "float32[6]", args{-1.0, -1.0}}, "shape"}, {sample{"View", "~float32[2 3]", args{6.0}}, "shape"},
	{sample{"Reshape", "float32[0]", args{0.0, -1.0}}, "shape"}, {sample{"Expand", "float32[2]", args{-1.0, 2.0}}, "shape"},
	{sample{"Expand", "float32[2 2]", args{2.0}}, "shape"}, {sample{"BroadcastTo", "float32[2]", args{3.0}}, "shape"},
	{sample{"Permute", "float32[2 2]", args{0.0}}, "shape"}, {sample{"Permute", "float32[2 2]", args{0.0, 0.0}}, "shape"},
	{sample{"Permute", "float32[2 2]", args{0.0, 2.0}}, "shape"}, {sample{"Squeeze", "float32[1]", args{1.0}}, "shape"},
	{sample{"Unsqueeze", "float32[2]", args{2.0}}, "shape"}, {sample{"Flatten", "float32[2 2]", args{1.0, 0.0}}, "shape"},
	{sample{"Transpose", "float32[2 2]", args{0.0, 2.0}}, "shape"}, {sample{"Select", "float32[2]", args{0.0, 2.0}}, "shape"},
	{sample{"T", "float32[2 2 2]", nil}, "shape"}, {sample{"MT", "float32[3]", nil}, "shape"}, {sample{"Slice", "float32[]", args{0.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"Narrow", "float32[2]", args{0.0, 1.0, 2.0}}, "shape"}, {sample{"Cat", "float32[] float32[]", args{0.0}}, "shape"},
	{sample{"Cat", "float32[2] float32[2 2]", args{0.0}}, "shape"}, {sample{"Cat", "float32[2]", args{1.0}}, "shape"},
	{sample{"Stack", "float32[2]", args{2.0}}, "shape"}, {sample{"Flip", "float32[2]", args{0.0, 0.0}}, "shape"},
	{sample{"Roll", "float32[2]", args{1.0, 1.0}}, "shape"}, {sample{"Roll", "float32[2 2]", args{1.0, 1.0, 0.0}}, "value"},
	{sample{"Split", "float32[2]", args{0.0, 0.0}}, "value"}, {sample{"Split", "float32[]", args{1.0, 0.0}}, "shape"},
	{sample{"SplitSizes", "float32[2]", args{0.0, 1.0}}, "shape"}, {sample{"SplitSizes", "float32[2]", args{0.0, 3.0, -1.0}}, "value"},
	{sample{"Chunk", "float32[2]", args{0.0, 0.0}}, "value"}, {sample{"Unbind", "float32[]", args{0.0}}, "shape"},
	{sample{"MoveDim", "float32[2 2]", args{0.0, 2.0}}, "shape"}, {sample{"SwapAxes", "float32[2 2]", args{0.0, 2.0}}, "shape"},
	{sample{"Diagonal", "float32[2 2]", args{0.0, 1.0, -1.0}}, "shape"}, {sample{"DiagEmbed", "float32[]", args{0.0}}, "shape"},
	{sample{"Diag", "float32[2 2 2]", args{0.0}}, "shape"}, {sample{"Tril", "float32[2]", args{0.0}}, "shape"},
	{sample{"ToMemoryFormat", "float32[2 3 4]", args{1.0}}, "shape"}, {sample{"ToMemoryFormat", "float32[2 3 4 5]", args{7.0}}, "value"},
	{sample{"Triu", "float32[]", args{0.0}}, "shape"}, {sample{"Pad", "float32[2]", args{0.0, 0.0, 1.0}}, "shape"},
	{sample{"Pad", "float32[2]", args{1.0, 0.0, 2.0, 0.0}}, "shape"}, {sample{"Pad", "float32[3]", args{1.0, 0.0, -3.0, 0.0}}, "shape"}, {sample{"Pad", "float32[2]", args{9.0, 0.0, 1.0, 0.0}}, "value"},
	{sample{"Pad", "float32[2]", args{0.0, 0.0, -1.0, -2.0}}, "shape"}, {sample{"PadGrad", "float32[2]", args{1.0, 2.0, 1.0}}, "shape"},
	{sample{"PadGrad", "int32[4]", args{0.0, 1.0, 1.0}}, "dtype"}, {sample{"Repeat", "float32[2 2]", args{1.0}}, "shape"},
	{sample{"Repeat", "float32[2 2]", args{1.0, -1.0}}, "value"}, {sample{"Repeat", "float32[4]", args{float64(1 << 62)}}, "shape"},
	{sample{"Tile", "float32[2 2]", args{-1.0}}, "value"}, {sample{"RepeatInterleave", "float32[2]", args{-1.0, 0.0}}, "value"},
	{sample{"RepeatInterleave", "float32[]", args{1.0, 0.0}}, "shape"},
}
