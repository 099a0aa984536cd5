package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// initial is the values that an initializer gives.
func initial(t *testing.T, r *rig, init autograd.Initializer, dt tensor.DType, shape ...int) []float64 {
	t.Helper()
	x, err := init(r.exec, tensor.NewGenerator(1), dt, shape...)
	require.NoError(t, err)
	defer x.Release()
	require.Equal(t, tensor.Shape(shape), x.Shape())
	require.Equal(t, dt, x.DType())
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func TestOrthogonal_RowsOrColumnsAreOrthogonalAndOfLengthGain(t *testing.T) {
	r := onHost(t)
	for _, shape := range [][]int{{4, 7}, {7, 4}, {5, 5}, {3, 2, 2}, {1, 3}, {0, 3}} {
		rows, columns := shape[0], tensor.Shape(shape[1:]).Len()
		v := initial(t, r, nn.Orthogonal(2), tensor.Float64, shape...)
		at := func(i, k int) float64 { return v[i*columns+k] }
		n, m := rows, columns
		if rows > columns {
			n, m = columns, rows
			at = func(i, k int) float64 { return v[k*columns+i] }
		}
		for i := range n {
			for j := range n {
				sum := 0.0
				for k := range m {
					sum += at(i, k) * at(j, k)
				}
				want := 0.0
				if i == j {
					want = 4
				}
				require.InDelta(t, want, sum, 1e-12, "%v: %d and %d", shape, i, j)
			}
		}
	}
}

func TestTruncNormal_IsTheMiddleOfANormalDistribution(t *testing.T) {
	r := onHost(t)
	v := initial(t, r, nn.TruncNormal(1, 2, 0, 3), tensor.Float64, 200, 100)
	sum, below := 0.0, 0
	for _, x := range v {
		require.GreaterOrEqual(t, x, 0.0)
		require.LessOrEqual(t, x, 3.0)
		sum += x
		if x < 1 {
			below++
		}
	}
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	mass := phi(1) - phi(-0.5)
	require.InDelta(t, 1+2*(density(-0.5)-density(1))/mass, sum/float64(len(v)), 0.02)
	require.InDelta(t, (0.5-phi(-0.5))/mass, float64(below)/float64(len(v)), 0.015)
}

func TestEye_IsTheIdentity(t *testing.T) {
	r := onHost(t)
	require.Equal(t, []float64{1, 0, 0, 0, 1, 0}, initial(t, r, nn.Eye, tensor.Float16, 2, 3))
}

func TestMatrixInitializers_RefuseWhatTheyCannotDo(t *testing.T) {
	r := onHost(t)
	gen := tensor.NewGenerator(1)
	for name, init := range map[string]autograd.Initializer{
		"orthogonal": nn.Orthogonal(1), "eye": nn.Eye, "bounds": nn.TruncNormal(0, 1, 2, 2), "deviation": nn.TruncNormal(0, 0, -1, 1),
	} {
		_, err := init(r.exec, gen, tensor.Float32, 3)
		require.Error(t, err, name)
	}
}
