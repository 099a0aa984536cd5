package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The sum of these squares is not a number of float32, their mean is.
func TestVar_IsANumberWhereTheSumOfSquaresIsNot(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{2e19, -2e19, 1e19, -1e19}, 4))
	require.InEpsilon(t, 1e39/3, values(t, must(t)(x.Var(nil, 1, false)))[0], 1e-6)
	require.InEpsilon(t, 2.5e38, values(t, must(t)(x.Var(nil, 0, false)))[0], 1e-6)
	apart := must(t)(tensor.FromSlice(b.Exec, []float32{2e38, -2e38}, 2))
	require.InEpsilon(t, 2e38, values(t, must(t)(apart.Std(nil, 0, false)))[0], 1e-6, "where the variance is not")
	wide := must(t)(tensor.FromSlice(b.Exec, []float32{1e19, -1e19, 1e19, -1e19, 1e19, -1e19}, 2, 3))
	require.InEpsilon(t, 1e19*math.Sqrt(4.0/3), values(t, must(t)(wide.Std([]int{1}, 1, false)))[1], 1e-6)
}

// What is divided by nothing is infinite, and NaN where there is no distance.
func TestVar_OfNoMoreElementsThanTheCorrection(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, 3}, 2))
	require.Equal(t, []float64{math.Inf(1)}, values(t, must(t)(x.Var(nil, 2, false))))
	one := must(t)(tensor.FromSlice(b.Exec, []float32{5}, 1))
	require.True(t, math.IsNaN(values(t, must(t)(one.Var(nil, 1, false)))[0]))
}

// distances are numbers about 0 whose squares are no numbers of float32. Their moments are.
func distances(t *testing.T, b bench, shape ...int) *tensor.Tensor {
	x := make([]float32, tensor.Shape(shape).Len())
	for i := range x {
		x[i] = float32(1-2*(i/shape[len(shape)-1]%2)) * 1e25
	}
	return must(t)(tensor.FromSlice(b.Exec, x, shape...))
}

func TestNormalisation_OfDistancesWhoseSquaresOverflow(t *testing.T) {
	b := onHost(t)
	for _, l := range []int{1, 100} {
		x := distances(t, b, 6, l)
		y, m, err := tensor.LayerNorm(must(t)(x.Reshape(1, 6*l)), []int{6 * l}, nil, nil, 1e-5)
		require.NoError(t, err)
		t.Cleanup(y.Release)
		t.Cleanup(m.Release)
		require.InEpsilon(t, 1, values(t, y)[0], 1e-6, "layer norm")
		require.InEpsilon(t, -1, values(t, y)[l], 1e-6, "layer norm")
		y, m, err = tensor.BatchNormTraining(must(t)(x.Reshape(6, 1, l)), nil, nil, nil, nil, 0.1, 1e-5)
		require.NoError(t, err)
		t.Cleanup(y.Release)
		t.Cleanup(m.Release)
		require.InEpsilon(t, 1, values(t, y)[0], 1e-6, "batch norm")
		require.InEpsilon(t, -1, values(t, y)[l], 1e-6, "batch norm")
	}
}

func TestClamp_LeavesTheSignOfZero(t *testing.T) {
	b := onHost(t)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		x := must(t)(must(t)(tensor.FromSlice(b.Exec, []float32{float32(math.Copysign(0, -1)), 0, -1}, 3)).To(dt))
		for i, v := range values(t, must(t)(x.Clamp(0, 1))) {
			require.Equal(t, i == 0, math.Signbit(v), "%v: element %d is %v", dt, i, v)
		}
		require.NoError(t, must(t)(x.Clone()).ClampInPlace(0, 1))
	}
}

// value*a is infinite before anything is divided, as on PyTorch's processor.
func TestAddCDiv_MultipliesFirst(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{0, 0}, 2))
	p := must(t)(tensor.FromSlice(b.Exec, []float32{3e38, 1}, 2))
	q := must(t)(tensor.FromSlice(b.Exec, []float32{1e10, 0}, 2))
	require.Equal(t, []float64{math.Inf(1), math.Inf(1)}, values(t, must(t)(x.AddCDiv(p, q, 2))))
	require.True(t, math.IsNaN(values(t, must(t)(x.AddCDiv(p, q, 0)))[1]))
}

// The number of elements less the correction may be no int.
func TestVar_TakesEveryCorrection(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, 3}, 2))
	require.InEpsilon(t, 0x1p-62, values(t, must(t)(x.Var(nil, math.MinInt, false)))[0], 1e-6)
	require.InEpsilon(t, math.Sqrt(0x1p-62), values(t, must(t)(x.Std(nil, math.MinInt, false)))[0], 1e-6)
	require.Equal(t, []float64{math.Inf(1)}, values(t, must(t)(x.Var(nil, math.MaxInt, false))))
}
