package autograd_test

import (
	"fmt"
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
