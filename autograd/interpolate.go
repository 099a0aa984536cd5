package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	upsampleNearest1d   = composite{name: "upsample_nearest1d", wide: true}
	upsampleNearest3d   = composite{name: "upsample_nearest3d", wide: true}
	upsampleLinear1d    = composite{name: "upsample_linear1d", wide: true}
	upsampleBicubic2d   = composite{name: "upsample_bicubic2d", wide: true}
	upsampleTrilinear3d = composite{name: "upsample_trilinear3d", wide: true}
)

// UpsampleNearest1d takes each element of the result from an element of v, [N, C, L], as UpsampleNearest2d does.
func (v *Variable) UpsampleNearest1d(u tensor.Upsample) *Variable {
	return upsampleNearest1d.resample(v, u, 1, (*Variable).nearestAlong)
}

// UpsampleNearest3d takes each element of the result from an element of v, [N, C, D, H, W], as UpsampleNearest2d does.
func (v *Variable) UpsampleNearest3d(u tensor.Upsample) *Variable {
	return upsampleNearest3d.resample(v, u, 3, (*Variable).nearestAlong)
}

// UpsampleLinear1d interpolates each element of the result between the two elements of v, [N, C, L], around it.
func (v *Variable) UpsampleLinear1d(u tensor.Upsample) *Variable {
	return upsampleLinear1d.resample(v, u, 1, (*Variable).linearAlong)
}

// UpsampleBicubic2d interpolates each element of the result between the 16 elements of v, [N, C, H, W], around it: first along the columns of an image,
// then along its rows, each of which takes the memory of four times its result.
func (v *Variable) UpsampleBicubic2d(u tensor.Upsample) *Variable {
	return upsampleBicubic2d.resample(v, u, 2, (*Variable).cubicAlong)
}

// UpsampleTrilinear3d interpolates each element of the result between the 8 elements of v, [N, C, D, H, W], around it, along one dimension after the
// other, each of which takes the memory of twice its result.
func (v *Variable) UpsampleTrilinear3d(u tensor.Upsample) *Variable {
	return upsampleTrilinear3d.resample(v, u, 3, (*Variable).linearAlong)
}

// resampled is resampling of one dimension.
type resampled struct {
	dim, size, result int
	step              float64 // from one result to the next
	aligned           bool
}

// resample applies f to each of the last n dimensions.
func (c composite) resample(v *Variable, u tensor.Upsample, n int, f func(v *Variable, r resampled) *Variable) *Variable {
	nearest := c == upsampleNearest1d || c == upsampleNearest3d
	list := make([]resampled, n)
	return c.run([]*Variable{v}, func() error {
		if v.NDim() != n+2 {
			return c.shapes("images have a dimension for examples, one for channels, and those that are resampled", v)
		}
		if (len(u.Size) == 0) == (len(u.Scale) == 0) || len(u.Size) > 1 && len(u.Size) != n || len(u.Scale) > 1 && len(u.Scale) != n {
			return c.values("size %v and scale %v, one of them is needed", u.Size, u.Scale)
		}
		if nearest && u.AlignCorners {
			return c.values("corners are aligned by interpolation alone")
		}
		for d := range list {
			r := resampled{dim: d + 2, size: v.Dim(d + 2), aligned: u.AlignCorners}
			var step float64
			if len(u.Size) > 0 {
				r.result = u.Size[min(d, len(u.Size)-1)]
			} else {
				scale := u.Scale[min(d, len(u.Scale)-1)]
				if size := math.Floor(float64(r.size) * scale); scale > 0 && size < tooLarge {
					r.result, step = int(size), 1/scale
				}
			}
			if r.size < 1 || r.result < 1 || r.result >= tooLarge {
				return c.values("size %v and scale %v make %d elements of %d", u.Size, u.Scale, r.result, r.size)
			}
			if step == 0 || u.RecomputeScale {
				step = float64(r.size) / float64(r.result)
			}
			if r.step = step; u.AlignCorners {
				r.step = float64(r.size-1) / float64(max(r.result-1, 1))
			}
			list[d] = r
		}
		return c.floats(v)
	}, func(in []*Variable) *Variable {
		x, dt := in[0], in[0].dtype
		if dt.Size() == 2 && !nearest {
			x = x.To(tensor.Float32)
		}
		for _, r := range list {
			if x = f(x, r); !x.Alive() {
				return x
			}
		}
		return x.To(dt)
	})
}

// nearestAlong computes places in float32, as PyTorch does.
func (v *Variable) nearestAlong(r resampled) *Variable {
	at := v.g.Arange(0, float64(r.result), 1, tensor.Float32).MulScalar(float64(float32(r.step))).Floor()
	return v.IndexSelect(r.dim, at.Clamp(0, float64(r.size-1)).To(tensor.Int64))
}

// places are where each result is in the image.
func (r resampled) places(g *Graph) *Variable {
	line := g.Arange(0, float64(r.result), 1, tensor.Float64)
	if r.aligned {
		return line.MulScalar(r.step)
	}
	return line.AddScalar(0.5).MulScalar(r.step).SubScalar(0.5)
}

func (v *Variable) linearAlong(r resampled) *Variable {
	if r.size == r.result { // whatever the scale, as in PyTorch
		return v
	}
	x := r.places(v.g).Clamp(0, float64(r.size-1))
	first := x.Floor()
	part := x.Sub(first)
	return v.tapped(r, []*Variable{first, first.AddScalar(1)}, []*Variable{part.RSubScalar(1), part})
}

func (v *Variable) cubicAlong(r resampled) *Variable {
	x := r.places(v.g)
	first := x.Floor()
	weights := cubicWeights(x.Sub(first))
	return v.tapped(r, []*Variable{first.SubScalar(1), first, first.AddScalar(1), first.AddScalar(2)}, weights[:])
}

// tapped is the sum of the elements at several places, the nearest there are, times their weights.
func (v *Variable) tapped(r resampled, at, weights []*Variable) *Variable {
	index := Stack(at, 1).Clamp(0, float64(r.size-1)).To(tensor.Int64)
	taps := len(at)
	shape, wide := v.Shape().Clone(), make([]int, v.NDim()+1)
	for d := range wide {
		wide[d] = 1
	}
	wide[r.dim], wide[r.dim+1] = r.result, taps
	shape[r.dim] = taps
	shape = append(shape[:r.dim:r.dim], append(tensor.Shape{r.result}, shape[r.dim:]...)...)
	x := v.IndexSelect(r.dim, index.Reshape(r.result*taps)).Reshape(shape...)
	return x.Mul(Stack(weights, 1).To(v.dtype).Reshape(wide...)).Sum([]int{r.dim + 1}, false)
}
