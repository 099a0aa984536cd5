package autograd_test

import (
	"math"
	"testing"

	"github.com/cistern-ml/cistern/autograd"
)

// edgeFunctions compute what testdata/edges.py does.
var edgeFunctions = map[string]func(v vars) *autograd.Variable{
	"pow":                 func(v vars) *autograd.Variable { return v[0].Pow(v[1]) },
	"l1":                  func(v vars) *autograd.Variable { return v[0].L1Loss(v[1], autograd.NoReduction) },
	"smooth_l1":           func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 1, autograd.NoReduction) },
	"huber":               func(v vars) *autograd.Variable { return v[0].HuberLoss(v[1], 1, autograd.NoReduction) },
	"mse":                 func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.NoReduction) },
	"prod":                func(v vars) *autograd.Variable { return v[0].Prod(nil, false) },
	"prod_dim":            func(v vars) *autograd.Variable { return v[0].Prod([]int{0}, false) },
	"remainder":           func(v vars) *autograd.Variable { return v[0].Remainder(v[1]) },
	"fmod":                func(v vars) *autograd.Variable { return v[0].Fmod(v[1]) },
	"remainder_inf":       func(v vars) *autograd.Variable { return v[0].RemainderScalar(math.Inf(1)) },
	"remainder_minus_inf": func(v vars) *autograd.Variable { return v[0].RemainderScalar(math.Inf(-1)) },
	"fmod_inf":            func(v vars) *autograd.Variable { return v[0].FmodScalar(math.Inf(1)) },
	"batchmean":           func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], false, autograd.BatchMeanReduction) },
	"silu":                func(v vars) *autograd.Variable { return v[0].SiLU() },
	"gelu":                func(v vars) *autograd.Variable { return v[0].GELU() },
	"gelu_tanh":           func(v vars) *autograd.Variable { return v[0].GELUTanh() },
	"sigmoid":             func(v vars) *autograd.Variable { return v[0].Sigmoid() },
	"softplus":            func(v vars) *autograd.Variable { return v[0].Softplus(1, 20) },
}

func init() {
	for word, s := range map[string]float64{
		"0.0": 0, "-1.0": -1, "0.5": 0.5, "1.0": 1, "2.0": 2, "inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(),
	} {
		edgeFunctions["rpow_scalar "+word] = func(v vars) *autograd.Variable { return v[0].RPowScalar(s) }
		edgeFunctions["pow_scalar "+word] = func(v vars) *autograd.Variable { return v[0].PowScalar(s) }
	}
	for word, r := range map[string]autograd.Reduction{
		"none": autograd.NoReduction, "mean": autograd.MeanReduction, "sum": autograd.SumReduction,
	} {
		edgeFunctions["probabilities "+word] = func(v vars) *autograd.Variable { return v[0].CrossEntropy(v[1], autograd.Reduce(r)) }
		edgeFunctions["probabilities_smoothed "+word] = func(v vars) *autograd.Variable {
			return v[0].CrossEntropy(v[1], autograd.Reduce(r), autograd.LabelSmoothing(0.1))
		}
		edgeFunctions["probabilities_weighted "+word] = func(v vars) *autograd.Variable {
			return v[0].CrossEntropy(v[1], autograd.Reduce(r), autograd.LabelSmoothing(0.1), autograd.ClassWeights(v[2]))
		}
	}
	for i, word := range []string{"0", "1", "2", "3"} {
		edgeFunctions["var "+word] = func(v vars) *autograd.Variable { return v[0].Var([]int{1}, i, false) }
		edgeFunctions["std "+word] = func(v vars) *autograd.Variable { return v[0].Std([]int{1}, i, false) }
	}
}

func TestEdges_AreThoseOfPyTorch(t *testing.T) { checkEdges(t, onHost) }

func checkEdges(t *testing.T, rigOf func(*testing.T) *rig) {
	checkFile(t, "edges.json", rigOf, edgeFunctions, func(out *autograd.Variable) *autograd.Variable { return out })
}
