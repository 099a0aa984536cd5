package autograd_test

import "github.com/cistern-ml/cistern/tensor"

func init() {
	window := tensor.Pool{Kernel: []int{3, 2, 2}, Stride: []int{2, 1, 2}, Padding: []int{1, 0, 1}, CeilMode: true}
	spread, without := window, window
	spread.Dilation, without.ExcludePadding = []int{1, 2, 1}, true
	convolution := func(c tensor.Conv) func(v vars) variable {
		return func(v vars) variable { return v[0].Conv3d(v[1], append(v, nil)[2], c) }
	}
	all := tensor.Conv{Stride: []int{2, 1, 2}, Padding: []int{1, 2, 0}, Dilation: []int{2, 1, 1}, Groups: 2}
	transposed := func(c tensor.ConvTranspose) func(v vars) variable {
		return func(v vars) variable { return v[0].ConvTranspose3d(v[1], append(v, nil)[2], c) }
	}
	spreading := tensor.ConvTranspose{Stride: []int{2, 1, 3}, Padding: []int{1, 0, 2}, OutputPadding: []int{1, 0, 2}, Dilation: []int{1, 2, 1}, Groups: 2}
	functions := map[string]func(v vars) variable{
		"conv3d plain": convolution(tensor.Conv{}), "conv3d bias": convolution(tensor.Conv{Stride: []int{2}, Padding: []int{1}}), "conv3d all": convolution(all),
		"conv3d same": convolution(tensor.Conv{Same: true}), "max_pool3d plain": func(v vars) variable { return v[0].MaxPool3d(tensor.Pool{Kernel: []int{2}}) },
		"max_pool3d all":         func(v vars) variable { return v[0].MaxPool3d(spread) },
		"avg_pool3d plain":       func(v vars) variable { return v[0].AvgPool3d(tensor.Pool{Kernel: []int{2}}) },
		"avg_pool3d all":         func(v vars) variable { return v[0].AvgPool3d(window) },
		"avg_pool3d without":     func(v vars) variable { return v[0].AvgPool3d(without) },
		"avg_pool3d divisor":     func(v vars) variable { return v[0].AvgPool3d(tensor.Pool{Kernel: []int{3, 2, 2}, DivisorOverride: 5}) },
		"adaptive_avg_pool3d":    func(v vars) variable { return v[0].AdaptiveAvgPool3d(2, 3, 1) },
		"adaptive_max_pool3d":    func(v vars) variable { return v[0].AdaptiveMaxPool3d(2) },
		"conv_transpose3d plain": transposed(tensor.ConvTranspose{}), "conv_transpose3d all": transposed(spreading),
		"conv_transpose3d dilated": transposed(tensor.ConvTranspose{Stride: []int{1}, Dilation: []int{3}, OutputPadding: []int{2}, Padding: []int{1}}),
	}
	one := func(op, name string, shapes ...[]int) gradientCase {
		return gradientCase{op: op, note: name, f: functions[name], shapes: shapes}
	}
	composed(functions,
		one("conv3d", "conv3d bias", []int{2, 1, 2, 2, 2}, []int{1, 1, 2, 2, 1}, []int{1}), one("conv3d", "conv3d all", []int{2, 4, 1, 2}, []int{2, 1, 2, 1, 2}, []int{2}),
		one("conv_transpose3d", "conv_transpose3d all", []int{2, 2, 1, 2}, []int{2, 1, 2, 1, 2}, []int{2}),
		one("max_pool3d", "max_pool3d all", []int{1, 1, 3, 3, 2}), one("avg_pool3d", "avg_pool3d without", []int{1, 3, 2, 2}),
		one("adaptive_avg_pool3d", "adaptive_avg_pool3d", []int{1, 3, 3, 2}), one("adaptive_max_pool3d", "adaptive_max_pool3d", []int{1, 1, 3, 2, 2}),
	)
}
