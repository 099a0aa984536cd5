package autograd_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

type nanCase struct {
	Name  string
	X     [][]number
	Grads [][]number
}

// nanOperations are those of testdata/nan.py.
var nanOperations = map[string]func(v vars) *autograd.Variable{
	"relu": func(v vars) *autograd.Variable { return v[0].ReLU() }, "relu_": func(v vars) *autograd.Variable { return v[0].MulScalar(1).ReLUInPlace() },
	"leaky_relu": func(v vars) *autograd.Variable { return v[0].LeakyReLU(0.01) }, "elu": func(v vars) *autograd.Variable { return v[0].ELU(1) },
	"gelu": func(v vars) *autograd.Variable { return v[0].GELU() }, "gelu_tanh": func(v vars) *autograd.Variable { return v[0].GELUTanh() },
	"silu": func(v vars) *autograd.Variable { return v[0].SiLU() }, "softplus": func(v vars) *autograd.Variable { return v[0].Softplus(1, 20) },
	"clamp": func(v vars) *autograd.Variable { return v[0].Clamp(-1, 1) }, "abs": func(v vars) *autograd.Variable { return v[0].Abs() },
	"sigmoid": func(v vars) *autograd.Variable { return v[0].Sigmoid() }, "tanh": func(v vars) *autograd.Variable { return v[0].Tanh() },
	"amax": func(v vars) *autograd.Variable { return v[0].Max([]int{1}, false) }, "amin": func(v vars) *autograd.Variable { return v[0].Min([]int{1}, true) },
	"max":      func(v vars) *autograd.Variable { m, _ := v[0].MaxDim(1, false); return m },
	"min":      func(v vars) *autograd.Variable { m, _ := v[0].MinDim(1, false); return m },
	"norm_inf": func(v vars) *autograd.Variable { return v[0].Norm(math.Inf(1), []int{1}, false) },
	"norm_1":   func(v vars) *autograd.Variable { return v[0].Norm(1, []int{1}, false) },
	"norm_2":   func(v vars) *autograd.Variable { return v[0].Norm(2, []int{1}, false) },
	"prod":     func(v vars) *autograd.Variable { return v[0].Prod([]int{1}, false) },
	"max_pool1d": func(v vars) *autograd.Variable {
		return v[0].MaxPool1d(tensor.Pool{Kernel: []int{2}})
	},
	"adaptive_max_pool1d": func(v vars) *autograd.Variable { return v[0].AdaptiveMaxPool1d(2) },
	"div_scalar":          func(v vars) *autograd.Variable { return v[0].DivScalar(3) },
	"linear_relu": func(v vars) *autograd.Variable {
		g := v[0].Graph()
		return v[0].LinearReLU(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Eye(e, tensor.Float64, 4) }),
			g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float64, 4) }))
	},
	"maximum":   func(v vars) *autograd.Variable { return v[0].Maximum(v[1]) },
	"minimum":   func(v vars) *autograd.Variable { return v[0].Minimum(v[1]) },
	"smooth_l1": func(v vars) *autograd.Variable { return v[0].SmoothL1Loss(v[1], 1, autograd.NoReduction) },
	"median":    func(v vars) *autograd.Variable { return v[0].Median() },
	"nanmedian": func(v vars) *autograd.Variable { return firstOf(v[0].NanMedianDim(1, false)) }, "median_dim": func(v vars) *autograd.Variable { return firstOf(v[0].MedianDim(1, false)) },
	"kthvalue": func(v vars) *autograd.Variable { return firstOf(v[0].KthValue(2, 1, false)) }, "cummax": func(v vars) *autograd.Variable { return firstOf(v[0].CumMax(1)) },
	"cummin":   func(v vars) *autograd.Variable { return firstOf(v[0].CumMin(1)) },
	"quantile": func(v vars) *autograd.Variable { return v[0].Quantile(0.3, 1, false, autograd.Linear) }, "norm_inf_all": func(v vars) *autograd.Variable { return v[0].Norm(math.Inf(1), nil, false) },
	"mse": func(v vars) *autograd.Variable { return v[0].MSELoss(v[1], autograd.NoReduction) },
}

func TestGradients_AtNaNAndInfinitiesAreThoseOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/nan.json")
	require.NoError(t, err)
	var cases []nanCase
	require.NoError(t, json.Unmarshal(text, &cases))
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.Name] = true
		r := onHost(t)
		g := r.graph()
		var in vars
		for i := range c.Grads {
			flat := make([]float64, 0, len(c.X)*len(c.X[0]))
			for k := range c.X {
				row := c.X[k]
				if i > 0 { // the second operand has the rows in the opposite order
					row = c.X[len(c.X)-1-k]
				}
				for _, v := range row {
					flat = append(flat, float64(v))
				}
			}
			x := r.tensor(flat, len(c.X), len(c.X[0]))
			in = append(in, g.Input(x, autograd.RequiresGrad()))
		}
		require.NoError(t, nanOperations[c.Name](in).MulScalar(2).Sum(nil, false).Backward(), c.Name)
		for i, want := range c.Grads {
			got := values(t, in[i].Grad())
			for k := range want {
				switch w := float64(want[k]); {
				case math.IsNaN(w):
					assert.True(t, math.IsNaN(got[k]), "%s %v: gradient %d at %d is %v, not NaN", c.Name, c.X, i, k, got[k])
				case math.IsInf(w, 0):
					assert.Equal(t, w, got[k], "%s %v: gradient %d at %d", c.Name, c.X, i, k)
				default:
					assert.InDelta(t, w, got[k], 1e-12, "%s %v: gradient %d at %d", c.Name, c.X, i, k)
				}
			}
		}
		g.Release()
	}
	for name := range nanOperations {
		assert.True(t, seen[name], name)
	}
}

// PyTorch multiplies the gradient by a derivative that is 0 in these places, so that one that is NaN stays NaN.
func TestPow_PassesGradientsThatAreNaN(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	of := func(x ...float64) *autograd.Variable {
		return g.Input(r.tensor(x, len(x)), autograd.RequiresGrad())
	}
	for name, f := range map[string]func(u *autograd.Variable) *autograd.Variable{
		"0 to the power of u":   func(u *autograd.Variable) *autograd.Variable { return of(0, 0, 0).Pow(u) },
		"the number 0 likewise": func(u *autograd.Variable) *autograd.Variable { return u.RPowScalar(0) },
		"the number 2":          func(u *autograd.Variable) *autograd.Variable { return u.RPowScalar(2) },
	} {
		u := of(1, 0, 2)
		seed := r.tensor([]float64{math.NaN(), math.NaN(), 1}, 3)
		require.NoError(t, f(u).Backward(autograd.WithGradient(seed)), name)
		got := values(t, u.Grad())
		require.True(t, math.IsNaN(got[0]) && math.IsNaN(got[1]), "%s: %v", name, got)
		require.False(t, math.IsNaN(got[2]), "%s: %v", name, got)
	}
}
