package autograd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// otherNames are those of what the functions of some cases call besides, or PyTorch's of the operation.
var otherNames = map[string]string{
	"entr": "square", "float_power": "square", "lp_pool2d": "square", "mvlgamma": "square", "special_xlog1py": "square",
	"max_unpool1d": "max_pool1d_with_indices", "unpooled": "max_pool2d_with_indices", "vecdot": "linalg_vecdot",
}

// What an operation is made of is nobody's business but its own: errors name what the program called.
func TestComposedOperations_AreNamedByTheirErrors(t *testing.T) {
	r := onSim(t)
	for _, c := range composedCases {
		specs := c.specs(t)
		for i := range specs {
			for _, shape := range oddShapes {
				in := slices.Clone(specs)
				in[i].Shape = shape
				c.names(r, in)
			}
			for _, dt := range []tensor.DType{tensor.Int64, tensor.Bool, tensor.Float16} {
				in := slices.Clone(specs)
				in[i].DType = dt
				c.names(r, in)
			}
		}
	}
}

func (c gradientCase) names(r *rig, in []autograd.Operand) {
	err := c.use(r, in)
	var op *autograd.OpError
	if err == nil {
		return
	}
	require.True(r.t, errors.As(err, &op), "%v", err)
	name, _, _ := strings.Cut(c.op, " ")
	if op.Op != name && op.Op != otherNames[name] {
		r.t.Errorf("%s %s of %v: %v", c.op, c.note, in, err)
	}
}

// The same of arguments that are no tensors, and of operations that are composed in some uses alone.
func TestComposedOperations_AreNamedByErrorsOfArguments(t *testing.T) {
	r := onHost(t)
	x, labels := r.random(1, 2, 3), r.ints([]int64{7, 1}, 2)
	index, mask := r.ints([]int64{5}, 1), r.ints([]int64{1, 0}, 2)
	for name, use := range map[string]func(g *autograd.Graph, v variable){
		"softmin":   func(_ *autograd.Graph, v variable) { v.Softmin(2) },
		"median":    func(_ *autograd.Graph, v variable) { v.MedianDim(2, false) },
		"nanmedian": func(_ *autograd.Graph, v variable) { v.NanMedianDim(-3, false) },
		"mode":      func(_ *autograd.Graph, v variable) { v.ModeDim(2, false) },
		"kthvalue":  func(_ *autograd.Graph, v variable) { v.KthValue(4, 1, false) },
		"cummax":    func(_ *autograd.Graph, v variable) { v.CumMax(2) },
		"ctc_loss": func(g *autograd.Graph, v variable) { // there are classes 0, 1 and 2
			v.CTCLoss(g.Input(labels), []int{2}, []int{2}, autograd.CTC{}, autograd.MeanReduction)
		},
		"tensor_split":   func(_ *autograd.Graph, v variable) { v.TensorSplitAt([]int{1}, 2) },
		"index":          func(g *autograd.Graph, v variable) { v.Index(g.Input(index)) },
		"index_put":      func(g *autograd.Graph, v variable) { v.IndexPut(vars{g.Input(index)}, v.Select(0, 0), false) },
		"index_copy":     func(g *autograd.Graph, v variable) { v.IndexCopy(0, g.Input(index), v.Narrow(0, 0, 1)) },
		"masked_select":  func(g *autograd.Graph, v variable) { v.MaskedSelect(g.Input(mask).GtScalar(0)) },
		"scatter_reduce": func(g *autograd.Graph, v variable) { v.ScatterReduce(2, g.Input(index), v, tensor.ScatterSum, true) },
		"kl_div":         func(g *autograd.Graph, v variable) { v.KLDivLoss(g.Input(labels), false, autograd.BatchMeanReduction) },
		"cross_entropy": func(_ *autograd.Graph, v variable) {
			v.CrossEntropy(v, autograd.ClassWeights(v.Select(0, 0).Narrow(0, 0, 2)))
		},
		"binary_cross_entropy": func(_ *autograd.Graph, v variable) {
			v.BCELoss(v, autograd.MeanReduction, autograd.BCEWeight(v.Narrow(1, 0, 2)))
		},
	} {
		g := r.graph()
		use(g, g.Input(x))
		var op *autograd.OpError
		require.ErrorAs(t, g.Err(), &op, name)
		require.Equal(t, name, op.Op, "%v", g.Err())
		g.Release()
	}
}
