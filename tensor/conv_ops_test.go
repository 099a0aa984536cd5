package tensor_test

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Convolutions, pooling and resampling.

func init() { register(convOperations, convSamples, convRefusals) }

var convOperations = map[string]operation{
	"Conv1d": convolution(tensor.Conv1d), "Conv2d": convolution(tensor.Conv2d), "ConvTranspose1d": transposed(tensor.ConvTranspose1d),
	"ConvTranspose2d": transposed(tensor.ConvTranspose2d),
	"ConvGradInput": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvInput(in[0], in[1], a.ints(4), conv(a))
	},
	"ConvGradWeight": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvWeight(in[0], in[1], a.ints(4), conv(a))
	},
	"ConvTransposeGradInput": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvTransposeInput(in[0], in[1], a.ints(4), transpose(a))
	},
	"ConvTransposeGradWeight": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.ConvTransposeWeight(in[0], in[1], a.ints(4), transpose(a))
	},
	"MaxPool1d": pooled((*tensor.Tensor).MaxPool1d), "MaxPool2d": pooled((*tensor.Tensor).MaxPool2d),
	"AvgPool1d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AvgPool1d(pool(a)) },
	"AvgPool2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AvgPool2d(pool(a)) },
	"AdaptiveMaxPool1d": func(in tensors, a args) (*tensor.Tensor, error) {
		return firstOf(in[0].AdaptiveMaxPool1d(a.int(0)))
	},
	"AdaptiveMaxPool2d": func(in tensors, a args) (*tensor.Tensor, error) {
		return firstOf(in[0].AdaptiveMaxPool2d(a.ints(0)...))
	},
	"AdaptiveAvgPool1d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AdaptiveAvgPool1d(a.int(0)) },
	"AdaptiveAvgPool2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].AdaptiveAvgPool2d(a.ints(0)...) },
	"MaxPoolGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.MaxPool(in[0], in[1], a.ints(4), a.int(3), pool(a))
	},
	"MaxPoolPick": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.MaxPoolPick(in[0], in[1], a.int(3), pool(a))
	},
	"AvgPoolGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.AvgPool(in[0], a.ints(4), a.int(3), pool(a))
	},
	"UpsampleNearest2d":  func(in tensors, a args) (*tensor.Tensor, error) { return in[0].UpsampleNearest2d(resized(a)) },
	"UpsampleBilinear2d": func(in tensors, a args) (*tensor.Tensor, error) { return in[0].UpsampleBilinear2d(resized(a)) },
	"UpsampleNearest2dGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.UpsampleNearest2d(in[0], a.ints(2), resized(a))
	},
	"UpsampleBilinear2dGrad": func(in tensors, a args) (*tensor.Tensor, error) {
		return gradients.UpsampleBilinear2d(in[0], a.ints(2), resized(a))
	},
}

var convSamples = []sample{
	{"Conv1d", "float32[2 3 7] float32[4 3 3] float32[4]", args{1.0, 1.0, 1.0, 1.0}},
	{"Conv1d", "~float32[7 3] float32[4 3 3]", args{2.0, 1.0, 1.0, 1.0}},
	{"Conv2d", "float16[2 4 5 6] float16[6 2 3 3] float16[6]", args{1.0, 1.0, 1.0, 2.0}},
	{"Conv2d", "float64[4 5 6] float64[3 4 2 2]", args{2.0, 0.0, 2.0, 1.0}},
	{"ConvTranspose1d", "float32[2 3 7] float32[3 4 3] float32[4]", args{2.0, 1.0, 1.0, 1.0}},
	{"ConvTranspose2d", "float32[2 4 3 2] float32[4 2 3 3]", args{2.0, 0.0, 0.0, 2.0}},
	{"ConvGradInput", "float32[2 6 5 6] float32[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0, 6.0}},
	{"ConvGradInput", "float32[4 7] float32[4 3 3]", args{1.0, 1.0, 1.0, 1.0, 3.0, 7.0}},
	{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}},
	{"ConvTransposeGradInput", "float32[2 4 14] float32[3 4 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}},
	{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 3 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}},
	{"MaxPool1d", "float32[2 3 7]", args{3.0, 2.0, 1.0}}, {"MaxPool2d", "bfloat16[3 6 7]", args{2.0, 2.0, 0.0}},
	{"MaxPool2d", "float32[2 1 20 20]", args{17.0, 1.0, 0.0}}, {"AvgPool1d", "float32[2 3 7]", args{3.0, 2.0, 1.0}},
	{"AvgPool2d", "float32[2 3 6 7]", args{3.0, 2.0, 1.0}}, {"AdaptiveMaxPool1d", "float32[2 3 7]", args{3.0}},
	{"AdaptiveMaxPool2d", "float32[2 3 7 6]", args{3.0, 4.0}}, {"AdaptiveAvgPool1d", "float32[3 7]", args{3.0}},
	{"AdaptiveAvgPool2d", "float32[2 3 7 6]", args{1.0}},
	{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}},
	{"MaxPoolPick", "float32[2 3 7] uint8[2 3 4]", args{3.0, 2.0, 1.0, 1.0}},
	{"MaxPoolPick", "float32[2 3 7 8] uint8[2 3 4 4]", args{3.0, 2.0, 1.0, 2.0}},
	{"MaxPoolGrad", "float32[2 3 4 4] uint8[2 3 4 4]", args{3.0, 2.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0}},
	{"AvgPoolGrad", "float32[2 3 4 4]", args{3.0, 2.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0}},
	{"UpsampleNearest2d", "float32[2 3 4 5]", args{1.5, false}}, {"UpsampleBilinear2d", "float64[2 3 4 5]", args{2.0, true}},
	{"UpsampleNearest2dGrad", "float32[2 3 6 7]", args{1.5, false, 2.0, 3.0, 4.0, 5.0}},
	{"UpsampleBilinear2dGrad", "float16[2 3 8 10]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}},
}

var convRefusals = []refused{
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{0.0, 1.0, 1.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, -1.0, 1.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, 1.0, 0.0, 1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3]", args{1.0, 1.0, 1.0, -1.0}}, "value"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 2 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3] float64[4]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"Conv2d", "float32[2 3 5 5] float64[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"Conv2d", "int32[2 3 5 5] int32[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 2 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 4 5 5] float32[5 2 3 3]", args{1.0, 1.0, 1.0, 2.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[5 5] float32[4 3 3 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[4 3 3 3] float32[3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 2 5] float32[4 3 3 3]", args{1.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv2d", "float32[2 3 5 5] float32[0 3 3 3]", args{1.0, 0.0, 1.0, 1.0}}, "shape"},
	{sample{"ConvTranspose1d", "float32[2 4 1] float32[4 3 1]", args{1.0, 1.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvTranspose1d", "float32[2 4 1] float32[4 3 1] float32[4]", args{1.0, 0.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvTranspose1d", "float32[2 4 5] float16[4 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "dtype"},
	{sample{"ConvTranspose2d", "float32[2 3 5 5] float32[4 3 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "shape"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{2.0, 0.0, 2.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{0.0, 0.0, 0.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, -1.0, 0.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, 0.0, -1.0, 1.0}}, "value"},
	{sample{"ConvTranspose2d", "float32[2 4 5 5] float32[4 3 3 3]", args{1.0, 0.0, 0.0, -1.0}}, "value"},
	{sample{"ConvTranspose2d", "int32[2 4 5 5] int32[4 3 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "dtype"},
	{sample{"ConvGradInput", "float32[2 6 5 6] float32[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0, 6.0}}, "shape"},
	{sample{"ConvGradInput", "float32[2 6 5] float32[6 2]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0}}, "shape"},
	{sample{"ConvGradInput", "float32[2 6 5 6] float64[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0, 6.0}}, "dtype"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 3.0, 3.0, 3.0}}, "shape"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[3 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}}, "shape"},
	{sample{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0}}, "shape"},
	{sample{"ConvGradWeight", "bool[2 6 5 6] bool[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}}, "dtype"},
	{sample{"ConvTransposeGradInput", "float32[2 4 14] float32[3 5 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "shape"},
	{sample{"ConvTransposeGradInput", "float32[2 4 14] float16[3 4 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 5 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "shape"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float64[2 3 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "dtype"},
	{sample{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 3 7]", args{0.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}}, "value"},
	{sample{"MaxPool1d", "float32[2 3 5]", args{0.0, 2.0, 0.0}}, "value"},
	{sample{"MaxPool2d", "int64[2 3 5 5]", args{2.0, 2.0, 0.0}}, "dtype"}, {sample{"MaxPool2d", "float32[5 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 0 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 1 5]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"MaxPool2d", "float32[2 3 5 5]", args{2.0, 2.0, 2.0}}, "value"}, {sample{"AvgPool1d", "float32[3]", args{2.0, 2.0, 0.0}}, "shape"},
	{sample{"AvgPool1d", "int64[2 3 5]", args{2.0, 2.0, 0.0}}, "dtype"}, {sample{"AvgPool1d", "float32[2 3 5]", args{2.0, 2.0, 2.0}}, "value"},
	{sample{"AvgPool2d", "float32[2 3 5 5]", args{2.0, 0.0, 0.0}}, "value"},
	{sample{"AdaptiveMaxPool1d", "float32[3 2 2 5]", args{2.0}}, "shape"}, {sample{"AdaptiveMaxPool1d", "int32[2 3 5]", args{2.0}}, "dtype"},
	{sample{"AdaptiveMaxPool1d", "float32[2 3 5]", args{-1.0}}, "value"}, {sample{"AdaptiveMaxPool2d", "float32[2 3 0 5]", args{2.0}}, "shape"},
	{sample{"AdaptiveMaxPool2d", "bool[2 3 5 5]", args{2.0}}, "dtype"}, {sample{"AdaptiveMaxPool2d", "float32[2 3 5 5]", nil}, "value"},
	{sample{"AdaptiveAvgPool1d", "float32[2 3 5]", args{-1.0}}, "value"}, {sample{"AdaptiveAvgPool1d", "float32[5]", args{1.0}}, "shape"},
	{sample{"AdaptiveAvgPool2d", "float32[2 3 5 5]", args{1.0, 2.0, 3.0}}, "value"},
	{sample{"AdaptiveAvgPool2d", "uint8[2 3 5 5]", args{1.0}}, "dtype"},
	{sample{"MaxPoolPick", "float32[2 3 7] int32[2 3 4]", args{3.0, 2.0, 1.0, 1.0}}, "dtype"},
	{sample{"MaxPoolPick", "float32[2 3 7] uint8[2 3 4]", args{3.0, 2.0, 3.0, 1.0}}, "value"},
	{sample{"MaxPoolPick", "float32[2 3 7 8] uint8[2 3 4 4]", args{3.0, 2.0, 1.0, 3.0}}, "value"},
	{sample{"MaxPoolPick", "float32[2 3 7] uint8[2 3 3]", args{3.0, 2.0, 1.0, 1.0}}, "shape"},
	{sample{"MaxPoolGrad", "float32[2 3 4] int32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 4]", args{3.0, 2.0, 1.0, 3.0, 2.0, 3.0, 7.0}}, "value"},
	{sample{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 3]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "shape"},
	{sample{"AvgPoolGrad", "float32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 9.0}}, "shape"},
	{sample{"AvgPoolGrad", "int32[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}}, "dtype"},
	{sample{"UpsampleNearest2d", "float32[3 4 5]", args{2.0, false}}, "shape"},
	{sample{"UpsampleNearest2d", "float32[2 3 4 5]", args{2.0, true}}, "value"},
	{sample{"UpsampleBilinear2d", "float32[2 3 4 5]", args{-1.0, true}}, "value"},
	{sample{"UpsampleBilinear2d", "float32[2 3 4 5]", args{0.2, true}}, "value"},
	{sample{"UpsampleBilinear2d", "bool[2 3 4 5]", args{2.0, true}}, "dtype"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 9]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "shape"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 10]", args{2.0, false, 2.0, 3.0}}, "shape"},
	{sample{"UpsampleNearest2dGrad", "int32[2 3 8 10]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "dtype"},
	{sample{"UpsampleNearest2dGrad", "float32[2 3 8 10]", args{2.0, true, 2.0, 3.0, 4.0, 5.0}}, "value"},
	{sample{"UpsampleBilinear2dGrad", "float32[2 3 8 9]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}}, "shape"},
}

// conv and transpose are the arguments stride, padding, dilation and groups; of the transposed convolution, the third is the output
// padding.
func conv(a args) tensor.Conv {
	return tensor.Conv{Stride: []int{a.int(0)}, Padding: []int{a.int(1)}, Dilation: []int{a.int(2)}, Groups: a.int(3)}
}

func transpose(a args) tensor.ConvTranspose {
	return tensor.ConvTranspose{Stride: []int{a.int(0)}, Padding: []int{a.int(1)}, OutputPadding: []int{a.int(2)}, Groups: a.int(3)}
}

func convolution(f func(x, w, bias *tensor.Tensor, c tensor.Conv) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return f(in[0], in[1], nil, conv(a))
		}
		return f(in[0], in[1], in[2], conv(a))
	}
}

func transposed(f func(x, w, bias *tensor.Tensor, c tensor.ConvTranspose) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) {
		if len(in) == 2 {
			return f(in[0], in[1], nil, transpose(a))
		}
		return f(in[0], in[1], in[2], transpose(a))
	}
}

// pool are the arguments window, stride and padding.
func pool(a args) tensor.Pool {
	return tensor.Pool{Kernel: []int{a.int(0)}, Stride: []int{a.int(1)}, Padding: []int{a.int(2)}}
}

func pooled(f func(t *tensor.Tensor, p tensor.Pool) (out, from *tensor.Tensor, err error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return firstOf(f(in[0], pool(a))) }
}

// resized are the arguments factor and aligned corners.
func resized(a args) tensor.Upsample {
	return tensor.Upsample{Scale: []float64{a.float(0)}, AlignCorners: a.bool(1)}
}
