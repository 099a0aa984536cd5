package autograd_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// number is a float that JSON may write as "nan", "inf" or "-inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "nan":
		*n = number(math.NaN())
	case "inf":
		*n = number(math.Inf(1))
	case "-inf":
		*n = number(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

// golden is what PyTorch computed: see testdata/gradients.py.
type golden struct {
	Name   string
	DType  string
	Inputs []struct {
		Shape []int
		Data  []number
		Int   bool
	}
	Out   []number
	Shape []int // of the result
	Grads [][]number

	Second  [][]number // what differentiating the gradients gives, nil where PyTorch cannot
	OutType string     // if it is another one, or the case has no gradients
}

// goldenFunctions compute what the cases of the same name do; what follows the first word is a variant.
var goldenFunctions = map[string]func(v vars) *autograd.Variable{
	"relu":                 func(v vars) *autograd.Variable { return v[0].ReLU() },
	"leaky_relu":           func(v vars) *autograd.Variable { return v[0].LeakyReLU(0.1) },
	"abs":                  func(v vars) *autograd.Variable { return v[0].Abs() },
	"clamp":                func(v vars) *autograd.Variable { return v[0].Clamp(-0.5, 0.5) },
	"maximum":              func(v vars) *autograd.Variable { return v[0].Maximum(v[1]) },
	"minimum":              func(v vars) *autograd.Variable { return v[0].Minimum(v[1]) },
	"amax":                 func(v vars) *autograd.Variable { return v[0].Max([]int{0, 1}, false) },
	"amin":                 func(v vars) *autograd.Variable { return v[0].Min([]int{1}, false) },
	"pow_scalar 0":         func(v vars) *autograd.Variable { return v[0].PowScalar(0) },
	"pow_scalar 2":         func(v vars) *autograd.Variable { return v[0].PowScalar(2) },
	"pow_scalar 0.5":       func(v vars) *autograd.Variable { return v[0].PowScalar(0.5) },
	"pow":                  func(v vars) *autograd.Variable { return v[0].Pow(v[1]) },
	"sqrt":                 func(v vars) *autograd.Variable { return v[0].Sqrt() },
	"log":                  func(v vars) *autograd.Variable { return v[0].Log() },
	"rsqrt":                func(v vars) *autograd.Variable { return v[0].Rsqrt() },
	"reciprocal":           func(v vars) *autograd.Variable { return v[0].Reciprocal() },
	"div":                  func(v vars) *autograd.Variable { return v[0].Div(v[1]) },
	"where":                func(v vars) *autograd.Variable { return autograd.Where(v[0].To(tensor.Bool), v[1].Log(), v[2]) },
	"where_scalar":         func(v vars) *autograd.Variable { return autograd.WhereScalar(v[0].To(tensor.Bool), v[1].Log(), 0.5) },
	"rwhere_scalar":        func(v vars) *autograd.Variable { return autograd.RWhereScalar(v[0].To(tensor.Bool), 0.5, v[1].Log()) },
	"std 0":                func(v vars) *autograd.Variable { return v[0].Std([]int{1}, 1, false) },
	"var 1":                func(v vars) *autograd.Variable { return v[0].Var([]int{1}, 1, false) },
	"softplus":             func(v vars) *autograd.Variable { return v[0].Softplus(2, 20) },
	"linear_bias gelu":     func(v vars) *autograd.Variable { return v[0].LinearGELU(v[1], v[2]) },
	"linear_bias geluTanh": func(v vars) *autograd.Variable { return v[0].LinearGELUTanh(v[1], v[2]) },
	"linear_bias relu":     func(v vars) *autograd.Variable { return v[0].LinearReLU(v[1], v[2]) },
	"gelu":                 func(v vars) *autograd.Variable { return v[0].GELU() },
	"gelu_tanh":            func(v vars) *autograd.Variable { return v[0].GELUTanh() },
	"silu":                 func(v vars) *autograd.Variable { return v[0].SiLU() },
	"sigmoid":              func(v vars) *autograd.Variable { return v[0].Sigmoid() },
	"softmax":              weightedSoftmax,
	"cross_entropy mean":   crossEntropy(),
	"cross_entropy ignore": crossEntropy(),
	"cross_entropy all":    crossEntropy(),
	"cross_entropy pixels": crossEntropy(),
	"cross_entropy sum":    crossEntropy(autograd.Reduce(autograd.SumReduction)),
	"cross_entropy none":   crossEntropy(autograd.Reduce(autograd.NoReduction)),
	"nll_loss mean":        func(v vars) *autograd.Variable { return v[0].NLLLoss(v[1]) },
	"mse_loss mean":        func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.MeanReduction) },
	"mse_loss sum":         func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.SumReduction) },
	"l1_loss mean":         func(v vars) *autograd.Variable { return v[0].L1Loss(v[1], autograd.MeanReduction) },
	"bce mean":             func(v vars) *autograd.Variable { return v[0].BCEWithLogitsLoss(v[1], autograd.MeanReduction) },
	"bce none":             func(v vars) *autograd.Variable { return v[0].BCEWithLogitsLoss(v[1], autograd.NoReduction) },
	"smooth_l1":            func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 1, autograd.MeanReduction) },
	"smooth_l1 beta":       func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 0.5, autograd.NoReduction) },
	"huber":                func(v vars) *autograd.Variable { return v[0].HuberLoss(v[1], 0.5, autograd.SumReduction) },
	"kl_div mean":          func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], false, autograd.MeanReduction) },
	"kl_div batchmean":     func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], false, autograd.BatchMeanReduction) },
	"kl_div log":           func(v vars) *autograd.Variable { return v[0].KLDivLoss(v[1], true, autograd.SumReduction) },
	"probable":             func(v vars) *autograd.Variable { return v[0].BCELoss(v[1], autograd.MeanReduction) },
	"bce weights": func(v vars) *autograd.Variable {
		return v[0].BCEWithLogitsLoss(v[1], autograd.MeanReduction, autograd.BCEWeight(v[2].Detach()), autograd.PosWeight(v[3].Detach()))
	},
	"cross_entropy weights": func(v vars) *autograd.Variable { return v[0].CrossEntropy(v[1], autograd.ClassWeights(v[2])) },
	"cross_entropy smoothed": func(v vars) *autograd.Variable {
		return v[0].CrossEntropy(v[1], autograd.ClassWeights(v[2]), autograd.LabelSmoothing(0.1))
	},
	"cross_entropy smoothed none": func(v vars) *autograd.Variable {
		return v[0].CrossEntropy(v[1], autograd.LabelSmoothing(0.3), autograd.Reduce(autograd.NoReduction))
	},
	"cross_entropy probabilities": func(v vars) *autograd.Variable {
		return v[0].CrossEntropy(v[1], autograd.ClassWeights(v[2]), autograd.LabelSmoothing(0.2))
	},
	"nll_loss weights":      func(v vars) *autograd.Variable { return v[0].NLLLoss(v[1], autograd.ClassWeights(v[2])) },
	"attention":             attend(),
	"attention causal":      attend(autograd.IsCausal()),
	"attention lower right": attend(autograd.CausalLowerRight()),
	"attention scaled":      attend(autograd.AttnScale(2)),
	"attention gqa":         attend(autograd.EnableGQA()),
	"attention float mask": func(v vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(v[0], v[1], v[2], autograd.AttnMask(v[3]))
	},
	"attention mask": func(v vars) *autograd.Variable {
		return autograd.ScaledDotProductAttention(v[0], v[1], v[2], autograd.AttnMask(v[3].To(tensor.Bool)))
	},
	"embedding": func(v vars) *autograd.Variable { return v[0].Embedding(v[1]) },
	"mlp": func(v vars) *autograd.Variable {
		return v[0].Linear(v[2], v[3]).Tanh().Linear(v[4], v[5]).CrossEntropy(v[1])
	},
}

func weightedSoftmax(v vars) *autograd.Variable {
	weights := v[0].Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.Arange(e, 0, 3, 1, tensor.Float64)
	})
	return v[0].Softmax(0).Mul(weights)
}

// goldenFunction finds the function by the longest prefix of the case's name, in words.
func goldenFunction(functions map[string]func(v vars) *autograd.Variable, name string) func(v vars) *autograd.Variable {
	for words := strings.Fields(name); len(words) > 0; words = words[:len(words)-1] {
		if f := functions[strings.Join(words, " ")]; f != nil {
			return f
		}
	}
	return nil
}

func TestValuesAndGradients_AreThoseOfPyTorch(t *testing.T) { checkGolden(t, onHost) }

func checkGolden(t *testing.T, rigOf func(*testing.T) *rig) {
	checkGoldenFile(t, rigOf, "gradients.json")
	checkGoldenFile(t, rigOf, "operations.json")
}

func checkGoldenFile(t *testing.T, rigOf func(*testing.T) *rig, file string) {
	checkFile(t, file, rigOf, goldenFunctions, func(out *autograd.Variable) *autograd.Variable { return out })
}

// checkFile checks the cases of a file. weigh is what the script did to the result before it summed it and ran backward.
func checkFile(t *testing.T, file string, rigOf func(*testing.T) *rig, functions map[string]func(v vars) *autograd.Variable,
	weigh func(out *autograd.Variable) *autograd.Variable,
) {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			f := goldenFunction(functions, c.Name)
			require.NotNil(t, f)
			c.check(t, rigOf(t), f, weigh)
		})
	}
}

func (c *golden) check(t *testing.T, r *rig, f func(v vars) *autograd.Variable, weigh func(out *autograd.Variable) *autograd.Variable) {
	g := r.graph()
	defer g.Release()
	tolerance := 1e-12
	dt := tensor.Float64
	if c.DType == "float32" {
		tolerance, dt = 1e-6, tensor.Float32
	}
	var in vars
	for _, i := range c.Inputs {
		x := r.tensor(floats(i.Data), append([]int{}, i.Shape...)...)
		if i.Int {
			in = append(in, g.Input(keep(t)(x.To(tensor.Int64))))
		} else {
			in = append(in, g.Input(keep(t)(x.To(dt)), autograd.RequiresGrad()))
		}
	}
	out := f(in).Keep()
	if len(c.OutType) == 0 || slices.ContainsFunc(c.Grads, func(g []number) bool { return g != nil }) {
		require.NoError(t, weigh(out).Sum(nil, false).Backward())
	}
	near(t, "result", floats(c.Out), valuesOf(t, out), tolerance)
	require.Equal(t, tensor.Shape(c.Shape), slices.Clone(out.Shape()), "shape of the result")
	if len(c.OutType) > 0 {
		require.Equal(t, c.OutType, out.DType().String())
	} else {
		require.Equal(t, dt, out.DType())
	}
	for i, want := range c.Grads {
		if want != nil {
			require.Equal(t, in[i].Shape(), in[i].Grad().Shape(), "shape of gradient %d", i)
			require.Equal(t, in[i].DType(), in[i].Grad().DType())
			near(t, "gradient", floats(want), values(t, in[i].Grad()), tolerance)
		}
	}
}

func floats(ns []number) []float64 {
	fs := make([]float64, len(ns))
	for i, n := range ns {
		fs[i] = float64(n)
	}
	return fs
}

// near demands equal infinities and NaNs, and differences of at most tolerance relative to 1 or to the value.
func near(t *testing.T, what string, want, got []float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		same := want[i] == got[i] || math.IsNaN(want[i]) && math.IsNaN(got[i])
		if !same && !(math.Abs(want[i]-got[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			require.Failf(t, "values differ", "%s %d: want %v, got %v", what, i, want, got)
		}
	}
}
