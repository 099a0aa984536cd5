package autograd

import "github.com/cistern-ml/cistern/tensor"

var localResponseNorm = composite{name: "local_response_norm"}

// LocalResponse is how LocalResponseNorm computes. The zero value is PyTorch's default.
type LocalResponse struct {
	Alpha float64 // 0 is 1e-4
	Beta  float64 // 0 is 0.75
	K     float64 // 0 is 1
}

// LocalResponseNorm divides each element of [N, C, ...] by (K + Alpha*m)^Beta, where m is the mean of the squares of size neighbouring channels, with zeros
// beyond the first and the last one (Krizhevsky and others, 2012).
func (v *Variable) LocalResponseNorm(size int, l LocalResponse) *Variable {
	return localResponseNorm.run([]*Variable{v}, func() error {
		switch {
		case v.NDim() < 3:
			return localResponseNorm.shapes("it is of [N, C, ...], with a dimension behind the channels", v)
		case size < 1 || size >= tooLarge:
			return localResponseNorm.values("%d channels; there must be at least 1, and fewer than 2^31", size)
		}
		return localResponseNorm.floats(v)
	}, func(in []*Variable) *Variable {
		x := in[0]
		if x.Len() == 0 {
			return x.MulScalar(1)
		}
		before, after := min(size/2, x.Dim(1)-1), min((size-1)/2, x.Dim(1)-1) // more neighbours are all zeros
		window := before + after + 1
		squares := x.Square().Reshape(x.Dim(0), 1, x.Dim(1), -1).Pad([]int{0, 0, before, after}, tensor.PadConstant, 0)
		mean := squares.AvgPool2d(tensor.Pool{Kernel: []int{window, 1}, Stride: []int{1, 1}}).Reshape(v.Shape()...)
		factor := defaultTo(l.Alpha, 1e-4) * float64(window) / float64(size)
		return x.Div(mean.MulScalar(factor).AddScalar(defaultTo(l.K, 1)).PowScalar(defaultTo(l.Beta, 0.75)))
	})
}
