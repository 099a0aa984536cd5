package tensor_test

import (
	"maps"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The general operations: element-wise ones, norms, running sums, sorting, shapes, products and changes in place.

// first releases all results but the first.
func first(ts []*tensor.Tensor, err error) (*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	if len(ts) == 0 {
		return nil, errInjected
	}
	for _, t := range ts[1:] {
		t.Release()
	}
	return ts[0], nil
}

func firstOf(t, u *tensor.Tensor, err error) (*tensor.Tensor, error) {
	return first([]*tensor.Tensor{t, u}, err)
}

// secondOf releases the first result.
func secondOf(t, u *tensor.Tensor, err error) (*tensor.Tensor, error) { return firstOf(u, t, err) }

func flag(f func(t *tensor.Tensor, dim int, flag bool) (a, b *tensor.Tensor, err error), pick func(a, b *tensor.Tensor, err error) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return pick(f(in[0], a.int(0), a.bool(1))) }
}

func changed1(f func(t *tensor.Tensor) error) operation {
	return inPlace(func(t *tensor.Tensor, _ tensors, _ args) error { return f(t) })
}

func changed2(f func(t, u *tensor.Tensor) error) operation {
	return inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return f(t, in[1]) })
}

// text is argument i, or a legal equation if the test passes numbers for all arguments.
func (a args) text(i int) string {
	if s, ok := a[i].(string); ok {
		return s
	}
	return "ij,ij->"
}

var generalOperations = map[string]operation{
	"Hardtanh":   scalars((*tensor.Tensor).Hardtanh),
	"ReLU6":      one((*tensor.Tensor).ReLU6),
	"FmodScalar": scalar((*tensor.Tensor).FmodScalar), "RemainderScalar": scalar((*tensor.Tensor).RemainderScalar),
	"RSubScalar": scalar((*tensor.Tensor).RSubScalar), "RDivScalar": scalar((*tensor.Tensor).RDivScalar),
	"RPowScalar": scalar((*tensor.Tensor).RPowScalar),
	"Lerp":       func(in tensors, _ args) (*tensor.Tensor, error) { return in[0].Lerp(in[1], in[2]) },
	"LerpScalar": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].LerpScalar(in[1], a.float(0)) },
	"AddCMul":    func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddCMul(in[1], in[2], a.float(0)) },
	"AddCDiv":    func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AddCDiv(in[1], in[2], a.float(0)) },
	"MaskedFill": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].MaskedFill(in[1], a.float(0)) },

	"Norm": func(in tensors, a args) (*tensor.Tensor, error) {
		p, ok := a[0].(float64)
		if !ok { // the golden files write infinity as a text
			p = map[any]float64{"inf": math.Inf(1), "-inf": math.Inf(-1)}[a[0]]
		}
		return in[0].Norm(p, a.ints(2), a.bool(1))
	},
	"LogSumExp": reduction((*tensor.Tensor).LogSumExp), "CountNonzero": shaped((*tensor.Tensor).CountNonzero),
	"MaxDim": flag((*tensor.Tensor).MaxDim, firstOf), "MinDim": flag((*tensor.Tensor).MinDim, firstOf),
	"MaxDim indices": flag((*tensor.Tensor).MaxDim, secondOf),
	"CumSum":         dim((*tensor.Tensor).CumSum), "CumProd": dim((*tensor.Tensor).CumProd),
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
	"Gather": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].Gather(a.int(0), in[1]) },
	"ScatterInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.ScatterInPlace(a.int(0), in[1], in[2])
	}),

	"Flip": shaped((*tensor.Tensor).Flip),
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
	"DiagEmbed": dim((*tensor.Tensor).DiagEmbed), "Diag": dim((*tensor.Tensor).Diag),
	"Tril": dim((*tensor.Tensor).Tril), "Triu": dim((*tensor.Tensor).Triu),
	"Pad": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].Pad(a.ints(2), tensor.PadMode(a.int(0)), a.float(1))
	},
	"PadGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.Pad(in[0], a.ints(1), tensor.PadMode(a.int(0)))
	},
	"Repeat": shaped((*tensor.Tensor).Repeat), "Tile": shaped((*tensor.Tensor).Tile),
	"RepeatInterleave": dims((*tensor.Tensor).RepeatInterleave),

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

	"SubInPlace": changed2((*tensor.Tensor).SubInPlace), "MulInPlace": changed2((*tensor.Tensor).MulInPlace),
	"DivInPlace":       changed2((*tensor.Tensor).DivInPlace),
	"AddScalarInPlace": inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.AddScalarInPlace(a.float(0)) }),
	"ClampInPlace":     inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return t.ClampInPlace(a.float(0), a.float(1)) }),
	"MaskedFillInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return t.MaskedFillInPlace(in[1], a.float(0))
	}),
	"AddCMulInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddCMulInPlace(in[1], in[2], a.float(0)) }),
	"AddCDivInPlace": inPlace(func(t *tensor.Tensor, in tensors, a args) error { return t.AddCDivInPlace(in[1], in[2], a.float(0)) }),
}

var generalSamples = []sample{
	{"Hardtanh", "float32[3]", args{-1.0, 1.0}},
	{"ReLU6", "float32[3]", nil},
	{"FmodScalar", "float32[3]", args{2.0}}, {"RemainderScalar", "int32[3]", args{1.5}}, {"RSubScalar", "float32[3]", args{1.0}},
	{"RDivScalar", "int32[3]", args{1.0}}, {"RPowScalar", "float32[3]", args{2.0}},
	{"Lerp", "float32[3] float32[2 1] float32[]", nil}, {"LerpScalar", "float32[3] float32[3]", args{0.25}},
	{"AddCMul", "float32[3] int32[2 1] float64[3]", args{0.5}}, {"AddCDiv", "float32[3] float32[3] int32[1]", args{0.5}},
	{"MaskedFill", "float32[2 3] bool[3]", args{-1.0}},
	{"Norm", "float32[2 3]", args{2.0, false, 1.0}}, {"Norm", "float16[2 3]", args{3.0, true, 0.0}}, {"Norm", "float32[2 3]", args{0.0, false}},
	{"LogSumExp", "~float32[2 3]", args{false, 1.0}}, {"CountNonzero", "bool[2 3]", args{0.0}}, {"CountNonzero", "float32[2 3]", nil},
	{"MaxDim", "float32[2 3]", args{1.0, false}}, {"MinDim", "int32[2 3]", args{0.0, true}}, {"MaxDim indices", "float32[]", args{0.0, false}},
	{"CumSum", "~bool[2 3]", args{1.0}}, {"CumProd", "float32[2 3]", args{0.0}}, {"CumSumGrad", "~float32[2 3]", args{0.0}}, {"CumSumGrad", "float16[]", args{0.0}}, {"CumProdGrad", "float32[2 3] float32[2 3] ~float32[3 2]", args{1.0}},
	{"Sort", "float32[2 3]", args{0.0, true}}, {"ArgSort", "~int32[2 3]", args{1.0, false}}, {"TopK", "float32[2 3]", args{2.0, 1.0, true}},
	{"TopK indices", "bool[2 3]", args{1.0, 0.0, false}}, {"Gather", "float32[2 3] int32[2 2]", args{1.0}},
	{"ScatterInPlace", "float32[2 3] int64[2 1] float32[2 1]", args{1.0}},
	{"Flip", "float32[2 3]", args{0.0, 1.0}}, {"Roll", "float32[2 3]", args{1.0, -1.0, 0.0, 1.0}}, {"Roll", "~float32[2 3]", args{4.0}},
	{"Split", "float32[5 2]", args{2.0, 0.0}}, {"SplitSizes", "float32[5 2]", args{0.0, 2.0, 3.0}}, {"Chunk", "float32[5 2]", args{2.0, 0.0}},
	{"Unbind", "float32[5 2]", args{0.0}}, {"MoveDim", "float32[5 2 3]", args{0.0, 2.0}}, {"SwapAxes", "float32[5 2 3]", args{0.0, 2.0}},
	{"Diagonal", "float32[3 4]", args{1.0, 0.0, 1.0}}, {"DiagEmbed", "float32[2 3]", args{-1.0}}, {"Diag", "float32[3]", args{1.0}},
	{"Diag", "float32[3 4]", args{1.0}}, {"Tril", "~float32[3 4]", args{0.0}}, {"Triu", "bool[2 3 4]", args{-1.0}},
	{"Pad", "float32[2 3]", args{0.0, 1.5, 1.0, 2.0, -1.0, 0.0}}, {"Pad", "~float32[3 4]", args{1.0, 0.0, 2.0, 1.0, 1.0, 1.0}},
	{"Pad", "int32[3 4]", args{2.0, 0.0, 2.0, 1.0}}, {"Pad", "float32[3 4]", args{3.0, 0.0, 2.0, 1.0, 1.0, 2.0}},
	{"PadGrad", "float32[4 6]", args{0.0, 1.0, 2.0, -1.0, 0.0}}, {"PadGrad", "float32[5 7]", args{1.0, 2.0, 1.0, 1.0, 1.0}},
	{"PadGrad", "float16[5 7]", args{2.0, 2.0, 1.0, 1.0, 1.0}}, {"PadGrad", "float32[5 7]", args{3.0, 2.0, 1.0, 1.0, 1.0}},
	{"Repeat", "~float32[2 3]", args{2.0, 1.0, 3.0}}, {"Tile", "float32[2 3]", args{2.0}}, {"RepeatInterleave", "float32[2 3]", args{2.0, 1.0}},
	{"Dot", "float32[3] float32[3]", nil}, {"MV", "float32[2 3] float32[3]", nil}, {"MM", "float32[2 3] float32[3 2]", nil},
	{"BMM", "float32[2 2 3] float32[2 3 2]", nil}, {"Outer", "float32[3] int32[2]", nil},
	{"BAddBMM", "float32[2] float32[2 2 3] float32[2 3 2]", args{0.5, 2.0}},
	{"Einsum", "float32[2 3] float32[3 4] ~float32[5 4]", args{"ij,jk,kl->li"}}, {"Einsum", "float32[3 3]", args{"ii"}},
	{"Einsum", "float32[2 3]", args{"ij->ji"}}, {"Einsum", "float32[2 3 4] float32[5 1 4 3]", args{"...ij,...ji->..."}},
	{"EinsumGrad", "float32[2 4] float32[2 3] float32[3 4]", args{"ij,jk->ik", 0.0}}, {"EinsumGrad", "float32[] float32[3 3] float32[2]", args{"ii,k->", 0.0}},
	{"TensorDot", "float32[2 3 4] float32[4 3]", args{1.0, 2.0, 1.0, 0.0}},
	{"SubInPlace", "float16[2 3] float32[3]", nil}, {"MulInPlace", "float32[2 3] int32[3]", nil}, {"DivInPlace", "float32[2 3] float32[3]", nil},
	{"AddScalarInPlace", "int32[3]", args{2.0}}, {"ClampInPlace", "int32[3]", args{-1.0, 1.0}},
	{"MaskedFillInPlace", "float32[2 3] bool[3]", args{1.0}},
	{"AddCMulInPlace", "float32[2 3] float32[3] float32[]", args{2.0}}, {"AddCDivInPlace", "float32[2 3] float32[3] float32[2 1]", args{2.0}},
}

var generalRefusals = []struct {
	sample
	want refusal
}{
	{sample{"Hardtanh", "int32[2]", args{0.0, 1.0}}, "dtype"},
	{sample{"Hardtanh", "float32[2]", args{1.0, 0.0}}, "value"}, {sample{"ReLU6", "int32[2]", nil}, "dtype"},
	{sample{"RSubScalar", "bool[2]", args{1.0}}, "dtype"},
	{sample{"Lerp", "float32[2] float64[2] float32[2]", nil}, "dtype"}, {sample{"Lerp", "float32[2] float32[2] float32[3]", nil}, "shape"},
	{sample{"LerpScalar", "int32[2] int32[2]", args{1.0}}, "dtype"}, {sample{"AddCMul", "bool[2] bool[2] bool[2]", args{1.0}}, "dtype"},
	{sample{"AddCMul", "int32[2] int32[2] int32[2]", args{0.5}}, "value"}, {sample{"AddCMul", "int32[2] int32[2] int32[3]", args{1.0}}, "shape"},
	{sample{"AddCDiv", "float32[2] int32[2] int32[2]", args{1.0}}, "dtype"}, {sample{"MaskedFill", "float32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"MaskedFill", "int32[2] bool[2]", args{1.5}}, "value"}, {sample{"MaskedFill", "int32[2] bool[3]", args{1.0}}, "shape"},
	{sample{"Norm", "int32[2]", args{2.0, false}}, "dtype"}, {sample{"Norm", "float32[2]", args{2.0, false, 1.0}}, "shape"},
	{sample{"Norm", "float32[2]", args{math.NaN(), false}}, "value"}, {sample{"Norm", "float32[0]", args{math.Inf(1), false}}, "shape"},
	{sample{"LogSumExp", "int32[2]", args{false}}, "dtype"}, {sample{"LogSumExp", "float32[2]", args{false, 2.0}}, "shape"},
	{sample{"CountNonzero", "float32[2]", args{1.0}}, "shape"}, {sample{"MaxDim", "bool[2]", args{0.0, false}}, "dtype"},
	{sample{"MinDim", "float32[0]", args{0.0, false}}, "shape"}, {sample{"CumSum", "float32[2]", args{1.0}}, "shape"},
	{sample{"CumProd", "float32[2]", args{-2.0}}, "shape"}, {sample{"CumSumGrad", "int32[2]", args{0.0}}, "dtype"}, {sample{"CumProdGrad", "float32[2] float32[2] float32[3]", args{0.0}}, "shape"},
	{sample{"Sort", "float32[2]", args{1.0, false}}, "shape"}, {sample{"ArgSort", "float32[2]", args{1.0, false}}, "shape"},
	{sample{"TopK", "float32[2]", args{3.0, 0.0, true}}, "shape"}, {sample{"TopK", "float32[2]", args{1.0, 1.0, true}}, "shape"},
	{sample{"Gather", "float32[2] float32[2]", args{0.0}}, "dtype"}, {sample{"Gather", "float32[2 2] int64[3 1]", args{1.0}}, "shape"},
	{sample{"Gather", "float32[2 2] int64[2]", args{0.0}}, "shape"}, {sample{"ScatterInPlace", "float32[2] int64[2] float64[2]", args{0.0}}, "dtype"},
	{sample{"ScatterInPlace", "float32[2] int64[2] float32[1]", args{0.0}}, "shape"}, {sample{"Flip", "float32[2]", args{0.0, 0.0}}, "shape"},
	{sample{"Roll", "float32[2]", args{1.0, 1.0}}, "shape"}, {sample{"Roll", "float32[2 2]", args{1.0, 1.0, 0.0}}, "value"},
	{sample{"Split", "float32[2]", args{0.0, 0.0}}, "value"}, {sample{"Split", "float32[]", args{1.0, 0.0}}, "shape"},
	{sample{"SplitSizes", "float32[2]", args{0.0, 1.0}}, "shape"}, {sample{"SplitSizes", "float32[2]", args{0.0, 3.0, -1.0}}, "value"},
	{sample{"Chunk", "float32[2]", args{0.0, 0.0}}, "value"}, {sample{"Unbind", "float32[]", args{0.0}}, "shape"}, {sample{"MoveDim", "float32[2 2]", args{0.0, 2.0}}, "shape"},
	{sample{"SwapAxes", "float32[2 2]", args{0.0, 2.0}}, "shape"}, {sample{"Diagonal", "float32[2 2]", args{0.0, 1.0, -1.0}}, "shape"},
	{sample{"DiagEmbed", "float32[]", args{0.0}}, "shape"}, {sample{"Diag", "float32[2 2 2]", args{0.0}}, "shape"}, {sample{"Tril", "float32[2]", args{0.0}}, "shape"},
	{sample{"Triu", "float32[]", args{0.0}}, "shape"}, {sample{"Pad", "float32[2]", args{0.0, 0.0, 1.0}}, "shape"},
	{sample{"Pad", "float32[2]", args{1.0, 0.0, 2.0, 0.0}}, "shape"}, {sample{"Pad", "float32[2]", args{9.0, 0.0, 1.0, 0.0}}, "value"},
	{sample{"Pad", "float32[2]", args{0.0, 0.0, -1.0, -2.0}}, "shape"}, {sample{"PadGrad", "float32[2]", args{1.0, 2.0, 1.0}}, "shape"},
	{sample{"PadGrad", "int32[4]", args{0.0, 1.0, 1.0}}, "dtype"}, {sample{"Repeat", "float32[2 2]", args{1.0}}, "shape"},
	{sample{"Repeat", "float32[2 2]", args{1.0, -1.0}}, "value"}, {sample{"Tile", "float32[2 2]", args{-1.0}}, "value"},
	{sample{"RepeatInterleave", "float32[2]", args{-1.0, 0.0}}, "value"}, {sample{"Repeat", "float32[4]", args{float64(1 << 62)}}, "shape"}, {sample{"RepeatInterleave", "float32[]", args{1.0, 0.0}}, "shape"},
	{sample{"Dot", "float32[2] float32[3]", nil}, "shape"}, {sample{"Dot", "float32[2] float64[2]", nil}, "dtype"}, {sample{"MV", "float32[2] float32[2]", nil}, "shape"},
	{sample{"MM", "float32[2 3] float32[2 3]", nil}, "shape"}, {sample{"BMM", "float32[2 2 3] float32[1 3 2]", nil}, "shape"},
	{sample{"BMM", "int32[2 2 3] int32[2 3 2]", nil}, "dtype"}, {sample{"Outer", "float32[2 1] float32[2]", nil}, "shape"},
	{sample{"BAddBMM", "float32[3] float32[2 2 3] float32[2 3 2]", args{1.0, 1.0}}, "shape"},
	{sample{"BAddBMM", "float32[2] float32[2 3] float32[3 2]", args{1.0, 1.0}}, "shape"},
	{sample{"Einsum", "float32[2 3] float32[2 3]", args{"ij,jk->ik"}}, "shape"}, {sample{"Einsum", "int32[2]", args{"i"}}, "dtype"},
	{sample{"Einsum", "float32[2]", args{"ij"}}, "shape"}, {sample{"Einsum", "float32[2]", args{"i,j"}}, "value"}, {sample{"Einsum", "float32[2]", args{"i->j"}}, "value"},
	{sample{"Einsum", "float32[2]", args{"i->ii"}}, "value"}, {sample{"Einsum", "float32[2]", args{"1"}}, "value"},
	{sample{"EinsumGrad", "float32[3] float32[2]", args{"i->i", 0.0}}, "shape"}, {sample{"TensorDot", "float32[2 3] float32[2 3]", args{1.0, 0.0}}, "shape"},
	{sample{"TensorDot", "float32[2 3] float32[2 3]", args{2.0, 0.0}}, "shape"}, {sample{"TensorDot", "float32[2 3] float32[2 3]", args{0.0, -3.0}}, "shape"},
	{sample{"TensorDot", "float32[2 3] float64[2 3]", args{0.0, 0.0}}, "dtype"}, {sample{"TensorDot", "float32[2 2] float32[2 2]", args{0.0, 0.0, 0.0, 1.0}}, "shape"},
	{sample{"SubInPlace", "int32[2] float32[2]", nil}, "dtype"}, {sample{"MulInPlace", "float32[2] float32[3]", nil}, "shape"},
	{sample{"DivInPlace", "int32[2] int32[2]", nil}, "dtype"}, {sample{"AddScalarInPlace", "int32[2]", args{0.5}}, "value"},
	{sample{"ClampInPlace", "int32[2]", args{0.5, 1.0}}, "value"},
	{sample{"MaskedFillInPlace", "float32[2] bool[3]", args{1.0}}, "shape"},
	{sample{"AddCMulInPlace", "float32[2] float32[2] float64[2]", args{1.0}}, "dtype"}, {sample{"AddCDivInPlace", "float32[2] float32[2] float32[3]", args{1.0}}, "shape"},
}

func init() {
	maps.Copy(operations, generalOperations)
	samples = append(samples, generalSamples...)
	refusals = append(refusals, generalRefusals...)
	for _, name := range []string{"Split", "SplitSizes", "Chunk", "Unbind", "MoveDim", "SwapAxes", "Diagonal"} {
		isView[name] = true
	}
}
