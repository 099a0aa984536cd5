package autograd

import "github.com/cistern-ml/cistern/tensor"

var (
	gridSample = composite{name: "grid_sample", wide: true}
	affineGrid = composite{name: "affine_grid"}
)

// SampleMode says what is between the elements of an image.
type SampleMode uint8

// The modes of grid_sample. The zero value is PyTorch's default.
const (
	SampleBilinear SampleMode = iota
	SampleNearest
	SampleBicubic
)

// SamplePadding says what is beyond an image.
type SamplePadding uint8

// The paddings of grid_sample. The zero value is PyTorch's default.
const (
	SampleZeros SamplePadding = iota
	SampleBorder
	SampleReflection
)

// Sampling is how GridSample reads images. The zero value is PyTorch's default.
type Sampling struct {
	Mode         SampleMode
	Padding      SamplePadding
	AlignCorners bool // -1 and 1 are the centres of the corners, not their outer edges
}

// GridSample reads images v, [N, C, H, W], at the places of grid, [N, Ho, Wo, 2]: x and y from -1 to 1. The result is [N, C, Ho, Wo]. A place that is not
// finite gives 0 between zeros, and SampleNearest has no gradient of the grid. It gathers 4 elements for each of the result, of which bicubic sampling takes 16, and saves what it has gathered.
func (v *Variable) GridSample(grid *Variable, s Sampling) *Variable {
	in := []*Variable{v, grid}
	return gridSample.run(in, func() error {
		switch {
		case v.NDim() != 4 || grid.NDim() != 4 || v.Dim(0) != grid.Dim(0) || grid.Dim(3) != 2 || v.Dim(2) == 0 || v.Dim(3) == 0:
			return gridSample.shapes("images are [N, C, H, W] with rows and columns, and places [N, Ho, Wo, 2]", in...)
		case s.Mode > SampleBicubic || s.Padding > SampleReflection:
			return gridSample.values("there is no mode %d with padding %d", s.Mode, s.Padding)
		}
		return gridSample.floats(in...)
	}, func(in []*Variable) *Variable {
		n, places := v.Dim(0), grid.Dim(1)*grid.Dim(2)
		image := in[0].Reshape(n, v.Dim(1), v.Dim(2)*v.Dim(3))
		at := in[1].Reshape(n, 1, places, 2)
		at = at.To(tensor.Promote(at.dtype, tensor.Float32)) // half precision does not have all places of a wide image
		x, y := s.axis(at.Select(3, 0), v.Dim(3)), s.axis(at.Select(3, 1), v.Dim(2))
		var sum *Variable
		for _, row := range y {
			for _, column := range x {
				one := image.read(row, column, v.Dim(3))
				if sum == nil {
					sum = one
				} else {
					sum = sum.Add(one)
				}
			}
		}
		return sum.To(tensor.Promote(in[0].dtype, in[1].dtype)).Reshape(n, v.Dim(1), grid.Dim(1), grid.Dim(2))
	})
}

// sampled is an element along one dimension of an image for each place, and its weight: 0 where there is none. A weight of nil is 1 where there is one.
type sampled struct{ index, weight *Variable }

// axis resolves places along a dimension of size elements.
func (s Sampling) axis(at *Variable, size int) []sampled {
	x := at.AddScalar(1).MulScalar(float64(size)).SubScalar(1).MulScalar(0.5)
	if s.AlignCorners {
		x = at.AddScalar(1).MulScalar(0.5 * float64(size-1))
	}
	if s.Mode == SampleBicubic {
		first := x.Detach().Floor()
		var list []sampled
		for k, w := range cubicWeights(x.Sub(first)) {
			list = append(list, s.padded(first.AddScalar(float64(k-1)), size).within(w, size))
		}
		return list
	}
	x = s.padded(x, size)
	if s.Mode == SampleNearest {
		return []sampled{x.Detach().Round().within(nil, size)}
	}
	first := x.Detach().Floor()
	part := x.Sub(first)
	return []sampled{first.within(part.RSubScalar(1), size), first.AddScalar(1).within(part, size)}
}

// padded brings places beyond the image into it.
func (s Sampling) padded(x *Variable, size int) *Variable {
	switch {
	case s.Padding == SampleZeros:
		return x
	case s.Padding == SampleReflection && s.AlignCorners:
		x = x.reflected(0, float64(size-1))
	case s.Padding == SampleReflection:
		x = x.reflected(-0.5, float64(size))
	}
	// At the limits themselves the gradient is 0, as in PyTorch.
	x = x.MaskedFill(x.LeScalar(0), 0)
	return x.MaskedFill(x.GeScalar(float64(size-1)), float64(size-1))
}

// reflected mirrors v at low and at low+span, as often as needed.
func (v *Variable) reflected(low, span float64) *Variable {
	if span == 0 {
		return v.MulScalar(0)
	}
	x := v.SubScalar(low)
	x = Where(x.LtScalar(0), x.Neg(), x)
	rest := x.FmodScalar(span)
	odd := x.Detach().DivScalar(span).Floor().RemainderScalar(2).NeScalar(0)
	return Where(odd, rest.RSubScalar(span), rest).AddScalar(low)
}

// within is the elements at v, whole numbers, with their weights.
func (v *Variable) within(weight *Variable, size int) sampled {
	outside := v.GeScalar(0).And(v.LeScalar(float64(size - 1))).Not()
	if weight == nil {
		weight = v.OnesLike()
	}
	return sampled{v.Detach().MaskedFill(outside, 0).To(tensor.Int64), weight.MaskedFill(outside, 0)}
}

// read is the elements of images [N, C, H*W] at rows and columns [N, 1, P], times their weights.
func (v *Variable) read(row, column sampled, columns int) *Variable {
	at := row.index.MulScalar(float64(columns)).Add(column.index)
	if !at.Alive() {
		return at
	}
	return v.Gather(2, at.Expand(v.Dim(0), v.Dim(1), at.Dim(2))).Mul(row.weight.Mul(column.weight))
}

// cubicWeights are those of the elements before, at, after, and behind that, for a place t behind the second, by Keys' convolution with a = -0.75.
func cubicWeights(t *Variable) [4]*Variable {
	const a = -0.75
	near := func(x *Variable) *Variable { // |x| <= 1
		return x.MulScalar(a + 2).SubScalar(a + 3).Mul(x).Mul(x).AddScalar(1)
	}
	far := func(x *Variable) *Variable { // 1 < |x| < 2
		return x.MulScalar(a).SubScalar(5 * a).Mul(x).AddScalar(8 * a).Mul(x).SubScalar(4 * a)
	}
	rest := t.RSubScalar(1)
	return [4]*Variable{far(t.AddScalar(1)), near(t), near(rest), far(rest.AddScalar(1))}
}

// AffineGrid is the places that GridSample reads for an affine map v, [N, 2, 3], and images of so many rows and columns: [N, rows, columns, 2].
func (v *Variable) AffineGrid(rows, columns int, alignCorners bool) *Variable {
	return affineGrid.run([]*Variable{v}, func() error {
		switch {
		case v.NDim() != 3 || v.Dim(1) != 2 || v.Dim(2) != 3:
			return affineGrid.shapes("maps are [N, 2, 3]", v)
		case rows < 1 || columns < 1 || rows >= tooLarge || columns >= tooLarge:
			return affineGrid.values("images of %d rows and %d columns", rows, columns)
		}
		return affineGrid.floats(v)
	}, func(in []*Variable) *Variable {
		g := v.g
		line := func(n int) *Variable {
			if n == 1 {
				return g.Zeros(v.dtype, 1)
			}
			end := 1.0
			if !alignCorners {
				end = float64(n-1) / float64(n)
			}
			return g.Linspace(-end, end, n, v.dtype)
		}
		x := line(columns).Expand(rows, columns)
		y := line(rows).Unsqueeze(1).Expand(rows, columns)
		base := Stack([]*Variable{x, y, g.Ones(v.dtype, rows, columns)}, 2).Reshape(rows*columns, 3)
		return base.MatMul(in[0].Transpose(1, 2)).Reshape(v.Dim(0), rows, columns, 2)
	})
}
