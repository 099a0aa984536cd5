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
	functions := map[string]func(v vars) variable{
		"masked_select": func(v vars) variable { return v[0].MaskedSelect(v[1].To(tensor.Bool)) },
		"index_copy":    func(v vars) variable { return v[0].IndexCopy(1, v[1], v[2]) },
		"index_fill":    func(v vars) variable { return v[0].IndexFill(-1, v[1], 2.5) },
		"index 0":       func(v vars) variable { return v[0].Index(v[1]) }, "index 1": func(v vars) variable { return v[0].Index(nil, v[1]) },
		"index 2": func(v vars) variable { return v[0].Index(v[1], nil, v[2]) }, "index 3": func(v vars) variable { return v[0].Index(v[1].To(tensor.Bool)) },
		"index_put 0": func(v vars) variable { return v[0].IndexPut(v[2:4], v[1], false) },
		"index_put 1": func(v vars) variable { return v[0].IndexPut(v[2:3], v[1], true) },
		"index_put 2": func(v vars) variable { return v[0].IndexPut(vars{v[2].To(tensor.Bool)}, v[1], false) },
	}
	indexed := func(shape []int, index []int64, at []int, more ...int) func(r *rig) []*tensor.Tensor {
		return func(r *rig) []*tensor.Tensor {
			ts := []*tensor.Tensor{r.random(1, shape...), r.ints(index, at...)}
			if len(more) > 0 {
				ts = append(ts, r.random(2, more...))
			}
			return ts
		}
	}
	for how := tensor.ScatterSum; how <= tensor.ScatterMin; how++ {
		for _, self := range []bool{false, true} {
			f := func(v vars) variable { return v[0].ScatterReduce(1, v[1], v[2], how, self) }
			functions[fmt.Sprintf("scatter_reduce %d %d", how, map[bool]int{true: 1}[self])] = f
			composedCases = append(composedCases, gradientCase{op: "scatter_reduce", note: fmt.Sprint(how, self), f: f,
				inputs: indexed([]int{2, 3}, []int64{1, 1, 0, 1, 2, 2, 2, 2}, []int{2, 4}, 2, 5)})
		}
	}
	composed(functions,
		gradientCase{op: "masked_select", f: func(v vars) variable { return v[0].MaskedSelect(v[1].GtScalar(0)) }, inputs: indexed([]int{2, 3}, []int64{1, 0, 1}, []int{3})},
		gradientCase{op: "index_copy", f: functions["index_copy"], inputs: indexed([]int{2, 3}, []int64{2, 0}, []int{2}, 2, 2)},
		gradientCase{op: "index_fill", f: functions["index_fill"], inputs: indexed([]int{2, 3}, []int64{2, 0}, []int{2})},
		gradientCase{op: "index", f: func(v vars) variable { return v[0].Index(nil, v[1], v[1]) }, inputs: indexed([]int{2, 3, 2}, []int64{1, 0, 1, 1}, []int{2, 2})},
		gradientCase{op: "index_put", f: func(v vars) variable { return v[0].IndexPut(vars{nil, v[1]}, v[2], true) }, inputs: indexed([]int{2, 3}, []int64{1, 0, 1}, []int{3}, 2, 1)},
		gradientCase{op: "index_put", note: "other", f: func(v vars) variable { return v[0].IndexPut(vars{nil, v[1]}, v[2], false) }, inputs: indexed([]int{2, 3}, []int64{2, 0}, []int{2}, 2)},
	)
}

func TestSelections_WithoutGradients(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3, 0, 1, 3}, 2, 2), autograd.RequiresGrad())
	values, inverse, counts := x.Unique()
	whole := autograd.FromSlice(g, []int64{1, 3, 1})
	require.NoError(t, g.Err())
	for name, c := range map[string]struct {
		v    variable
		want []float64
	}{
		"Nonzero": {x.Nonzero(), []float64{0, 0, 1, 0, 1, 1}}, "Unique": {values, []float64{0, 1, 3}}, "inverse": {inverse, []float64{2, 0, 1, 2}},
		"counts": {counts, []float64{1, 1, 2}}, "IsIn": {x.IsIn(whole), []float64{1, 0, 1, 1}}, "BinCount": {whole.BinCount(nil, 5), []float64{0, 2, 0, 1, 0}},
		"weighted":      {whole.BinCount(autograd.FromSlice(g, []float64{0.5, 1, 2}), 0), []float64{0, 2.5, 0, 1}},
		"ScatterReduce": {whole.ScatterReduce(0, g.Zeros(tensor.Int64, 2), autograd.FromSlice(g, []int64{5, 7}), tensor.ScatterMax, true), []float64{7, 3, 1}},
	} {
		require.Equal(t, c.want, valuesOf(t, c.v), name)
		require.False(t, c.v.RequiresGrad(), name)
	}
	require.NoError(t, g.Err())
}

// What is multiplied in one place has nothing to do with infinities in another.
func TestScatterReduce_ProductsDoNotMeetTheInfinitiesOfOthers(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{math.Inf(1), 2, 3, 5}, 4), autograd.RequiresGrad())
	index := autograd.FromSlice(g, []int64{0, 1, 1, 1}, 4)
	y := g.Ones(tensor.Float64, 2).ScatterReduce(0, index, x, tensor.ScatterProd, true)
	require.Equal(t, []float64{math.Inf(1), 30}, valuesOf(t, y))
	require.NoError(t, y.Sum(nil, false).Backward())
	require.Equal(t, []float64{1, 15, 10, 6}, values(t, x.Grad()))
}

// A result without elements has a gradient of 0, also where the slope would be infinite.
func TestXlog1py_OfNothingHasNoGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{-1, 2}, 2, 1), autograd.RequiresGrad())
	require.NoError(t, g.Zeros(tensor.Float64, 2, 0).Xlog1py(x).Sum(nil, false).Backward())
	require.Equal(t, []float64{0, 0}, values(t, x.Grad()))
}
