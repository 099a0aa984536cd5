package amp_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Runs of normalisations, and of operations with an index for each element.

func init() {
	for _, op := range []string{"layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm"} {
		for _, kind := range []string{"", "_weight", "_affine"} {
			if op+kind != "rms_norm_affine" {
				runs[op+kind] = normRun(op)
			}
		}
	}
	maps.Copy(runs, gatherRuns)
}

// normRun normalises the first argument, with a row of each other one as weight and bias.
func normRun(op string) func(*rig, vars) *autograd.Variable {
	return func(_ *rig, in vars) *autograd.Variable {
		var w [2]*autograd.Variable
		for i := range in[1:] {
			w[i] = in[i+1].Select(0, 0)
		}
		switch op {
		case "layer_norm":
			return in[0].LayerNorm([]int{4}, w[0], w[1], 1e-5)
		case "rms_norm":
			return in[0].RMSNorm([]int{4}, w[0], autograd.DefaultEps)
		case "group_norm":
			return in[0].GroupNorm(2, w[0], w[1], 1e-5)
		case "instance_norm":
			return in[0].Unsqueeze(2).Expand(4, 4, 2).InstanceNorm(w[0], w[1], 1e-5)
		}
		return in[0].BatchNorm(nil, nil, w[0], w[1], true, 0.1, 1e-5)
	}
}

var gatherRuns = map[string]func(*rig, vars) *autograd.Variable{
	"embedding": func(r *rig, in vars) *autograd.Variable { return in[0].Embedding(r.classes(in[0])) },
	"embedding_bag": func(r *rig, in vars) *autograd.Variable {
		return in[0].EmbeddingBag(r.places(in[0]), nil, tensor.BagMean)
	},
	"gather":         func(r *rig, in vars) *autograd.Variable { return in[0].Gather(1, r.places(in[0])) },
	"take_along_dim": func(r *rig, in vars) *autograd.Variable { return in[0].TakeAlongDim(r.places(in[0]), 1) },
	"scatter":        func(r *rig, in vars) *autograd.Variable { return in[0].Scatter(1, r.places(in[0]), in[1]) },
	"scatter_value":  func(r *rig, in vars) *autograd.Variable { return in[0].ScatterValue(1, r.places(in[0]), 2.5) },
	"scatter_add":    func(r *rig, in vars) *autograd.Variable { return in[0].ScatterAdd(1, r.places(in[0]), in[1]) },
	"index_add":      func(r *rig, in vars) *autograd.Variable { return in[0].IndexAdd(0, r.classes(in[0]), in[1]) },
	"one_hot":        func(r *rig, in vars) *autograd.Variable { return r.classes(in[0]).OneHot(4) },
	"masked_fill": func(r *rig, in vars) *autograd.Variable {
		mask := r.keep(tensor.FromSlice(r.exec, []bool{true, false, false, true}))
		return in[0].MaskedFill(in[0].Graph().Input(mask), 1.5)
	},
}

// places are indices [4, 1].
func (r *rig) places(v *autograd.Variable) *autograd.Variable { return r.classes(v).Unsqueeze(1) }

// As in PyTorch, the activations are of half precision, and weights, their gradients and the statistics stay float32.
func TestAutocast_BatchNormKeepsItsParametersInFloat32(t *testing.T) {
	r := onHost(t)
	parameter := func(v float64) *autograd.Parameter {
		p := autograd.NewParameter("p", r.full(v, tensor.Float32, 4).Retain())
		t.Cleanup(p.Release)
		return p
	}
	weight, bias, mean, variance := parameter(2), parameter(1), parameter(0), parameter(1)
	g := r.graph(amp.Autocast(tensor.Float16))
	defer g.Release()
	x := g.Input(r.keep(tensor.FromSlice(r.exec, []float32{1, 2, 3, 4, 5, 6, 7, 9}, 2, 4)))
	identity := g.Input(r.keep(tensor.FromSlice(r.exec, []float32{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, 4, 4)))
	y := x.MatMul(identity).BatchNorm(mean, variance, g.Param(weight), g.Param(bias), true, 0.1, 1e-5)
	require.NoError(t, g.Err())
	require.Equal(t, tensor.Float16, y.DType())
	require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
	require.Equal(t, tensor.Float32, weight.Grad().DType())
	got, err := mean.Tensor().Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{0.3, 0.4, 0.5, 0.65}, got, 1e-6)
	got, err = weight.Grad().Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{8, 8, 8, 8}, got, 1e-2, "2*(3-(-1)) of normalised numbers 1 and -1")
}
