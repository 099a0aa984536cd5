package autograd_test

import (
	"testing"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// convFunctions compute what the cases of testdata/convolutions.py do.
var convFunctions = map[string]func(v vars) *autograd.Variable{
	"conv1d":      conv1d(tensor.Conv{Stride: []int{2}, Padding: []int{1}}),
	"conv1d same": conv1d(tensor.Conv{Same: true, Dilation: []int{2}}),
	"conv2d":      conv2d(tensor.Conv{Padding: []int{1}}),
	"conv2d all": conv2d(tensor.Conv{
		Stride: []int{2, 1}, Padding: []int{2, 3}, Dilation: []int{1, 3}, Groups: 2,
	}),
	"conv2d same":      conv2d(tensor.Conv{Same: true}),
	"conv2d depthwise": conv2d(tensor.Conv{Stride: []int{2}, Padding: []int{1}, Groups: 3}),
	"conv2d one image": conv2d(tensor.Conv{}),
	"conv2d no images": conv2d(tensor.Conv{}),
	"conv_transpose1d": func(v vars) *autograd.Variable {
		return v[0].ConvTranspose1d(v[1], v[2], tensor.ConvTranspose{Stride: []int{2}, Padding: []int{1}, OutputPadding: []int{1}})
	},
	"conv_transpose2d": func(v vars) *autograd.Variable {
		return v[0].ConvTranspose2d(v[1], v[2], tensor.ConvTranspose{
			Stride: []int{2, 3}, Padding: []int{1, 0}, OutputPadding: []int{1, 2}, Groups: 2, Dilation: []int{2, 1},
		})
	},
	"conv_transpose2d one image": func(v vars) *autograd.Variable {
		return v[0].ConvTranspose2d(v[1], nil, tensor.ConvTranspose{})
	},
	"max_pool1d":         func(v vars) *autograd.Variable { return v[0].MaxPool1d(threes) },
	"max_pool2d":         maxPool(tensor.Pool{Kernel: []int{2}}),
	"max_pool2d padded":  maxPool(threes),
	"max_pool2d lowest":  maxPool(threes),
	"max_pool2d ceil":    maxPool(tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}, CeilMode: true}),
	"max_pool2d dilated": maxPool(tensor.Pool{Kernel: []int{2, 3}, Stride: []int{1, 2}, Padding: []int{1, 0}, Dilation: []int{3, 2}}),
	"max_pool2d equal":   maxPool(tensor.Pool{Kernel: []int{3}, Stride: []int{1}, Padding: []int{1}}),
	"avg_pool1d":         func(v vars) *autograd.Variable { return v[0].AvgPool1d(threes) },
	"avg_pool2d":         avgPool(threes),
	"avg_pool2d excluded": avgPool(tensor.Pool{
		Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}, ExcludePadding: true,
	}),
	"avg_pool2d ceil": avgPool(tensor.Pool{Kernel: []int{3, 4}, Stride: []int{2, 3}, Padding: []int{1}, CeilMode: true}),
	"avg_pool2d ceil excluded": avgPool(tensor.Pool{
		Kernel: []int{3, 4}, Stride: []int{2, 3}, Padding: []int{1}, CeilMode: true, ExcludePadding: true,
	}),
	"avg_pool2d divisor": avgPool(tensor.Pool{Kernel: []int{2}, DivisorOverride: 3}),

	"adaptive_max_pool1d":        func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool1d(3) },
	"adaptive_max_pool2d":        func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool2d(3, 4) },
	"adaptive_max_pool2d larger": func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool2d(9, 8) },
	"adaptive_avg_pool1d":        func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool1d(3) },
	"adaptive_avg_pool2d":        func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool2d(3, 4) },
	"adaptive_avg_pool2d global": func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool2d(1) },
	"adaptive_avg_pool2d larger": func(v vars) *autograd.Variable { return v[0].AdaptiveAvgPool2d(9, 8) },

	"upsample_nearest2d":             nearest(tensor.Upsample{Scale: []float64{2}}),
	"upsample_nearest2d size":        nearest(tensor.Upsample{Size: []int{7, 4}}),
	"upsample_nearest2d scale":       nearest(tensor.Upsample{Scale: []float64{1.7, 0.7}}),
	"upsample_nearest2d recomputed":  nearest(tensor.Upsample{Scale: []float64{1.7, 0.7}, RecomputeScale: true}),
	"upsample_nearest2d nearly":      nearest(tensor.Upsample{Scale: []float64{1.1}}),
	"upsample_nearest2d twice":       nearest(tensor.Upsample{Scale: []float64{2.1}}),
	"upsample_bilinear2d nearly":     bilinear(tensor.Upsample{Scale: []float64{1.1}}),
	"upsample_bilinear2d":            bilinear(tensor.Upsample{Scale: []float64{2}}),
	"upsample_bilinear2d aligned":    bilinear(tensor.Upsample{Size: []int{7, 4}, AlignCorners: true}),
	"upsample_bilinear2d size":       bilinear(tensor.Upsample{Size: []int{2, 9}}),
	"upsample_bilinear2d scale":      bilinear(tensor.Upsample{Scale: []float64{1.7, 0.7}}),
	"upsample_bilinear2d recomputed": bilinear(tensor.Upsample{Scale: []float64{1.7, 0.7}, RecomputeScale: true}),
	"upsample_bilinear2d one":        bilinear(tensor.Upsample{Size: []int{1, 1}, AlignCorners: true}),
}

var threes = tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}}

// third is v[2], or nil.
func third(v vars) *autograd.Variable {
	if len(v) < 3 {
		return nil
	}
	return v[2]
}

func conv1d(c tensor.Conv) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].Conv1d(v[1], third(v), c) }
}

func conv2d(c tensor.Conv) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].Conv2d(v[1], third(v), c) }
}

func maxPool(p tensor.Pool) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].MaxPool2d(p) }
}

func avgPool(p tensor.Pool) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].AvgPool2d(p) }
}

func nearest(u tensor.Upsample) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].UpsampleNearest2d(u) }
}

func bilinear(u tensor.Upsample) func(v vars) *autograd.Variable {
	return func(v vars) *autograd.Variable { return v[0].UpsampleBilinear2d(u) }
}

func TestConvolutions_AreThoseOfPyTorch(t *testing.T) { checkConvolutions(t, onHost) }

// checkConvolutions weighs each result differently before backward, as the script does.
func checkConvolutions(t *testing.T, rigOf func(*testing.T) *rig) {
	checkFile(t, "convolutions.json", rigOf, convFunctions, func(out *autograd.Variable) *autograd.Variable {
		weights := out.Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) {
			w, err := tensor.Arange(e, 1, float64(out.Len()+1), 1, out.DType())
			if err != nil {
				return nil, err
			}
			defer w.Release()
			return w.Reshape(out.Shape()...)
		})
		return out.Mul(weights)
	})
}
