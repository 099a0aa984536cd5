package tensor_test

import (
	"maps"
	"math"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// The functions that take results of other functions, with these as inputs: so that each operand can be of a wrong type or
// shape or on another device. The operations of the same names without "given", which the golden files use, compute them first.

func init() {
	maps.Copy(operations, givenOperations)
	samples = append(samples, givenSamples...)
	refusals = append(refusals, givenRefusals...)
}

var givenOperations = map[string]operation{
	"SoftmaxGrad given": func(in tensors, a args) (*tensor.Tensor, error) { return gradients.Softmax(in[0], in[1], a.int(0)) },
	"LogSoftmaxGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.LogSoftmax(in[0], in[1], a.int(0))
	},
	"AttentionForward": func(in tensors, a args) (*tensor.Tensor, error) {
		return secondOf(gradients.AttentionForward(in[0], in[1], in[2], attention(in[3:], a)))
	},
	"AttentionBlocks": func(in tensors, a args) (*tensor.Tensor, error) {
		n, err := tensor.AttentionBlocks(in[0], in[1], in[2], attention(nil, a))
		if err != nil {
			return nil, err
		}
		return tensor.Scalar(in[0].Exec(), float64(n), tensor.Int64)
	},
	"AttentionGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		withMask := len(a) > 3 && a.bool(3)
		g, err := gradients.Attention(in[0], in[1], in[2], optional(in, 3), optional(in, 4), optional(in, 5), attention(from(in, 6), a), withMask)
		if err != nil {
			return nil, err
		}
		defer g.Release()
		if g.Mask != nil {
			return g.Mask.Retain(), nil
		}
		return g.Q.Retain(), nil
	},
	"AttentionGradInto given": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		g := training.Attention[*tensor.Tensor]{Q: t, K: in[1], V: in[2]}
		return gradients.AttentionInto(g, in[3], in[4], in[5], in[6], in[7], in[8], attention(in[9:], a))
	}),
	"CrossEntropyGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.CrossEntropy(in[0], in[1], in[2], optional(in, 3), classLoss(from(in, 4), a))
	},
	"CrossEntropyGradInPlace given": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return gradients.CrossEntropyInPlace(t, in[1], in[2], in[3], classLoss(from(in, 4), a))
	}),
	"EmbeddingBagGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.EmbeddingBag(in[0], in[1], in[2], optional(in, 3), a.int(0), tensor.BagMode(a.int(1)), a.int(2))
	},
	"LayerNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.LayerNorm(in[0], in[1], a.ints(0), given(in), optional(in, 4))
	},
	"LayerNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.LayerNormSums(in[0], in[1], a.ints(0), given(in)))
	},
	"GroupNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.GroupNorm(in[0], in[1], a.int(0), given(in), optional(in, 4))
	},
	"GroupNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.GroupNormSums(in[0], in[1], a.int(0), given(in)))
	},
	"BatchNorm given": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.BatchNorm(in[0], tensor.Moments{Rstd: in[1], Mean: in[2]}, optional(in, 3), optional(in, 4))
	},
	"BatchNormSums given": func(in tensors, a args) (*tensor.Tensor, error) {
		return stacked(gradients.BatchNormSums(in[0], in[1], given(in)))
	},
	"BatchNormGrad given": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.BatchNorm(in[0], in[1], given(in), optional(in, 4), optional(in, 5), optional(in, 6))
	},
}

// from are the inputs from i on.
func from(in tensors, i int) tensors { return in[min(i, len(in)):] }

// given are the moments among the inputs of a gradient: input 2 and, unless it is of an RMS norm, 3.
func given(in tensors) tensor.Moments { return tensor.Moments{Rstd: in[2], Mean: optional(in, 3)} }

var givenSamples = []sample{
	{"SoftmaxGrad given", "float32[2 3] ~float32[3 2]", args{0.0}},
	{"LogSoftmaxGrad given", "float32[2 3] float32[2 3]", args{1.0}},
	{"AttentionForward", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", nil},
	{"AttentionForward", "float16[5 4] float16[6 4] float16[6 4] bool[5 6]", nil},
	{"AttentionBlocks", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", args{0.5, false, false}},
	{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", args{0.5, true, false, false}},
	{"AttentionGrad given", "float16[5 2] float16[5 4] float16[6 4] float16[6 2] float16[5 2] float32[1 1 5] bool[5 6]", nil},
	{"AttentionGrad given", "float32[3 5 2] float32[3 5 4] float32[3 6 4] float32[3 6 2] float32[3 5 2] float32[1 3 5] float32[5 6]",
		args{0.0, false, false, true}},
	{"AttentionGradInto given", "float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil},
	{"CrossEntropyGrad given", "float32[4] float16[4 2] int64[4] float32[2 4] float16[2]", nil},
	{"CrossEntropyGrad given", "float32[4] float32[4 2] int64[4] float32[2 4]", args{0.0}},
	{"CrossEntropyGrad given", "float64[4] ~float64[2 4] int64[4] float64[2 4] float64[2]", args{0.1}},
	{"CrossEntropyGradInPlace given", "float32[4 2] float32[4] int64[4] float32[2 4]", args{0.1}},
	{"CrossEntropyGradInPlace given", "float32[4 2] float32[4] int64[4] float32[2 4] float32[2]", nil},
	{"EmbeddingBagGrad given", "float32[2 3] int64[4] int32[2]", args{2.0, 0.0, 1.0}},
	{"EmbeddingBagGrad given", "~float32[3 2] int64[4] int64[2] int64[2]", args{2.0, 1.0, -1.0}},
	{"EmbeddingBagGrad given", "float32[2 3] int32[4] int64[2] int64[2 3]", args{2.0, 2.0, -1.0}},
	{"LayerNormGrad given", "float32[2 3] ~float32[3 2] float32[2] float32[2] float32[3]", args{3.0}},
	{"LayerNormGrad given", "float16[2 3] float16[2 3] float32[2]", args{3.0}},
	{"LayerNormSums given", "float32[2 3] float32[2 3] float32[2] float32[2]", args{3.0}},
	{"GroupNormGrad given", "float32[2 4 3] float32[2 4 3] float32[4] float32[4] float32[4]", args{2.0}},
	{"GroupNormSums given", "float32[2 4 3] float32[2 4 3] float32[4] float32[4]", args{2.0}},
	{"BatchNorm given", "float32[4 3 2] float32[3] float32[3] float32[3] float32[3]", nil},
	{"BatchNormSums given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3]", nil},
	{"BatchNormSums given", "~bfloat16[3 4] bfloat16[4 3] float32[3] float32[3]", nil},
	{"BatchNormGrad given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3] float32[3] float32[3] float32[3]", nil},
	{"BatchNormGrad given", "float32[4 3 2] float32[4 3 2] float32[3] float32[3] float32[3]", nil},
}

var givenRefusals = []struct {
	sample
	want refusal
}{
	{sample{"SoftmaxGrad given", "float32[2 3] float32[3 2]", args{0.0}}, "shape"}, {sample{"SoftmaxGrad given", "float32[2] float32[2]", args{1.0}}, "shape"},
	{sample{"SoftmaxGrad given", "float32[2] float64[2]", args{0.0}}, "dtype"},
	{sample{"LogSoftmaxGrad given", "float32[2 3] float32[2]", args{0.0}}, "shape"},
	{sample{"LogSoftmaxGrad given", "int32[2] int32[2]", args{0.0}}, "dtype"},

	{sample{"AttentionForward", "float32[5 4] float32[6 3] float32[6 4]", nil}, "shape"},
	{sample{"AttentionForward", "float32[5 4] float64[6 4] float32[6 4]", nil}, "dtype"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4] float32[6 5]", nil}, "shape"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4] uint8[5 6]", nil}, "dtype"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4]", args{-0.5, false, false}}, "value"},
	{sample{"AttentionBlocks", "float32[5 4] float32[6 4] float32[5 4]", nil}, "shape"},
	{sample{"AttentionBlocks", "float32[5 4] float32[6 4] float16[6 4]", nil}, "dtype"},
	{sample{"AttentionBlocks", "float32[5 4] float32[6 4] float32[6 4]", args{math.NaN(), false, false}}, "value"},
	{sample{"AttentionGrad given", "float32[5 3] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[4 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float64[1 1 5]", nil}, "dtype"},
	{sample{"AttentionGrad given", "float16[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "dtype"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", args{0.0, false, false, true}}, "value"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5] bool[5 6]", args{0.0, false, false, true}}, "value"},
	{sample{"AttentionGradInto given", "float32[4 4] float32[6 4] float32[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGradInto given", "float32[5 4] float32[6 4] float64[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "dtype"},
	{sample{"CrossEntropyGrad given", "float64[2] float32[2 3] int64[2] float32[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGrad given", "float32[3] float32[2 3] int64[2] float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float64[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] ~float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGrad given", "float32[2] float32[2 3] int64[2] float32[2 2] float32[2]", nil}, "shape"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float32[1] int64[2] float32[2 2]", nil}, "shape"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float16[2] int64[2] float32[2 2]", nil}, "dtype"},
	{sample{"CrossEntropyGradInPlace given", "float32[2 3] float32[2] int64[2] float32[2 2]", args{2.0}}, "value"},

	{sample{"EmbeddingBagGrad given", "float32[3 3] int64[4] int64[2]", args{2.0, 0.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int64[3]", args{2.0, 1.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int32[2]", args{2.0, 1.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2] int64[2]", args{2.0, 2.0, -1.0}}, "shape"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] float32[4] int64[2]", args{2.0, 0.0, -1.0}}, "dtype"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2]", args{-1.0, 0.0, -1.0}}, "value"},
	{sample{"EmbeddingBagGrad given", "float32[2 3] int64[4] int64[2]", args{2.0, -1.0, -1.0}}, "value"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[3] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[2] int64[2]", args{3.0}}, "dtype"},
	{sample{"LayerNormGrad given", "float32[3 3] float32[2 3] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormGrad given", "float32[2 3] float32[2 3] float32[2] float32[2] float32[2]", args{3.0}}, "shape"},
	{sample{"LayerNormSums given", "float32[2 3] float64[2 3] float32[2]", args{3.0}}, "dtype"},
	{sample{"LayerNormSums given", "float32[2 3] float32[2 3] float32[2]", args{2.0}}, "shape"},
	{sample{"GroupNormGrad given", "float32[2 4] float32[2 4] float32[4] float32[4]", args{3.0}}, "shape"},
	{sample{"GroupNormGrad given", "float32[2 4] float32[2 4] float32[4] float32[4] float16[4]", args{2.0}}, "dtype"},
	{sample{"GroupNormSums given", "float32[2 4] float32[2 4] float32[4] float32[2]", args{2.0}}, "shape"},
	{sample{"GroupNormSums given", "float32[2 4] float32[2 4] bool[4] float32[4]", args{2.0}}, "dtype"},
	{sample{"BatchNorm given", "float32[4 3] float32[4] float32[3]", nil}, "shape"}, {sample{"BatchNorm given", "float32[4 3] float32[3] int32[3]", nil}, "dtype"},
	{sample{"BatchNorm given", "float32[4 3] float32[3] float32[3] float32[4]", nil}, "shape"},
	{sample{"BatchNormSums given", "float32[4 3] float32[4 2] float32[2] float32[2]", nil}, "shape"},
	{sample{"BatchNormSums given", "int32[4 3] int32[4 3] float32[3] float32[3]", nil}, "dtype"},
	{sample{"BatchNormGrad given", "float32[4 3] float32[4 3] float32[3] float32[3] float32[3] float32[2] float32[3]", nil}, "shape"},
	{sample{"BatchNormGrad given", "float32[4 3] float32[4 3] float32[3] float32[3] float32[3] float32[3] int64[3]", nil}, "dtype"},
	{sample{"BatchMoments running", "float32[4 3] float32[3] float32[4]", args{1e-5, 0.1}}, "shape"},
	{sample{"BatchMoments running", "float32[4 3] float32[3] float64[3]", args{1e-5, 0.1}}, "dtype"},
	{sample{"BatchMoments", "int32[4 3]", args{1e-5}}, "dtype"},
}
