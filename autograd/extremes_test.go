package autograd_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// extremeCase is a case of testdata/extremes.py.
type extremeCase struct {
	Name, DType string
	Shape       []int
	X, Grad     []number
}

// extremeTypes are how far gradients may be from those of float64, relative to them, and the type's smallest steps.
var extremeTypes = map[string]struct {
	dtype           tensor.DType
	tolerance, step float64
}{
	"float64": {tensor.Float64, 1e-13, 0x1p-1074}, "float32": {tensor.Float32, 3e-6, 0x1p-149},
	"float16": {tensor.Float16, 0x1p-10, 0x1p-24}, "bfloat16": {tensor.BFloat16, 0x1p-7, 0x1p-133},
}

func extremeFunction(name string) func(v *autograd.Variable) *autograd.Variable {
	word, power, _ := strings.Cut(name, " ")
	dims := []int{1}
	switch word {
	case "prod":
		return func(v *autograd.Variable) *autograd.Variable { return v.Prod(dims, false) }
	case "var":
		return func(v *autograd.Variable) *autograd.Variable { return v.Var(dims, 1, false) }
	case "std":
		return func(v *autograd.Variable) *autograd.Variable { return v.Std(dims, 1, false) }
	case "logsumexp":
		return func(v *autograd.Variable) *autograd.Variable { return v.LogSumExp(dims, false) }
	}
	p, _ := strconv.ParseFloat(power, 64)
	return func(v *autograd.Variable) *autograd.Variable { return v.Norm(p, dims, false) }
}

func TestGradients_OfExtremeNumbersAreThoseOfFloat64(t *testing.T) { checkExtremes(t, onHost) }

func checkExtremes(t *testing.T, rigOf func(*testing.T) *rig) {
	text, err := os.ReadFile("testdata/extremes.json")
	require.NoError(t, err)
	var cases []extremeCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name+" "+c.DType, func(t *testing.T) { c.check(t, rigOf(t)) })
	}
}

func (c *extremeCase) check(t *testing.T, r *rig) {
	kind := extremeTypes[c.DType]
	g := r.graph()
	defer g.Release()
	v := g.Input(keep(t)(r.tensor(floats(c.X), c.Shape...).To(kind.dtype)), autograd.RequiresGrad())
	require.NoError(t, extremeFunction(c.Name)(v).Sum(nil, false).Backward())
	require.Equal(t, kind.dtype, v.Grad().DType())
	got := values(t, v.Grad())
	for i, want := range floats(c.Grad) {
		if want != got[i] && !(math.Abs(want-got[i]) <= max(kind.step, kind.tolerance*math.Abs(want))) {
			t.Errorf("gradient %d of %v is %v, want %v", i, c.X, got[i], want)
		}
	}
}

func TestProd_GradientOfAllAndOfSeveralDimensionsIsTheProductOfTheOthers(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		big := map[tensor.DType]float64{tensor.Float32: 1e30, tensor.Float64: 1e200}[dt]
		r := onHost(t)
		g := r.graph()
		x := []float64{big, 1, big, 2, 3, 1, 1, 4} // along 0 and 2 of [2 2 2]: big 1 3 1, and big 2 1 4
		v := g.Input(keep(t)(r.tensor(x, 2, 2, 2).To(dt)), autograd.RequiresGrad())
		require.NoError(t, v.Prod([]int{0, -1}, true).Sum(nil, false).Backward())
		near(t, "several", []float64{3, 3 * big, 8, 4 * big, big, 3 * big, 8 * big, 2 * big}, values(t, v.Grad()), 1e-6)

		u := g.Input(keep(t)(r.tensor([]float64{big, big}, 2, 1).To(dt)), autograd.RequiresGrad())
		require.NoError(t, u.Prod(nil, false).Backward())
		near(t, "all", []float64{big, big}, values(t, u.Grad()), 1e-6)

		empty := g.Input(keep(t)(r.tensor(nil, 2, 0).To(dt)), autograd.RequiresGrad())
		require.NoError(t, empty.Prod([]int{1}, false).Sum(nil, false).Backward())
		g.Release()
	}
}

// With a value of 0 nothing overflows on the way to a gradient of 0, as in AddCMul and in PyTorch.
func TestAddCDiv_MultipliesByItsValueFirst(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	in := func(x float64) *autograd.Variable { return g.Input(r.tensor([]float64{x}, 1), autograd.RequiresGrad()) }
	a, b := in(1), in(1e-300)
	require.NoError(t, in(0).AddCDiv(a, b, 0).Backward(autograd.WithGradient(r.tensor([]float64{1e300}, 1))))
	require.Equal(t, []float64{0}, values(t, a.Grad()))
	require.Zero(t, values(t, b.Grad())[0])
}

// The product of no other elements is 1, also beside a NaN.
func TestProd_GradientOfASingleElementIsOne(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	for _, dims := range [][]int{nil, {1}} {
		for _, keepDim := range []bool{false, true} {
			v := g.Input(r.tensor([]float64{math.NaN()}, 1, 1), autograd.RequiresGrad())
			require.NoError(t, v.Prod(dims, keepDim).MulScalar(3).Sum(nil, false).Backward())
			require.Equal(t, []float64{3}, values(t, v.Grad()))
			require.Equal(t, tensor.Shape{1, 1}, v.Grad().Shape())
		}
	}
}
