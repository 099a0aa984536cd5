package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// MaxPool3d is the largest element of each window of [N, C, D, H, W] or [C, D, H, W]. The stride is that of the window unless Stride says otherwise.
func MaxPool3d(kernel int, opts ...PoolOption) *FuncModule {
	return maxPool("MaxPool3d", kernel, opts, (*autograd.Variable).MaxPool3d)
}

// AvgPool3d is the average of each window of [N, C, D, H, W] or [C, D, H, W]. The stride is that of the window unless Stride says otherwise.
func AvgPool3d(kernel int, opts ...PoolOption) *FuncModule {
	return avgPool("AvgPool3d", 3, kernel, opts, (*autograd.Variable).AvgPool3d)
}

// AdaptiveMaxPool3d is the largest element of each window of [N, C, D, H, W] or [C, D, H, W], where windows are such that the result has the size: one number,
// or three.
func AdaptiveMaxPool3d(size ...int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveMaxPool3d(output_size=%s)", plain(size, 0)),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveMaxPool3d(size...) })
}

// AdaptiveAvgPool3d is the average of each window of [N, C, D, H, W] or [C, D, H, W], where windows are such that the result has the size: one number, or
// three.
func AdaptiveAvgPool3d(size ...int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveAvgPool3d(output_size=%s)", plain(size, 0)),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveAvgPool3d(size...) })
}
