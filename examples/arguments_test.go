package examples

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// sideBySide are calls of docs/from-pytorch.md's tables whose arguments, or their defaults, are written otherwise in Go.
func sideBySide(v, u *autograd.Variable) map[string]*autograd.Variable {
	y, pad := u, []int{1, 1}
	sorted, _ := v.Sort(1, false)
	return map[string]*autograd.Variable{
		"x.flatten(1) | v.Flatten(1, -1)":                                       v.Flatten(1, -1),
		"x.transpose(0, 1) | v.Transpose(0, 1)":                                 v.Transpose(0, 1),
		"x.repeat_interleave(2, 0) | v.RepeatInterleave(2, 0)":                  v.RepeatInterleave(2, 0),
		"x.chunk(2) | v.Chunk(2, 0)":                                            v.Chunk(2, 0)[0],
		"x.flip(0) | v.Flip(0)":                                                 v.Flip(0),
		"x.tril() | v.Tril(0)":                                                  v.Tril(0),
		"x.triu() | v.Triu(0)":                                                  v.Triu(0),
		"F.pad(x, (1, 1)) | v.Pad(pad, tensor.PadConstant, 0)":                  v.Pad(pad, tensor.PadConstant, 0),
		"x[:, 2] | v.Select(1, 2)":                                              v.Select(1, 2),
		"x[:, ::2] | v.Slice(1, 0, tensor.End, 2)":                              v.Slice(1, 0, tensor.End, 2),
		"2 - x | v.RSubScalar(2)":                                               v.RSubScalar(2),
		"1 / x | v.Reciprocal()":                                                v.Reciprocal(),
		"x ** 2 | v.PowScalar(2)":                                               v.PowScalar(2),
		"x % y | v.Remainder(u)":                                                v.Remainder(u),
		"x.round() | v.Round()":                                                 v.Round(),
		"torch.lerp(x, y, 0.5) | v.LerpScalar(u, 0.5)":                          v.LerpScalar(u, 0.5),
		"x.add_(y) | v.AddInPlace(u, 1)":                                        v.MulScalar(1).AddInPlace(u, 1),
		"F.gelu(x) | v.GELU()":                                                  v.GELU(),
		"F.silu(x) | v.SiLU()":                                                  v.SiLU(),
		"F.softplus(x) | v.Softplus(1, 20)":                                     v.Softplus(1, 20),
		"F.leaky_relu(x, 0.01) | v.LeakyReLU(0.01)":                             v.LeakyReLU(0.01),
		"F.softmax(x, -1) | v.Softmax(-1)":                                      v.Softmax(-1),
		"x.sum() | v.Sum(nil, false)":                                           v.Sum(nil, false),
		"x.sum(1) | v.Sum([]int{1}, false)":                                     v.Sum([]int{1}, false),
		"x.sum((0, 1), keepdim=True) | v.Sum([]int{0, 1}, true)":                v.Sum([]int{0, 1}, true),
		"x.std(1) | v.Std([]int{1}, 1, false)":                                  v.Std([]int{1}, 1, false),
		"x.var(1) | v.Var([]int{1}, 1, false)":                                  v.Var([]int{1}, 1, false),
		"x.amax(1) | v.Max([]int{1}, false)":                                    v.Max([]int{1}, false),
		"x.argmax(1) | v.ArgMax(1, false)":                                      v.ArgMax(1, false),
		"x.norm() | v.Norm(2, nil, false)":                                      v.Norm(2, nil, false),
		"x.cumsum(1) | v.CumSum(1)":                                             v.CumSum(1),
		"x.sort(1) | v.Sort(1, false)":                                          sorted,
		"x.argsort(1) | v.ArgSort(1, false)":                                    v.ArgSort(1, false),
		"x.median() | v.Median()":                                               v.Median(),
		"x.quantile(0.5, 1) | v.Quantile(0.5, 1, false, autograd.Linear)":       v.Quantile(0.5, 1, false, autograd.Linear),
		"torch.histc(x) | v.Histc(100, 0, 0)":                                   v.Histc(100, 0, 0),
		"x @ y | v.MatMul(u)":                                                   v.MatMul(u),
		"F.mse_loss(x, y) | v.MSELoss(y, autograd.MeanReduction)":               v.MSELoss(y, autograd.MeanReduction),
		"F.l1_loss(x, y) | v.L1Loss(y, autograd.MeanReduction)":                 v.L1Loss(y, autograd.MeanReduction),
		"F.smooth_l1_loss(x, y) | v.SmoothL1Loss(y, 1, autograd.MeanReduction)": v.SmoothL1Loss(y, 1, autograd.MeanReduction),
		"F.huber_loss(x, y) | v.HuberLoss(y, 1, autograd.MeanReduction)":        v.HuberLoss(y, 1, autograd.MeanReduction),
		"F.binary_cross_entropy_with_logits(x, y) | v.BCEWithLogitsLoss(y, autograd.MeanReduction)": v.BCEWithLogitsLoss(y, autograd.MeanReduction),
		"F.kl_div(x, y) | v.KLDivLoss(y, false, autograd.MeanReduction)":                            v.KLDivLoss(y, false, autograd.MeanReduction),
	}
}

func TestFromPyTorch_CallsSideBySideHaveTheSameValues(t *testing.T) {
	text, err := os.ReadFile("testdata/frompytorch.json")
	require.NoError(t, err)
	var golden struct {
		X, Y    []float32
		Results map[string]struct {
			Shape  []int
			Values []float64
		}
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	doc, err := os.ReadFile("../docs/from-pytorch.md")
	require.NoError(t, err)

	dev, _ := rig(t)
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	calls := sideBySide(autograd.FromSlice(g, golden.X, 3, 3), autograd.FromSlice(g, golden.Y, 3, 3))
	require.NoError(t, g.Err())
	require.Len(t, calls, len(golden.Results))
	for call, v := range calls {
		theirs, ours, _ := strings.Cut(call, " | ")
		require.True(t, standTogether(string(doc), theirs, ours), "no row has %s", call)
		want, ok := golden.Results[theirs]
		require.True(t, ok, theirs)
		require.Equal(t, want.Shape, append([]int{}, v.Shape()...), call)
		got, err := v.Float64s()
		require.NoError(t, err)
		require.InDeltaSlice(t, want.Values, got, 1e-6, call)
	}
}

// standTogether reports whether a row of a table has one piece of code in its first column and the other in its second.
func standTogether(doc, theirs, ours string) bool {
	for line := range strings.Lines(doc) {
		left, right, _ := strings.Cut(line, " | ")
		if strings.Contains(left, "`"+theirs+"`") && strings.Contains(right, "`"+ours+"`") {
			return true
		}
	}
	return false
}
