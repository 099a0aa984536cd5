package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Initializers that are computed on the host, once, in double precision.

// TruncNormal starts with normal numbers of which those outside of [lo, hi] are not taken (torch.nn.init.trunc_normal_): by the
// inverse of the distribution function, on uniform numbers of the part of it that lies between. lo must be less than hi.
func TruncNormal(mean, std, lo, hi float64) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		if !(lo < hi) || !(std > 0) {
			return nil, argumentErr("TruncNormal", "a normal distribution of deviation %v between %v and %v", std, lo, hi)
		}
		cdf := func(x float64) float64 { return math.Erfc(-(x-mean)/std/math.Sqrt2) / 2 }
		from, to := 2*cdf(lo)-1, 2*cdf(hi)-1
		values, err := draw(func() (*tensor.Tensor, error) { return tensor.Uniform(e, gen, from, to, tensor.Float64, shape...) })
		if err != nil {
			return nil, err
		}
		for i, u := range values {
			values[i] = min(max(mean+std*math.Sqrt2*math.Erfinv(u), lo), hi)
		}
		return upload(e, values, dt, shape)
	}
}

// Orthogonal starts with a matrix whose rows, or columns if there are fewer of them, are orthogonal and of length gain
// (torch.nn.init.orthogonal_; Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
// 2013). The dimensions after the first are joined into columns.
func Orthogonal(gain float64) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		if len(shape) < 2 {
			return nil, argumentErr("Orthogonal", "rows and columns of %s, which has fewer than two dimensions", tensor.Shape(shape))
		}
		rows, columns := shape[0], tensor.Shape(shape[1:]).Len()
		values, err := draw(func() (*tensor.Tensor, error) { return tensor.RandN(e, gen, tensor.Float64, rows, columns) })
		if err != nil {
			return nil, err
		}
		if rows <= columns {
			orthonormalize(values, rows, columns, columns, 1)
		} else {
			orthonormalize(values, columns, rows, 1, columns)
		}
		for i := range values {
			values[i] *= gain
		}
		return upload(e, values, dt, shape)
	}
}

// orthonormalize makes n vectors of length m orthonormal: vector i begins at i*next, its elements are step apart. Each is freed of
// its parts along those before it, twice, which leaves rounding errors alone (Björck, "Numerics of Gram-Schmidt
// orthogonalization", 1994). The result is what a QR decomposition with a positive diagonal gives.
func orthonormalize(v []float64, n, m, next, step int) {
	dot := func(i, j int) (sum float64) {
		for k := range m {
			sum += v[i*next+k*step] * v[j*next+k*step]
		}
		return sum
	}
	for i := range n {
		for range 2 {
			for j := range i {
				part := dot(i, j)
				for k := range m {
					v[i*next+k*step] -= part * v[j*next+k*step]
				}
			}
		}
		length := math.Sqrt(dot(i, i))
		for k := range m {
			v[i*next+k*step] /= length
		}
	}
}

// Eye starts with 1 on the diagonal of a matrix and 0 elsewhere (torch.nn.init.eye_).
func Eye(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
	if len(shape) != 2 {
		return nil, argumentErr("Eye", "the diagonal of %s, which is no matrix", tensor.Shape(shape))
	}
	t, err := tensor.Zeros(e, dt, shape...)
	if err != nil {
		return nil, err
	}
	diagonal, err := t.Diagonal(0, 0, 1)
	if err == nil {
		err = diagonal.FillInPlace(1)
		diagonal.Release()
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// draw is the elements of a tensor that is made for them alone.
func draw(f func() (*tensor.Tensor, error)) ([]float64, error) {
	t, err := f()
	if err != nil {
		return nil, err
	}
	defer t.Release()
	return t.Float64s()
}

func upload(e tensor.Exec, values []float64, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	wide, err := tensor.FromSlice(e, values, append([]int{}, shape...)...)
	if err != nil {
		return nil, err
	}
	defer wide.Release()
	return wide.To(dt)
}
