package autograd_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func init() {
	modes := map[string]autograd.SampleMode{"bilinear": autograd.SampleBilinear, "nearest": autograd.SampleNearest, "bicubic": autograd.SampleBicubic}
	paddings := map[string]autograd.SamplePadding{"zeros": autograd.SampleZeros, "border": autograd.SampleBorder, "reflection": autograd.SampleReflection}
	functions := map[string]func(v vars) variable{
		"linear1d scale":  func(v vars) variable { return v[0].UpsampleLinear1d(tensor.Upsample{Scale: []float64{1.7}}) },
		"bicubic scale":   func(v vars) variable { return v[0].UpsampleBicubic2d(tensor.Upsample{Scale: []float64{2, 0.6}}) },
		"trilinear scale": func(v vars) variable { return v[0].UpsampleTrilinear3d(tensor.Upsample{Scale: []float64{2}}) },
		"nearest1d":       func(v vars) variable { return v[0].UpsampleNearest1d(tensor.Upsample{Scale: []float64{1.7}}) },
		"nearest3d":       func(v vars) variable { return v[0].UpsampleNearest3d(tensor.Upsample{Size: []int{3, 4, 2}}) },
	}
	for align, text := range map[bool]string{false: "False", true: "True"} {
		for mode, m := range modes {
			for padding, p := range paddings {
				functions[fmt.Sprintf("grid_sample %s %s %s", mode, padding, text)] = func(v vars) variable {
					return v[0].GridSample(v[1], autograd.Sampling{Mode: m, Padding: p, AlignCorners: align})
				}
			}
		}
		functions["affine_grid "+text] = func(v vars) variable { return v[0].AffineGrid(3, 4, align) }
		functions["affine_grid one "+text] = func(v vars) variable { return v[0].AffineGrid(1, 2, align) }
		functions["linear1d "+text] = func(v vars) variable {
			return v[0].UpsampleLinear1d(tensor.Upsample{Size: []int{7}, AlignCorners: align})
		}
		functions["bicubic "+text] = func(v vars) variable {
			return v[0].UpsampleBicubic2d(tensor.Upsample{Size: []int{5, 3}, AlignCorners: align})
		}
		functions["trilinear "+text] = func(v vars) variable {
			return v[0].UpsampleTrilinear3d(tensor.Upsample{Size: []int{3, 4, 2}, AlignCorners: align})
		}
	}
	one := func(op, name string, shapes ...[]int) gradientCase {
		return gradientCase{op: op, note: name, f: functions[name], shapes: shapes}
	}
	composed(functions,
		one("grid_sample", "grid_sample bilinear zeros False", []int{1, 2, 2, 3}, []int{1, 2, 2, 2}),
		one("grid_sample", "grid_sample bilinear reflection True", []int{1, 2, 2, 3}, []int{1, 2, 2, 2}),
		one("grid_sample", "grid_sample bicubic border False", []int{1, 1, 2, 3}, []int{1, 1, 2, 2}),
		one("grid_sample", "grid_sample nearest zeros False", []int{1, 2, 2, 3}, []int{1, 2, 2, 2}),
		one("affine_grid", "affine_grid False", []int{2, 2, 3}), one("upsample_linear1d", "linear1d False", []int{1, 2, 3}),
		one("upsample_bicubic2d", "bicubic True", []int{1, 1, 2, 3}), one("upsample_trilinear3d", "trilinear False", []int{1, 1, 2, 3, 2}),
		one("upsample_nearest1d", "nearest1d", []int{1, 2, 3}), one("upsample_nearest3d", "nearest3d", []int{1, 1, 2, 3, 2}),
	)
}

// Of so many elements the last place, 16.999998, is rounded to 17 in float32, which PyTorch computes in.
func TestUpsampleNearest_StaysInTheImageWherePlacesAreRounded(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	const n = 8_747_603
	last := g.Arange(0, 17, 1, tensor.Float32).Reshape(1, 1, 17).UpsampleNearest1d(tensor.Upsample{Size: []int{n}}).Narrow(2, n-1, 1)
	v, err := last.Item()
	require.NoError(t, err)
	require.Equal(t, 16.0, v)
}

func TestGridSample_ReadsNothingWherePlacesAreNotFinite(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	image := g.Ones(tensor.Float64, 1, 1, 2, 2)
	at := autograd.FromSlice(g, []float64{math.NaN(), 0, math.Inf(1), 0, 0, math.Inf(-1)}, 1, 3, 1, 2)
	for mode := autograd.SampleBilinear; mode <= autograd.SampleBicubic; mode++ {
		require.Equal(t, []float64{0, 0, 0}, valuesOf(t, image.GridSample(at, autograd.Sampling{Mode: mode})))
	}
	require.NoError(t, g.Err())
}
