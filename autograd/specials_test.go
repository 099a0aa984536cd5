package autograd_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// special is a case of testdata/specials.py. Texts are infinities, NaN, negative zeros, and "open" where PyTorch's kernels disagree.
type special struct {
	Name, DType string
	Inputs      []any
	Want        []any
}

func specialNumber(x any) float64 {
	switch x {
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	case "nan":
		return math.NaN()
	case "-0.0":
		return math.Copysign(0, -1)
	}
	return x.(float64)
}

// specialDerivatives are, of each case, the result, the first derivatives by all inputs and the second ones; PyTorch's script says of what. The cases are
// of one operation and type: each is an element.
func specialDerivatives(t *testing.T, cases []special) [][]float64 {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	var in vars
	for i := range cases[0].Inputs {
		numbers := make([]float64, len(cases))
		for k, c := range cases {
			numbers[k] = specialNumber(c.Inputs[i])
		}
		wide, err := tensor.FromSlice(r.exec, numbers, len(numbers))
		require.NoError(t, err)
		x := wide
		if cases[0].DType == "float32" {
			x, err = wide.To(tensor.Float32)
			require.NoError(t, err)
			wide.Release()
		}
		in = append(in, g.Input(x, autograd.RequiresGrad()))
		x.Release()
	}
	out := tableOperations[cases[0].Name](in)
	first, err := autograd.Grad([]variable{out.Sum(nil, false)}, in, autograd.CreateGraph())
	require.NoError(t, err)
	total := g.Zeros(out.DType(), len(cases))
	for _, f := range first {
		if f != nil {
			total = total.Add(f)
		}
	}
	second := make([]variable, len(in))
	if total.RequiresGrad() {
		second, err = autograd.Grad([]variable{total.Sum(nil, false)}, in, autograd.CreateGraph())
		require.NoError(t, err)
	}
	all := make([][]float64, len(cases))
	for _, v := range slices.Concat([]variable{out}, first, second) {
		numbers := make([]float64, len(cases))
		if v != nil {
			numbers = valuesOf(t, v)
		}
		for k := range all {
			all[k] = append(all[k], numbers[k])
		}
	}
	return all
}

// specialsDeclared are the places where the answers are others than PyTorch 1.13's; docs/parity-ops.md says so too. It gets the inputs, the number of the
// answer (the result, the first derivatives, the second ones) and PyTorch's.
var specialsDeclared = map[string]func(in []float64, i int, want float64) bool{
	"acos": limitForNaN, "asin": limitForNaN, "asinh": limitForNaN, "atanh": limitForNaN, "erf": limitForNaN, "erfc": limitForNaN,
	"polygamma": limitForNaN, "mish": limitForNaN, "pow": limitForNaN,
	"logaddexp": func(_ []float64, i int, want float64) bool { return math.IsNaN(want) || i > 2 && math.Abs(want) < 1e-7 }, // 0 but for rounding
	"atan2": func(in []float64, _ int, want float64) bool { // squares that are 0 in float32
		return math.IsNaN(want) || max(math.Abs(in[0]), math.Abs(in[1])) < 0x1p-120
	},
	"gelu":      func(in []float64, _ int, want float64) bool { return math.IsNaN(want) || in[0] == -6 }, // and what is cut off in float32
	"gelu_tanh": func(in []float64, _ int, want float64) bool { return math.IsNaN(want) || math.Abs(in[0]) == 6 },
	"hardswish": func(in []float64, i int, _ float64) bool { return i == 0 && in[0] > 1e38 || i == 1 && in[0] == -3 },
	"lgamma":    func(in []float64, i int, _ float64) bool { return i == 2 && in[0] < 0 }, // the poles
	"digamma":   func(in []float64, _ int, want float64) bool { return math.IsNaN(want) || in[0] < 0 },
	"log1p":     func(in []float64, _ int, _ float64) bool { return in[0] > 1e38 },
	"softshrink": func(in []float64, i int, _ float64) bool {
		return i == 0 && math.IsNaN(in[0])
	},
	"softsign": func(in []float64, i int, want float64) bool {
		return math.IsNaN(want) || i == 2 && math.Abs(in[0]) == 1e4
	},
}

// limitForNaN is where a step of PyTorch's formula is infinity times 0, and ours is the limit.
func limitForNaN(_ []float64, _ int, want float64) bool { return math.IsNaN(want) }

func TestSpecialNumbers_HaveTheDerivativesOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/specials.json")
	require.NoError(t, err)
	var cases []special
	require.NoError(t, json.Unmarshal(text, &cases))
	for len(cases) > 0 {
		n := slices.IndexFunc(cases, func(c special) bool { return c.Name != cases[0].Name || c.DType != cases[0].DType })
		if n < 0 {
			n = len(cases)
		}
		for k, got := range specialDerivatives(t, cases[:n]) {
			if wrong := cases[k].differences(got); len(wrong) > 0 {
				t.Errorf("%s %s %v: %s", cases[k].Name, cases[k].DType, cases[k].Inputs, strings.Join(wrong, "; "))
			}
		}
		cases = cases[n:]
	}
}

func (c special) differences(all []float64) (wrong []string) {
	in := make([]float64, len(c.Inputs))
	for i, x := range c.Inputs {
		in[i] = specialNumber(x)
	}
	for i, got := range all {
		if c.Want[i] == "open" {
			continue
		}
		want := specialNumber(c.Want[i])
		if declared := specialsDeclared[c.Name]; !nearSpecial(want, got, c.DType) && (declared == nil || !declared(in, i, want)) {
			wrong = append(wrong, fmt.Sprintf("%d: %v, want %v", i, got, want))
		}
	}
	return wrong
}

func nearSpecial(want, got float64, dtype string) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) == math.IsNaN(got)
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) {
		return want == got
	}
	tol, least := 1e-9, 0x1p-1021
	if dtype == "float32" {
		tol, least = 1e-4, 0x1p-125
	}
	return math.Abs(want-got) <= tol*math.Abs(want)+least
}
