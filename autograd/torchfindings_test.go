package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// What random programs showed to differ from PyTorch (internal/torchtest); the values here are PyTorch 1.13's.

// Integers and bools take the type of the sign, if that is of floating point; PyTorch has float32 where neither is.
func TestCopysign_TypesArePyTorchs(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	floats := []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}
	wholes := []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int32, tensor.Int64}
	for _, dt := range wholes {
		for _, of := range floats {
			require.Equal(t, of, g.Ones(dt, 2).Copysign(g.Ones(of, 2)).DType(), "%s of %s", dt, of)
			require.Equal(t, of, g.Ones(dt, 2).Copysign(g.Ones(of)).DType(), "%s of one %s", dt, of)
			require.Equal(t, of, g.Ones(of, 2).Copysign(g.Ones(dt, 2)).DType(), "%s of %s", of, dt)
		}
		for _, of := range wholes {
			require.Equal(t, tensor.Float32, g.Ones(dt, 2).Copysign(g.Ones(of, 2)).DType(), "%s of %s", dt, of)
		}
	}
	sign := autograd.FromSlice(g, []float64{-3, 2, math.Copysign(0, -1)}, 3).To(tensor.Float16)
	out := valuesOf(t, autograd.FromSlice(g, []bool{true, true, false}, 3).Copysign(sign))
	require.Equal(t, []float64{-1, 1, 0}, out)
	require.True(t, math.Signbit(out[2]))
	g.Release()
}

// Of nothing there is no norm to divide by, and no need for one.
func TestNormalize_OfNothing(t *testing.T) {
	r := onHost(t)
	for _, p := range []float64{math.Inf(1), math.Inf(-1), -1, 0, 1, 2, 3} {
		g := r.graph()
		x := g.Input(r.zeros(tensor.Float64, 2, 0), autograd.RequiresGrad())
		for dim, v := range map[int]variable{0: x, 1: x, -1: g.Zeros(tensor.BFloat16, 0), -2: g.Zeros(tensor.Float32, 0, 3)} {
			y := v.Normalize(p, dim, 0.5)
			require.NoError(t, g.Err(), "p of %v", p)
			require.Equal(t, v.Shape(), y.Shape())
			require.Equal(t, v.DType(), y.DType())
		}
		require.NoError(t, x.Normalize(p, 1, 0.5).Sum(nil, false).Backward())
		require.Equal(t, tensor.Shape{2, 0}, x.Grad().Shape())
		g.Release()
	}
}

// NaN is a power of nothing but 1, whatever the bits of NaN.
func TestPowScalar_OfNaN(t *testing.T) {
	r := onHost(t)
	for _, nan := range []float64{math.NaN(), math.Float64frombits(0x7ff8000000000000), math.Float64frombits(0xfff8000000000abc)} {
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64} {
			g := r.graph()
			x := autograd.FromSlice(g, []float64{0, math.Copysign(0, -1), 1, -1, 2.5, -2.5, math.Inf(1), math.Inf(-1), math.NaN(), 3, 4}, 11).To(dt)
			for name, y := range map[string]variable{"PowScalar": x.PowScalar(nan), "Pow": x.Pow(g.Scalar(nan, dt))} {
				for i, f := range valuesOf(t, y) {
					require.Equal(t, i != 2, math.IsNaN(f), "%s: element %d of %s is %v", name, i, dt, f)
				}
			}
			g.Release()
		}
	}
}

func noIndices(v variable) variable { return v.Graph().Zeros(tensor.Int64, 0) }
func noNumbers(v variable) variable { return v.Graph().Zeros(tensor.Float64, 0) }

// Results have memory of their own also where they are the operand: what is written to one of them is not in the other.
func TestRearranged_ResultsAreNotTheOperand(t *testing.T) {
	r := onHost(t)
	for name, c := range map[string]struct {
		shape []int
		f     func(v variable) variable
	}{
		"LogCumSumExp":          {[]int{1, 2}, func(v variable) variable { return v.LogCumSumExp(0) }},
		"LogCumSumExp of one":   {nil, func(v variable) variable { return v.LogCumSumExp(0) }},
		"Diff":                  {[]int{2}, func(v variable) variable { return v.Diff(0, -1) }},
		"PixelShuffle":          {[]int{1, 1, 2}, func(v variable) variable { return v.PixelShuffle(1) }},
		"PixelUnshuffle":        {[]int{1, 1, 2}, func(v variable) variable { return v.PixelUnshuffle(1) }},
		"Rot90":                 {[]int{1, 2}, func(v variable) variable { return v.Rot90(0, 0, 1) }},
		"ChannelShuffle":        {[]int{1, 2, 1}, func(v variable) variable { return v.ChannelShuffle(2) }},
		"ChannelShuffle of one": {[]int{1, 2, 2}, func(v variable) variable { return v.ChannelShuffle(1) }},
		"PixelShuffle of a row": {[]int{4, 1, 1}, func(v variable) variable { return v.PixelShuffle(2) }},
		"DiagonalScatter":       {[]int{2, 1}, func(v variable) variable { return v.DiagonalScatter(noNumbers(v), -5, 0, 1) }},
		"SliceScatter":          {[]int{2, 1}, func(v variable) variable { return v.SliceScatter(v.Graph().Zeros(tensor.Float64, 0, 1), 0, 1, 1, 1) }},
		"IndexReduce": {[]int{2}, func(v variable) variable {
			return v.IndexReduce(0, noIndices(v), noNumbers(v), tensor.ScatterProd, true)
		}},
		"MaskedScatter":          {[]int{2}, func(v variable) variable { return v.MaskedScatter(v.Graph().Zeros(tensor.Bool, 2), noNumbers(v)) }},
		"Put":                    {[]int{2}, func(v variable) variable { return v.Put(noIndices(v), noNumbers(v), false) }},
		"Put, accumulating":      {[]int{2}, func(v variable) variable { return v.Put(noIndices(v), noNumbers(v), true) }},
		"IndexPut":               {[]int{2}, func(v variable) variable { return v.IndexPut(vars{noIndices(v)}, noNumbers(v), false) }},
		"IndexPut, accumulating": {[]int{2}, func(v variable) variable { return v.IndexPut(vars{noIndices(v)}, noNumbers(v), true) }},
		"IndexCopy":              {[]int{2}, func(v variable) variable { return v.IndexCopy(0, noIndices(v), noNumbers(v)) }},
		"IndexFill":              {[]int{2}, func(v variable) variable { return v.IndexFill(0, noIndices(v), 1) }},
		"IndexAdd":               {[]int{2}, func(v variable) variable { return v.IndexAdd(0, noIndices(v), noNumbers(v)) }},
		"Scatter":                {[]int{2}, func(v variable) variable { return v.Scatter(0, noIndices(v), noNumbers(v)) }},
		"ScatterAdd":             {[]int{2}, func(v variable) variable { return v.ScatterAdd(0, noIndices(v), noNumbers(v)) }},
		"ScatterReduce": {[]int{2}, func(v variable) variable {
			return v.ScatterReduce(0, noIndices(v), noNumbers(v), tensor.ScatterMean, true)
		}},
	} {
		g := r.graph()
		x := g.Full(2, tensor.Float64, c.shape...).MulScalar(1)
		y := c.f(x)
		require.NotSame(t, x, y, name)
		before := valuesOf(t, y)
		x.MulScalarInPlace(3)
		assert.Equal(t, before, valuesOf(t, y), name)
		require.NoError(t, g.Err(), name)
		g.Release()
	}
}

// What is short enough passes as it is, and so does its gradient, also if its norm is NaN.
func TestRenorm_GradientOfNaN(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{math.NaN(), 1, 0.25, 0.25, 3, 4}, 3, 2), autograd.RequiresGrad())
	y := x.Renorm(2, 0, 0.5)
	require.NoError(t, y.Backward(autograd.WithGradient(r.tensor([]float64{1, 2, 3, 4, 5, 6}, 3, 2))))
	near(t, "renorm", []float64{math.NaN(), 1, 0.25, 0.25, 0.299999994, 0.399999992}, valuesOf(t, y), 1e-8)
	got := must(x.Grad().Retain(), nil)
	defer got.Release()
	list, err := got.Float64s()
	require.NoError(t, err)
	near(t, "gradient", []float64{1, 2, 3, 4, 0.032, -0.024}, list, 1e-7)
	g.Release()
}

// The second derivative of powers of 0 is infinite where the power is, of the sign of the gradients.
func TestRPowScalar_SecondDerivativeOfZero(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{-1, -0.5, 2, -1e-40}, 4), autograd.RequiresGrad())
	first, err := autograd.Grad([]variable{x.RPowScalar(0)}, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, -0.5, 1, 2}, 4)), autograd.CreateGraph())
	require.NoError(t, err)
	require.Equal(t, []float64{math.Inf(-1), math.Inf(1), 0, math.Inf(-1)}, valuesOf(t, first[0]))
	second, err := autograd.Grad(first, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, 1, 1, -1}, 4)))
	require.NoError(t, err)
	require.Equal(t, []float64{math.Inf(1), math.Inf(-1), 0, math.Inf(-1)}, valuesOf(t, second[0]))
	g.Release()
}

// Far below 0 the second derivative is small, and is no less exact for that. The numbers have 30 digits.
func TestGELUTanh_SecondDerivativeFarBelow(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{-5, -4, 0.5}, 3), autograd.RequiresGrad())
	first, err := autograd.Grad([]variable{x.GELUTanh()}, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, 1, 1}, 3)), autograd.CreateGraph())
	require.NoError(t, err)
	second, err := autograd.Grad(first, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, 1, 1}, 3)))
	require.NoError(t, err)
	for i, want := range []float64{-9.9341322249962059e-06, -0.0014740596637653368, 0.61550689511598489} {
		require.InEpsilon(t, want, valuesOf(t, second[0])[i], 1e-13)
	}
	g.Release()
}

// The slope of GELU is 0 and 1 at infinities, in every type, and its derivative is 0.
func TestGELU_DerivativesAtInfinities(t *testing.T) {
	r := onHost(t)
	for name, f := range map[string]func(v variable) variable{"GELU": (*autograd.Variable).GELU, "GELUTanh": (*autograd.Variable).GELUTanh} {
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64} {
			g := r.graph()
			x := g.Input(keep(t)(r.tensor([]float64{math.Inf(1), math.Inf(-1), 1e4, -1e4, math.NaN()}, 5).To(dt)), autograd.RequiresGrad())
			first, err := autograd.Grad([]variable{f(x).Sum(nil, false)}, []variable{x}, autograd.CreateGraph())
			require.NoError(t, err)
			near(t, name+" of "+dt.String(), []float64{1, 0, 1, 0, math.NaN()}, valuesOf(t, first[0]), 0)
			second, err := autograd.Grad([]variable{first[0].Narrow(0, 0, 4).Sum(nil, false)}, []variable{x}, autograd.RetainGraph())
			require.NoError(t, err)
			near(t, name+" of "+dt.String()+", twice", []float64{0, 0, 0, 0}, valuesOf(t, second[0])[:4], 0)
			all, err := autograd.Grad([]variable{first[0].Sum(nil, false)}, []variable{x})
			require.NoError(t, err)
			require.True(t, math.IsNaN(valuesOf(t, all[0])[4]), "%s of %s at NaN, twice", name, dt)
			g.Release()
		}
	}
}

// The second derivative of x^0 at 0 is 0, and that of x^2 is 2 there.
func TestVander_SecondDerivativeAtZero(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{0, 3}, 2), autograd.RequiresGrad())
	first, err := autograd.Grad([]variable{x.Vander(3, true)}, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, 2, 4, 1, 2, 4}, 2, 3)), autograd.CreateGraph())
	require.NoError(t, err)
	require.Equal(t, []float64{2, 26}, valuesOf(t, first[0]))
	second, err := autograd.Grad(first, []variable{x}, autograd.WithGradient(r.tensor([]float64{1, 1}, 2)))
	require.NoError(t, err)
	require.Equal(t, []float64{8, 8}, valuesOf(t, second[0]))
	g.Release()
}

// Nothing can be cut into any number of pieces of nothing.
func TestHSplit_OfNothing(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	for _, v := range append(g.Zeros(tensor.Int64, 0).HSplit(3), g.Zeros(tensor.Int64, 0, 1).VSplit(2)...) {
		require.Zero(t, v.Len())
	}
	require.Len(t, g.Zeros(tensor.Float32, 1, 0, 2).HSplit(3), 3)
	require.NoError(t, g.Err())
	g.Release()
}

// Beyond eps the slope of Logit is 0, and so is its derivative, also at 0 and 1, where that of the function itself is infinite.
func TestLogit_SecondDerivativeBeyondEps(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{0, 1, -2, 0.5, 0.25}, 5), autograd.RequiresGrad())
	first, err := autograd.Grad([]variable{x.Logit(0.2).Sum(nil, false)}, []variable{x}, autograd.CreateGraph())
	require.NoError(t, err)
	near(t, "logit", []float64{0, 0, 0, 4, 1 / 0.1875}, valuesOf(t, first[0]), 1e-12)
	second, err := autograd.Grad([]variable{first[0].Sum(nil, false)}, []variable{x})
	require.NoError(t, err)
	near(t, "logit, twice", []float64{0, 0, 0, 0, -0.5 / 0.1875 / 0.1875}, valuesOf(t, second[0]), 1e-12)
	g.Release()
}

// A row of logits that are not numbers leaves the second derivatives of the others alone, as in PyTorch.
func TestCrossEntropy_SecondDerivativesOfARowAreItsOwn(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3, math.Inf(1), 0, 1, 0.5, math.NaN(), 1}, 3, 3), autograd.RequiresGrad())
	first, err := autograd.Grad([]variable{x.CrossEntropy(g.Input(r.ints([]int64{0, 1, 2}, 3)))}, []variable{x}, autograd.CreateGraph())
	require.NoError(t, err)
	weights := g.Arange(1, 10, 1, tensor.Float64).Reshape(3, 3)
	second, err := autograd.Grad([]variable{first[0].Mul(weights).Sum(nil, false)}, []variable{x})
	require.NoError(t, err)
	got := valuesOf(t, second[0])
	require.InDeltaSlice(t, []float64{-0.0473, -0.0469, 0.0942}, got[:3], 1e-4)
	for _, v := range got[3:] {
		require.True(t, math.IsNaN(v), got)
	}
}

// With a value of 0 nothing can overflow, also where the gradient and what is divided are large.
func TestAddCDiv_GradientsOfLargeNumbersTimesNothing(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{math.MaxFloat64}, 1), autograd.RequiresGrad())
	grads, err := autograd.Grad([]variable{g.Ones(tensor.Float64, 1).AddCDiv(x, x, 0)}, []variable{x}, autograd.WithGradient(r.tensor([]float64{2.5}, 1)))
	require.NoError(t, err)
	require.Equal(t, []float64{0}, valuesOf(t, grads[0]))
	g.Release()
}

// What is put nowhere has a gradient all the same: none of its elements counts.
func TestPut_OfNothingPassesOnAGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{3}, 1), autograd.RequiresGrad())
	none := g.Zeros(tensor.Int64, 0)
	y := g.Ones(tensor.Float64, 1).Put(none, x.IndexSelect(0, none), true)
	require.NoError(t, y.Sum(nil, false).Backward())
	require.NotNil(t, x.Grad())
	list, err := x.Grad().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{0}, list)
	g.Release()
}

// The quotient of two tiny numbers is no tiny number, though the product of a gradient and one of them vanishes.
func TestAddCDiv_GradientOfTheDivisorDoesNotVanish(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	a, b := g.Input(r.tensor([]float64{1e-200}, 1)), g.Input(r.tensor([]float64{1e-200}, 1), autograd.RequiresGrad())
	grads, err := autograd.Grad([]variable{a.AddCDiv(a, b, 0.5)}, []variable{b}, autograd.WithGradient(r.tensor([]float64{-2.5e-201}, 1)))
	require.NoError(t, err)
	require.InEpsilon(t, 0.125, valuesOf(t, grads[0])[0], 1e-12)
	g.Release()
}
