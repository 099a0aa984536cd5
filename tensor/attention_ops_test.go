package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Attention.

func init() { register(attentionOperations, attentionSamples, attentionRefusals) }

var attentionOperations = map[string]operation{
	"ScaledDotProductAttention": func(in tensors, a args) (*tensor.Tensor, error) {
		return tensor.ScaledDotProductAttention(in[0], in[1], in[2], attention(in[3:], a))
	},
	"AttentionGrad": attentionGrad,
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
	"AttentionGradInto": attentionGradInto,
	"AttentionGradInto given": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		g := training.Attention[*tensor.Tensor]{Q: t, K: in[1], V: in[2]}
		return gradients.AttentionInto(g, in[3], in[4], in[5], in[6], in[7], in[8], attention(in[9:], a))
	}),
	"AttentionForward": func(in tensors, a args) (*tensor.Tensor, error) {
		return secondOf(gradients.AttentionForward(in[0], in[1], in[2], attention(in[3:], a)))
	},
	"RotaryEmbedding": func(in tensors, a args) (*tensor.Tensor, error) {
		return in[0].RotaryEmbedding(in[1], in[2], tensor.RotaryPairs(a.int(0)))
	},
	"AttentionBlocks": func(in tensors, a args) (*tensor.Tensor, error) {
		n, err := tensor.AttentionBlocks(in[0], in[1], in[2], attention(nil, a))
		if err != nil {
			return nil, err
		}
		return tensor.Scalar(in[0].Exec(), float64(n), tensor.Int64)
	},
}

var attentionSamples = []sample{
	{"ScaledDotProductAttention", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", args{0.0, false, false}},
	{"ScaledDotProductAttention", "float16[5 4] float16[6 4] float16[6 4] bool[5 6]", args{0.5, false, false}},
	{"ScaledDotProductAttention", "float32[2 1 4 5 4] ~float32[3 1 2 6 4] float32[2 6 2] float64[1 6]", args{0.0, false, true}},
	{"ScaledDotProductAttention", "float64[2 3 5 4] float64[6 4] float64[3 6 4]", args{0.25, true, false}},
	{"ScaledDotProductAttention", "float16[2 3 5 4] float16[2 3 6 4] float16[2 3 6 2]", args{0.0, false, false, false, true}},
	{"ScaledDotProductAttention", "float32[6 4] float32[5 4] float32[5 4]", args{0.5, false, false, false, true}},
	{"ScaledDotProductAttention", "float32[3 1 4] float32[3 6 4] float32[3 6 2]", args{0.0, false, false, false, true}},
	{"AttentionGrad", "float32[5 2] float32[5 4] float32[6 4] float32[6 2]", args{0.5, true, false}},
	{"AttentionGrad", "float32[5 2] float32[5 4] float32[6 4] float32[6 2]", args{0.0, false, false, false, true}},
	{"AttentionGrad", "float32[2 3 5 2] float32[2 3 5 4] float32[3 6 4] float32[2 3 6 2] float32[5 6]", args{0.0, false, false}},
	{"AttentionGrad", "float16[2 2 3 5 2] float16[2 2 3 5 4] float16[1 2 1 6 4] float16[2 1 1 6 2] bool[6]", args{0.0, false, true}},
	{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", args{0.5, true, false}},
	{"AttentionGrad given", "float16[5 2] float16[5 4] float16[6 4] float16[6 2] float16[5 2] float32[1 1 5] bool[5 6]", nil},
	{"AttentionGrad given", "float32[3 5 2] float32[3 5 4] float32[3 6 4] float32[3 6 2] float32[3 5 2] float32[1 3 5] float32[5 6]",
		args{0.0, false, false, true}},
	{"AttentionGradInto", "float32[2 3 5 4] float32[2 3 5 4] float32[2 3 5 4] float32[2 3 5 4]", args{0.0, true, false}},
	{"AttentionGradInto", "float32[5 4] float32[5 4] float32[5 4] float32[5 4] float64[5 5]", args{0.0, false, false}},
	{"AttentionGradInto given", "float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil},
	{"AttentionForward", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", nil},
	{"AttentionForward", "float16[5 4] float16[6 4] float16[6 4] bool[5 6]", nil},
	{"RotaryEmbedding", "float32[2 3 4] float32[3 2] float32[3 2]", args{0.0}},
	{"RotaryEmbedding", "float16[2 3 6] float32[2 1 2] float64[2 1 2]", args{0.0}},
	{"RotaryEmbedding", "~float32[3 3 4] float32[3 2] float32[3 2]", args{1.0}},
	{"RotaryEmbedding", "float64[3 5] float64[1] float64[1]", args{1.0}},
	{"AttentionBlocks", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", args{0.5, false, false}},
}

var attentionRefusals = []refused{
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
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4] bool[5 6]", args{0.0, false, false, false, true}}, "value"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4]", args{0.0, true, false, false, true}}, "value"},
	{sample{"ScaledDotProductAttention", "float32[5 4] float32[6 4] float32[6 4]", args{1.5, false, false}}, "value"},
	{sample{"AttentionGrad given", "float32[5 3] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[4 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[5]", nil}, "shape"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float64[1 1 5]", nil}, "dtype"},
	{sample{"AttentionGrad given", "float16[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "dtype"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", args{0.0, false, false, true}}, "value"},
	{sample{"AttentionGrad given", "float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5] bool[5 6]", args{0.0, false, false, true}}, "value"},
	{sample{"AttentionGradInto given", "float32[4 4] float32[6 4] float32[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "shape"},
	{sample{"AttentionGradInto given", "float32[5 4] float32[6 4] float64[6 2] float32[5 2] float32[5 4] float32[6 4] float32[6 2] float32[5 2] float32[1 1 5]", nil}, "dtype"},
	{sample{"AttentionForward", "float32[5 4] float32[6 3] float32[6 4]", nil}, "shape"},
	{sample{"AttentionForward", "float32[5 4] float64[6 4] float32[6 4]", nil}, "dtype"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4] float32[6 5]", nil}, "shape"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4] uint8[5 6]", nil}, "dtype"},
	{sample{"AttentionForward", "float32[5 4] float32[6 4] float32[6 4]", args{-0.5, false, false}}, "value"},
	{sample{"RotaryEmbedding", "float32[2 3] float32[2 2] float32[2 2]", args{0.0}}, "shape"},
	{sample{"RotaryEmbedding", "float32[2 4] float32[2 2] float32[2]", args{0.0}}, "shape"},
	{sample{"RotaryEmbedding", "float32[2 4] float32[3 2] float32[3 2]", args{0.0}}, "shape"},
	{sample{"RotaryEmbedding", "float32[2 4] float32[1 2 2] float32[1 2 2]", args{0.0}}, "shape"},
	{sample{"RotaryEmbedding", "float32[] float32[1] float32[1]", args{0.0}}, "shape"},
	{sample{"RotaryEmbedding", "float32[2 4] float32[2 2] float32[2 2]", args{2.0}}, "value"},
	{sample{"RotaryEmbedding", "float32[2 4] int64[2 2] float32[2 2]", args{0.0}}, "dtype"},
	{sample{"RotaryEmbedding", "int64[2 4] float32[2 2] float32[2 2]", args{0.0}}, "dtype"},
	{sample{"AttentionBlocks", "float32[5 4] float32[6 4] float32[5 4]", nil}, "shape"},
	{sample{"AttentionBlocks", "float16[5 4] float32[6 4] float32[6 4]", nil}, "dtype"},
	{sample{"AttentionBlocks", "float32[5 4] float32[6 4] float32[6 4]", args{math.NaN(), false, false}}, "value"},
}

// attention has the probability of dropout and the flags IsCausal, EnableGQA and perhaps IsCausalLowerRight as arguments, and perhaps a mask.
func attention(mask tensors, a args) tensor.Attention {
	o := tensor.Attention{Random: tensor.GeneratorState{Seed: 7, Offset: 3}}
	if len(a) > 2 {
		o.DropoutP, o.IsCausal, o.EnableGQA = a.float(0), a.bool(1), a.bool(2)
	}
	if len(a) > 4 { // the argument before is that of AttentionGrad
		o.IsCausalLowerRight = a.bool(4)
	}
	if len(mask) > 0 {
		o.Mask = mask[0]
	}
	return o
}

// attentionGrad takes the gradient before the operands, and gives that of the mask, if it is added, else that of the keys.
func attentionGrad(in tensors, a args) (*tensor.Tensor, error) {
	if len(in) < 4 {
		in = append(in, in[0])
	}
	o := attention(in[4:], a)
	out, lse, err := gradients.AttentionForward(in[1], in[2], in[3], o)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	defer lse.Release()
	g, err := gradients.Attention(in[0], in[1], in[2], in[3], out, lse, o, len(in) > 4 && in[4].DType().IsFloat())
	if err != nil {
		return nil, err
	}
	defer g.Release()
	if g.Mask != nil {
		return g.Mask.Retain(), nil
	}
	return g.K.Retain(), nil
}

// attentionGradInto gives the gradients of the operands side by side, for queries and keys of one shape.
func attentionGradInto(in tensors, a args) (*tensor.Tensor, error) {
	if len(in) < 4 {
		in = append(in, in[0])
	}
	o := attention(in[4:], a)
	out, lse, err := gradients.AttentionForward(in[1], in[2], in[3], o)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	defer lse.Release()
	all, err := tensor.Empty(in[1].Exec(), in[1].DType(), append([]int{3}, in[1].Shape()...)...)
	if err != nil {
		return nil, err
	}
	var g training.Attention[*tensor.Tensor]
	defer g.Release()
	for i, to := range []**tensor.Tensor{&g.Q, &g.K, &g.V} {
		if *to, err = all.Select(0, i); err != nil {
			break
		}
	}
	if err == nil {
		err = gradients.AttentionInto(g, in[0], in[1], in[2], in[3], out, lse, o)
	}
	if err != nil {
		all.Release()
		return nil, err
	}
	return all, nil
}
