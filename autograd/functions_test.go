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
	all := autograd.Window{Kernel: []int{3, 2}, Dilation: []int{2, 1}, Padding: []int{1, 2}, Stride: []int{1, 2}}
	masked := func(v vars) variable { return v[0].MaskedScatter(v[1].GtScalar(0), v[2]) }
	functions := map[string]func(v vars) variable{
		"pixel_shuffle 2": func(v vars) variable { return v[0].PixelShuffle(2) }, "pixel_shuffle 3": func(v vars) variable { return v[0].PixelShuffle(3) },
		"pixel_unshuffle": func(v vars) variable { return v[0].PixelUnshuffle(2) }, "channel_shuffle": func(v vars) variable { return v[0].ChannelShuffle(3) },
		"unflatten": func(v vars) variable { return v[0].Unflatten(1, 2, -1) }, "windows 2 1": func(v vars) variable { return v[0].Windows(1, 2, 1) },
		"windows 3 2": func(v vars) variable { return v[0].Windows(-2, 3, 2) }, "take": func(v vars) variable { return v[0].TakeFlat(v[1]) },
		"masked_scatter": masked, "unfold 2": func(v vars) variable { return v[0].Unfold(autograd.Window{Kernel: []int{2}}) },
		"unfold all": func(v vars) variable { return v[0].Unfold(all) }, "fold all": func(v vars) variable { return v[0].Fold(4, 3, all) },
		"glu -1": func(v vars) variable { return v[0].GLU(-1) }, "glu 0": func(v vars) variable { return v[0].GLU(0) },
		"softmin": func(v vars) variable { return v[0].Softmin(0) }, "clamp_to both": func(v vars) variable { return v[0].ClampTo(v[1], v[2]) },
		"clamp_to lo": func(v vars) variable { return v[0].ClampTo(v[1], nil) }, "clamp_to hi": func(v vars) variable { return v[0].ClampTo(nil, v[1]) },
		"trace": func(v vars) variable { return v[0].Trace() }, "kron": func(v vars) variable { return v[0].Kron(v[1]) },
		"cross -1": func(v vars) variable { return v[0].Cross(v[1], -1) }, "cross 0": func(v vars) variable { return v[0].Cross(v[1], 0) },
	}
	for size, l := range map[int]autograd.LocalResponse{1: {}, 3: {Alpha: 0.5, Beta: 1.5, K: 2}, 4: {Alpha: 1}} {
		functions[fmt.Sprint("local_response_norm ", size)] = func(v vars) variable { return v[0].LocalResponseNorm(size, l) }
	}
	functions["nan_to_num"] = func(v vars) variable { return v[0].NanToNum(0.5, 3, math.Inf(-1)) }
	for _, k := range []int{1, 2, 3, 4, -1} {
		functions[fmt.Sprint("rot90 ", k)] = func(v vars) variable { return v[0].Rot90(k, 0, -1) }
	}
	one := func(op, name string, shapes ...[]int) gradientCase {
		return gradientCase{op: op, f: functions[name], shapes: shapes}
	}
	composed(functions,
		one("local_response_norm", "local_response_norm 3", []int{1, 3, 2}), one("pixel_shuffle", "pixel_shuffle 2", []int{1, 4, 2, 1}), one("pixel_unshuffle", "pixel_unshuffle", []int{1, 2, 4}),
		one("channel_shuffle", "channel_shuffle", []int{1, 6, 2}), one("rot90", "rot90 1", []int{2, 3}), one("unflatten", "unflatten", []int{2, 4}),
		one("unfold", "windows 2 1", []int{2, 3}), one("im2col", "unfold all", []int{1, 4, 3}), one("col2im", "fold all", []int{6, 6}),
		one("nan_to_num", "nan_to_num", []int{2, 4}), one("glu", "glu -1", []int{2, 4}), one("softmin", "softmin", []int{3, 2}), one("clamp_to", "clamp_to both", []int{3, 4}, []int{4}, []int{3, 1}),
		one("trace", "trace", []int{2, 3}), one("kron", "kron", []int{2, 1, 2}, []int{1, 2}), one("cross", "cross 0", []int{3, 2}, []int{3, 1}),
		gradientCase{op: "take", f: functions["take"], inputs: func(r *rig) []*tensor.Tensor {
			return []*tensor.Tensor{r.random(1, 2, 3), r.ints([]int64{5, 0, -1, 5}, 2, 2)}
		}},
		gradientCase{op: "masked_scatter", f: func(v vars) variable { return masked(vars{v[0], v[2], v[1]}) }, inputs: func(r *rig) []*tensor.Tensor {
			return []*tensor.Tensor{r.random(1, 2, 3), r.random(2, 5), r.ints([]int64{0, 1, 1}, 3)}
		}},
		gradientCase{op: "gumbel_softmax", f: func(v vars) variable { return v[0].GumbelSoftmax(0.7, false, -1) }, shapes: [][]int{{2, 3}}},
		gradientCase{op: "expand_as", f: func(v vars) variable { return v[0].ExpandAs(v[1]).Mul(v[1]) }, shapes: [][]int{{3, 1}, {3, 2}}},
		gradientCase{op: "broadcast_tensors", f: func(v vars) variable { return weighted(v[0], autograd.BroadcastTensors(v...)) }, shapes: [][]int{{3, 1}, {2}}},
		gradientCase{op: "tensor_split", f: func(v vars) variable { return weighted(v[0], v[0].TensorSplit(3, 1)) }, shapes: [][]int{{2, 5}}},
		gradientCase{op: "tensor_split", note: "at", f: func(v vars) variable { return weighted(v[0], v[0].TensorSplitAt([]int{1, -1}, 0)) }, shapes: [][]int{{5, 2}}},
	)
}

func TestGumbelSoftmax_DrawsEachClassAsOftenAsItsProbability(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(3)))
	defer g.Release()
	want := []float64{0.1, 0.2, 0.7}
	const rows = 20000
	logits := autograd.FromSlice(g, want).Log().Expand(rows, 3)
	hard := g.Input(keep(t)(logits.Take()), autograd.RequiresGrad()).GumbelSoftmax(0.5, true, -1)
	require.Equal(t, []float64{rows}, valuesOf(t, hard.EqScalar(1).Sum(nil, false)), "one of each row is 1")
	require.Equal(t, []float64{2 * rows}, valuesOf(t, hard.EqScalar(0).Sum(nil, false)))
	for i, share := range valuesOf(t, hard.Mean([]int{0}, false)) {
		require.InDelta(t, want[i], share, 4*math.Sqrt(want[i]*(1-want[i])/rows))
	}
	half := g.Zeros(tensor.Float16, 1000, 8).GumbelSoftmax(1, false, 1)
	require.Equal(t, tensor.Float16, half.DType())
	require.Equal(t, []float64{1}, valuesOf(t, half.IsFinite().All(nil, false)))
	require.NoError(t, g.Err())
}

func TestTensorSplit_MakesNoMorePiecesThanFitIntoMemory(t *testing.T) {
	r := onHost(t)
	for name, split := range map[string]func(x variable) []variable{
		"tensor_split": func(x variable) []variable { return x.TensorSplit(1<<31, 0) },
		"vsplit":       func(x variable) []variable { return x.VSplit(1 << 31) },
	} {
		g := r.graph()
		split(g.Zeros(tensor.Float32, 1<<40, 2, 0))
		require.ErrorContains(t, g.Err(), name)
		g.Release()
	}
}

func TestTensorSplit_CutsAsPyTorchDoes(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Arange(0, 7, 1, tensor.Float64)
	sizes := func(pieces []variable) (list []int) {
		for _, p := range pieces {
			list = append(list, p.Len())
		}
		return list
	}
	require.Equal(t, []int{3, 2, 2}, sizes(x.TensorSplit(3, 0)))
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 0, 0}, sizes(x.TensorSplit(9, 0)))
	require.Equal(t, []int{2, 0, 4, 2}, sizes(x.TensorSplitAt([]int{2, 1, -2}, 0)), "what lies before is empty")
	require.NoError(t, g.Err())
}

func TestGumbelSoftmax_OfNaNIsNaN(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, math.NaN(), 2, 0, 1, 2}, 2, 3))
	for _, hard := range []bool{false, true} {
		got := valuesOf(t, x.GumbelSoftmax(1, hard, -1))
		for i, v := range got {
			require.Equal(t, i < 3, math.IsNaN(v), "hard %v: %v", hard, got)
		}
	}
}

func TestMedian_OfNothingIsNaN(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor(nil, 0, 3), autograd.RequiresGrad())
	m := x.Median()
	require.NoError(t, g.Err())
	require.True(t, math.IsNaN(valuesOf(t, m)[0]))
	require.NoError(t, m.Backward())
	require.Equal(t, tensor.Shape{0, 3}, x.Grad().Shape())
}
