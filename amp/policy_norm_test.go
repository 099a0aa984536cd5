package amp_test

import (
	"maps"

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
