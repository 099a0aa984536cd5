package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// sample draws a [200, 300] parameter: fan in 300, fan out 200.
func sample(t *testing.T, init autograd.Initializer) []float64 {
	t.Helper()
	r := onHost(t)
	x, err := init(r.exec, tensor.NewGenerator(3), tensor.Float64, 200, 300)
	require.NoError(t, err)
	defer x.Release()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func moments(v []float64) (mean, std, lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range v {
		mean += x / float64(len(v))
		lo, hi = min(lo, x), max(hi, x)
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std), lo, hi
}

// requireUniform checks bounds, mean and standard deviation, within five standard errors of the estimates.
func requireUniform(t *testing.T, v []float64, lo, hi float64) {
	t.Helper()
	n, std := math.Sqrt(float64(len(v))), (hi-lo)/math.Sqrt(12)
	mean, gotStd, gotLo, gotHi := moments(v)
	require.InDelta(t, (lo+hi)/2, mean, 5*std/n)
	require.InDelta(t, std, gotStd, 5*std/n)
	require.GreaterOrEqual(t, gotLo, lo)
	require.Less(t, gotHi, hi)
	require.Less(t, gotLo, lo+(hi-lo)*0.01)
	require.Greater(t, gotHi, hi-(hi-lo)*0.01)
}

// requireNormal checks mean, standard deviation, and how many lie within one of them.
func requireNormal(t *testing.T, v []float64, mean, std float64) {
	t.Helper()
	n := math.Sqrt(float64(len(v)))
	gotMean, gotStd, _, _ := moments(v)
	require.InDelta(t, mean, gotMean, 5*std/n)
	require.InDelta(t, std, gotStd, 5*std/n)
	inside := 0.0
	for _, x := range v {
		if math.Abs(x-mean) < std {
			inside++
		}
	}
	require.InDelta(t, 0.6827, inside/float64(len(v)), 5*0.47/n)
}

func TestInitializers_DrawFromTheirDistributions(t *testing.T) {
	requireUniform(t, sample(t, nn.Uniform(-2, 5)), -2, 5)
	requireNormal(t, sample(t, nn.Normal(1, 3)), 1, 3)
	requireUniform(t, sample(t, nn.XavierUniform(nn.TanhGain)), -5.0/3*math.Sqrt(6.0/500), 5.0/3*math.Sqrt(6.0/500))
	requireNormal(t, sample(t, nn.XavierNormal(1)), 0, math.Sqrt(2.0/500))
	bound := math.Sqrt2 * math.Sqrt(3.0/300)
	requireUniform(t, sample(t, nn.KaimingUniform(nn.FanIn, nn.ReLUGain)), -bound, bound)
	requireNormal(t, sample(t, nn.KaimingNormal(nn.FanOut, nn.LeakyReLUGain(0.2))), 0, math.Sqrt(2/1.04)/math.Sqrt(200))
	for _, v := range sample(t, nn.Constant(2.5)) {
		require.Equal(t, 2.5, v)
	}
	require.Equal(t, 1.0, sample(t, nn.Ones)[7])
	require.Equal(t, 0.0, sample(t, nn.Zeros)[7])
}

func TestFans_CountTheReceptiveField(t *testing.T) {
	r := onHost(t)
	x, err := nn.KaimingUniform(nn.FanIn, 1)(r.exec, tensor.NewGenerator(1), tensor.Float64, 50, 20, 5, 5)
	require.NoError(t, err)
	defer x.Release()
	v, err := x.Float64s()
	require.NoError(t, err)
	requireUniform(t, v, -math.Sqrt(3.0/500), math.Sqrt(3.0/500))

	_, err = nn.XavierNormal(1)(r.exec, tensor.NewGenerator(1), tensor.Float64, 50)
	require.ErrorContains(t, err, "fewer than two dimensions")
	empty, err := nn.XavierUniform(1)(r.exec, tensor.NewGenerator(1), tensor.Float64, 0, 0)
	require.NoError(t, err)
	empty.Release()
}

func TestLinear_StartsUniformByItsInputs(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(400, 300)
	r.place(l, nn.Seed(1))
	requireUniform(t, valuesOf(t, l.Weight), -1.0/20, 1.0/20)
	bound := 1.0 / 20
	_, _, lo, hi := moments(valuesOf(t, l.Bias))
	require.True(t, lo >= -bound && hi < bound && hi-lo > bound)
	// PyTorch writes it as kaiming_uniform with a = sqrt 5.
	require.InDelta(t, bound, nn.LeakyReLUGain(math.Sqrt(5))*math.Sqrt(3.0/400), 1e-12)
}

func TestEmbedding_StartsStandardNormal(t *testing.T) {
	r := onHost(t)
	l := nn.Embedding(300, 200)
	r.place(l, nn.Seed(1), nn.DType(tensor.Float64))
	requireNormal(t, valuesOf(t, l.Weight), 0, 1)
}

func TestLayerOptions_ReplaceInitializers(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2, nn.WeightInit(nn.Constant(3)), nn.BiasInit(nn.Zeros))
	r.place(l)
	require.Equal(t, []float64{3, 3, 3, 3}, valuesOf(t, l.Weight))
	require.Equal(t, []float64{0, 0}, valuesOf(t, l.Bias))
	require.Equal(t, []float64{9, 9}, r.forward(l, r.tensor([]float32{1, 2}, 1, 2)))
	e := nn.Embedding(2, 2, nn.WeightInit(nn.Ones))
	r.place(e)
	idx, err := tensor.FromSlice(r.exec, []int64{1, 0, 1}, 3, 1)
	require.NoError(t, err)
	defer idx.Release()
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1}, r.forward(e, idx))
}
