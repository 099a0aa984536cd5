package dist_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/dist"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// newGraph is a graph with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newGraph(t *testing.T, opts ...autograd.Option) *autograd.Graph {
	t.Helper()
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	g := autograd.NewGraph(dev, append(opts, autograd.WithAllocator(alloc))...)
	t.Cleanup(func() {
		g.Release()
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return g
}

type array struct {
	Shape []int
	Data  []float64
	Grads []array
}

// leaf is a variable with a gradient.
func (a array) leaf(t *testing.T, g *autograd.Graph, dt tensor.DType) *autograd.Variable {
	t.Helper()
	p, err := tensor.FromSlice(g.Exec(), a.Data, a.Shape...)
	require.NoError(t, err)
	defer p.Release()
	x, err := p.To(dt)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return g.Input(x, autograd.RequiresGrad())
}

var makers = map[string]func(p []*autograd.Variable) dist.Distribution{
	"normal": func(p []*autograd.Variable) dist.Distribution { return dist.NewNormal(p[0], p[1], dist.Validate()) },
	"normal independent": func(p []*autograd.Variable) dist.Distribution {
		return dist.NewIndependent(dist.NewNormal(p[0], p[1]), 1)
	},
	"tanh":                   func(p []*autograd.Variable) dist.Distribution { return dist.NewTanhNormal(p[0], p[1]) },
	"categorical":            func(p []*autograd.Variable) dist.Distribution { return dist.NewCategorical(p[0], dist.Validate()) },
	"categorical probs":      func(p []*autograd.Variable) dist.Distribution { return dist.NewCategoricalProbs(p[0], dist.Validate()) },
	"bernoulli":              func(p []*autograd.Variable) dist.Distribution { return dist.NewBernoulli(p[0], dist.Validate()) },
	"categorical probs sure": func(p []*autograd.Variable) dist.Distribution { return dist.NewCategoricalProbs(p[0]) },
	"bernoulli probs sure":   func(p []*autograd.Variable) dist.Distribution { return dist.NewBernoulliProbs(p[0]) },
	"bernoulli probs":        func(p []*autograd.Variable) dist.Distribution { return dist.NewBernoulliProbs(p[0], dist.Validate()) },
	"exponential":            func(p []*autograd.Variable) dist.Distribution { return dist.NewExponential(p[0], dist.Validate()) },
	"laplace":                func(p []*autograd.Variable) dist.Distribution { return dist.NewLaplace(p[0], p[1], dist.Validate()) },
	"lognormal":              func(p []*autograd.Variable) dist.Distribution { return dist.NewLogNormal(p[0], p[1], dist.Validate()) },
	"geometric":              func(p []*autograd.Variable) dist.Distribution { return dist.NewGeometric(p[0], dist.Validate()) },
	"poisson":                func(p []*autograd.Variable) dist.Distribution { return dist.NewPoisson(p[0], dist.Validate()) },
	"gamma":                  func(p []*autograd.Variable) dist.Distribution { return dist.NewGamma(p[0], p[1], dist.Validate()) },
	"dirichlet":              func(p []*autograd.Variable) dist.Distribution { return dist.NewDirichlet(p[0], dist.Validate()) },
	"beta":                   func(p []*autograd.Variable) dist.Distribution { return dist.NewBeta(p[0], p[1], dist.Validate()) },
	"multivariate": func(p []*autograd.Variable) dist.Distribution {
		return dist.NewMultivariateNormal(p[0], p[1], dist.Validate())
	},
	"mixture": func(p []*autograd.Variable) dist.Distribution {
		return dist.NewMixture(dist.NewCategorical(p[0]), dist.NewNormal(p[1], p[2]))
	},
	"mixture of vectors": func(p []*autograd.Variable) dist.Distribution {
		return dist.NewMixture(dist.NewCategorical(p[0]), dist.NewIndependent(dist.NewNormal(p[1], p[2]), 1))
	},
	"uniform": func(p []*autograd.Variable) dist.Distribution { return dist.NewUniform(p[0], p[1], dist.Validate()) },
}

// weights are those of testdata/dist.py.
func weights(n int) []float64 {
	w := make([]float64, n)
	for k := range w {
		w[k] = 0.5 + 1.5*math.Mod(float64(k)*0.37+3*0.211+0.05, 1)
	}
	return w
}

// check compares a result and its gradients.
func check(t *testing.T, g *autograd.Graph, what string, want *array, got *autograd.Variable, leaves []*autograd.Variable, tolerance float64) {
	t.Helper()
	requireValues(t, what, *want, got, tolerance)
	w, err := tensor.FromSlice(g.Exec(), weights(len(want.Data)), want.Shape...)
	require.NoError(t, err)
	defer w.Release()
	grads, err := autograd.Grad([]*autograd.Variable{got.Mul(g.Input(w).To(got.DType())).Sum(nil, false)}, leaves, autograd.RetainGraph())
	require.NoError(t, err, what)
	for i, grad := range grads {
		if grad == nil {
			for _, v := range want.Grads[i].Data {
				require.Zero(t, v, "%s: gradient %d", what, i)
			}
			continue
		}
		requireValues(t, what+": gradient", want.Grads[i], grad, tolerance)
	}
}

func requireValues(t *testing.T, what string, want array, got *autograd.Variable, tolerance float64) {
	t.Helper()
	values, err := got.Float64s()
	require.NoError(t, err, what)
	require.Equal(t, want.Shape, append([]int{}, got.Shape()...), what)
	for k, w := range want.Data {
		require.InDelta(t, w, values[k], tolerance*max(1, math.Abs(w)), "%s: element %d", what, k)
	}
}

func TestDistributions_GiveTheNumbersOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/dist.json")
	require.NoError(t, err)
	var golden []struct {
		Name                  string
		Params, Other         []array
		Value                 array
		Whole                 bool
		LogProb               *array `json:"log_prob"`
		Entropy, KL           *array
		Mean, Variance, Extra *array
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden, len(makers))
	for _, c := range golden {
		for dt, tolerance := range map[tensor.DType]float64{tensor.Float64: 1e-12, tensor.Float32: 5e-5} {
			if strings.HasSuffix(c.Name, "sure") && dt != tensor.Float64 {
				continue // its logarithms are those of the type's epsilon
			}
			if strings.Contains("gamma dirichlet beta", c.Name) {
				tolerance = max(tolerance, 1e-8) // PyTorch's derivative of digamma is no better
			}
			t.Run(c.Name+" "+dt.String(), func(t *testing.T) {
				g := newGraph(t)
				var params, other []*autograd.Variable
				for _, p := range c.Params {
					params = append(params, p.leaf(t, g, dt))
				}
				for _, p := range c.Other {
					other = append(other, p.leaf(t, g, dt))
				}
				value, leaves := c.Value.leaf(t, g, dt), params
				if c.Whole {
					value = value.To(tensor.Int64)
				} else {
					leaves = append(params[:len(params):len(params)], value)
				}
				d := makers[c.Name](params)
				check(t, g, "log prob", c.LogProb, d.LogProb(value), leaves, tolerance)
				if c.Entropy != nil {
					check(t, g, "entropy", c.Entropy, d.Entropy(), params, tolerance)
				}
				if c.KL != nil {
					check(t, g, "KL", c.KL, dist.KL(d, makers[c.Name](other)), append(params[:len(params):len(params)], other...), tolerance)
				}
				if m, ok := d.(interface{ Mean() *autograd.Variable }); ok && c.Mean != nil {
					requireValues(t, "mean", *c.Mean, m.Mean(), tolerance)
				}
				if m, ok := d.(interface{ Variance() *autograd.Variable }); ok && c.Variance != nil {
					requireValues(t, "variance", *c.Variance, m.Variance(), tolerance)
				}
				require.NoError(t, g.Err())
			})
		}
	}
}

// full is a variable of a value.
func full(g *autograd.Graph, v float64, shape ...int) *autograd.Variable {
	return g.Full(v, tensor.Float64, shape...)
}

// moments are the mean and variance of the samples of each of the batch, which is the last dimension.
func moments(t *testing.T, samples *autograd.Variable) (mean, variance []float64) {
	t.Helper()
	x := samples.To(tensor.Float64)
	mean, err := x.Mean([]int{0}, false).Float64s()
	require.NoError(t, err)
	variance, err = x.Var([]int{0}, 0, false).Float64s()
	require.NoError(t, err)
	return mean, variance
}

// spread is the standard deviation of the variance of n samples: by the fourth central moment, of which distributions with heavy tails have
// much, so that one share of the variance will not do for all.
func spread(t *testing.T, samples *autograd.Variable, n float64) []float64 {
	t.Helper()
	x := samples.To(tensor.Float64)
	squares := x.Sub(x.Mean([]int{0}, true)).Square()
	v, err := squares.Var([]int{0}, 0, false).DivScalar(n).Sqrt().Float64s()
	require.NoError(t, err)
	return v
}

func TestSample_HasTheMomentsOfTheDistribution(t *testing.T) {
	g := newGraph(t, autograd.WithGenerator(tensor.NewGenerator(3)))
	row := func(v ...float64) *autograd.Variable { return autograd.FromSlice(g, v, len(v)) }
	const n = 40000
	cases := map[string]struct {
		d              dist.Distribution
		mean, variance []float64
	}{
		"normal":       {dist.NewNormal(row(1, -2), row(0.5, 3)), []float64{1, -2}, []float64{0.25, 9}},
		"uniform":      {dist.NewUniform(row(-1, 2), row(1, 5)), []float64{0, 3.5}, []float64{1.0 / 3, 0.75}},
		"bernoulli":    {dist.NewBernoulliProbs(row(0.2, 0.9)), []float64{0.2, 0.9}, []float64{0.16, 0.09}},
		"categorical":  {dist.NewCategoricalProbs(autograd.FromSlice(g, []float64{1, 1, 2, 3, 0, 1}, 2, 3)), []float64{1.25, 0.5}, []float64{0.6875, 0.75}},
		"independent":  {dist.NewIndependent(dist.NewNormal(row(1, -2), row(0.5, 3)), 1), []float64{1, -2}, []float64{0.25, 9}},
		"exponential":  {dist.NewExponential(row(0.5, 4)), []float64{2, 0.25}, []float64{4, 1.0 / 16}},
		"laplace":      {dist.NewLaplace(row(1, -2), row(0.5, 3)), []float64{1, -2}, []float64{0.5, 18}},
		"lognormal":    {dist.NewLogNormal(row(0, 1), row(0.2, 0.5)), []float64{math.Exp(0.02), math.Exp(1.125)}, []float64{math.Expm1(0.04) * math.Exp(0.04), math.Expm1(0.25) * math.Exp(2.25)}},
		"geometric":    {dist.NewGeometric(row(0.3, 1)), []float64{7.0 / 3, 0}, []float64{0.7 / 0.09, 0}},
		"poisson":      {dist.NewPoisson(row(0.7, 40, 0)), []float64{0.7, 40, 0}, []float64{0.7, 40, 0}},
		"gamma":        {dist.NewGamma(row(0.3, 5), row(2, 0.5)), []float64{0.15, 10}, []float64{0.075, 20}},
		"beta":         {dist.NewBeta(row(0.5, 4), row(0.5, 2)), []float64{0.5, 2.0 / 3}, []float64{0.125, 8.0 / (36 * 7)}},
		"dirichlet":    {dist.NewDirichlet(row(1, 2, 5)), []float64{0.125, 0.25, 0.625}, []float64{7.0 / 576, 12.0 / 576, 15.0 / 576}},
		"multivariate": {dist.NewMultivariateNormal(row(1, -1), autograd.FromSlice(g, []float64{2, 99, 1, 0.5}, 2, 2)), []float64{1, -1}, []float64{4, 1.25}},
		"mixture": {dist.NewMixture(dist.NewCategoricalProbs(autograd.FromSlice(g, []float64{0.25, 0.75, 0.5, 0.5}, 2, 2)),
			dist.NewNormal(autograd.FromSlice(g, []float64{0, 4, 1, 1}, 2, 2), full(g, 1))), []float64{3, 1}, []float64{4, 1}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) { // in one order, so that all runs draw the same numbers
		c := cases[name]
		samples := c.d.Sample(n)
		require.False(t, samples.RequiresGrad())
		mean, variance := moments(t, samples)
		errs := spread(t, samples, n)
		for i := range c.mean {
			require.InDelta(t, c.mean[i], mean[i], 5*math.Sqrt(c.variance[i]/n), name)
			require.Less(t, errs[i], 0.03*c.variance[i]+1e-12, "%s: the bound would be too wide to see anything", name)
			require.InDelta(t, c.variance[i], variance[i], 6*errs[i]+1e-12, name)
		}
	}
	require.NoError(t, g.Err())
}

func TestSample_IsTheSameOfASeed(t *testing.T) {
	draw := func() (all []float64) {
		g := newGraph(t, autograd.WithGenerator(tensor.NewGenerator(7)))
		logits := full(g, 0, 2, 4)
		for _, d := range []dist.Distribution{dist.NewNormal(full(g, 0, 2), full(g, 1)), dist.NewCategorical(logits), dist.NewBernoulli(logits)} {
			v, err := d.Sample(3, 1).To(tensor.Float64).Float64s()
			require.NoError(t, err)
			all = append(all, v...)
		}
		return all
	}
	require.Equal(t, draw(), draw())
}

func TestSample_HasTheShapeOfTheBatchBehindItsOwn(t *testing.T) {
	g := newGraph(t)
	a, b := full(g, 0.5, 3, 1), full(g, 1, 2)
	require.Equal(t, tensor.Shape{4, 3, 2}, dist.NewNormal(a, b).Sample(4).Shape())
	require.Equal(t, tensor.Shape{3, 2}, dist.NewNormal(a, b).Entropy().Shape())
	require.Equal(t, tensor.Shape{3, 2}, dist.NewNormal(a, b).Mean().Shape())
	require.Equal(t, tensor.Shape{4, 5, 3}, dist.NewCategorical(full(g, 0, 3, 2)).Sample(4, 5).Shape())
	require.Equal(t, tensor.Shape{}, append(tensor.Shape{}, dist.NewCategorical(full(g, 0, 2)).Sample().Shape()...))
	require.Equal(t, tensor.Shape{0, 3}, dist.NewCategorical(full(g, 0, 3, 2)).Sample(0).Shape())
	require.Equal(t, tensor.Shape{2, 0}, dist.NewCategorical(full(g, 0, 0, 2)).Sample(2).Shape())
	require.Equal(t, tensor.Shape{3}, dist.NewIndependent(dist.NewNormal(a, b), 1).BatchShape())
	require.Equal(t, tensor.Shape{4, 3, 2}, dist.NewGamma(a, b).Sample(4).Shape())
	require.Equal(t, tensor.Shape{4, 3, 2}, dist.NewGamma(b, a).RSample(4).Shape())
	require.Equal(t, tensor.Shape{4, 3, 2}, dist.NewBeta(a, b).Sample(4).Shape())
	require.Equal(t, tensor.Shape{0, 3, 2}, dist.NewLaplace(a, b).Sample(0).Shape())
	require.Equal(t, tensor.Shape{4, 3, 2}, dist.NewDirichlet(a.Expand(3, 2)).Sample(4).Shape())
	require.Equal(t, tensor.Shape{3}, dist.NewDirichlet(a.Expand(3, 2)).Entropy().Shape())
	wide := dist.NewMultivariateNormal(full(g, 0, 5, 1, 2), g.Eye(tensor.Float64, 2).Expand(3, 2, 2))
	require.Equal(t, tensor.Shape{4, 5, 3, 2}, wide.Sample(4).Shape())
	require.Equal(t, tensor.Shape{5, 3}, wide.Entropy().Shape())
	require.Equal(t, tensor.Shape{5, 3, 2}, wide.Mean().Shape())
	mixed := dist.NewMixture(dist.NewCategorical(full(g, 0, 5, 3)), wide)
	require.Equal(t, tensor.Shape{4, 6, 5, 2}, mixed.Sample(4, 6).Shape())
	require.Equal(t, tensor.Shape{4, 6, 5}, mixed.LogProb(mixed.Sample(4, 6)).Shape())
	require.Equal(t, tensor.Shape{5, 2}, mixed.Mean().Shape())
	require.Equal(t, tensor.Shape{5, 2}, mixed.Variance().Shape())
	require.NoError(t, g.Err())
}

// The gradient of a sample is that of the formula: 1 for loc, the noise for scale.
func TestRSample_HasGradients(t *testing.T) {
	g := newGraph(t)
	loc, scale := array{[]int{2}, []float64{1, -1}, nil}.leaf(t, g, tensor.Float64), array{[]int{2}, []float64{0.5, 2}, nil}.leaf(t, g, tensor.Float64)
	for name, d := range map[string]dist.Reparametrized{
		"normal": dist.NewNormal(loc, scale), "independent": dist.NewIndependent(dist.NewNormal(loc, scale), 1),
	} {
		z := d.RSample(3)
		grads, err := autograd.Grad([]*autograd.Variable{z.Sum(nil, false)}, []*autograd.Variable{loc, scale}, autograd.RetainGraph())
		require.NoError(t, err)
		requireValues(t, name, array{Shape: []int{2}, Data: []float64{3, 3}}, grads[0], 0)
		noise, err := z.Sub(loc).Div(scale).Sum([]int{0}, false).Float64s()
		require.NoError(t, err)
		requireValues(t, name, array{Shape: []int{2}, Data: noise}, grads[1], 1e-12)
	}
	value, logProb := dist.NewTanhNormal(loc, scale).RSampleLogProb(5)
	again, err := dist.NewTanhNormal(loc, scale).LogProb(value).Float64s()
	require.NoError(t, err)
	requireValues(t, "tanh", array{Shape: []int{5, 2}, Data: again}, logProb, 1e-6)
	require.True(t, logProb.RequiresGrad() && value.RequiresGrad())
	require.False(t, dist.NewTanhNormal(loc, scale).Sample().RequiresGrad())
}

// What is drawn on the host needs no more of Go's memory than the device has.
func TestDistributions_RefuseSamplesBeyondTheDevicesMemory(t *testing.T) {
	for _, n := range []int{1 << 40, math.MaxInt} {
		dev := host.New(host.Capacity(64 << 20))
		g := autograd.NewGraph(dev)
		d := dist.NewPoisson(g.Full(1, tensor.Float32))
		require.NoError(t, g.Err())
		d.Sample(n)
		require.Error(t, g.Err())
		require.NotErrorAs(t, g.Err(), new(*device.PanicError))
		g.Release()
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}
}

func TestDistributions_RefuseWrongArguments(t *testing.T) {
	for name, f := range map[string]func(g *autograd.Graph) *autograd.Variable{
		"shapes": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewNormal(full(g, 0, 2), full(g, 1, 3)).Sample()
		},
		"rate": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewExponential(full(g, 0), dist.Validate()).Sample()
		},
		"laplace": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewLaplace(full(g, 0), full(g, -1), dist.Validate()).RSample()
		},
		"certain": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewGeometric(full(g, 0), dist.Validate()).Sample()
		},
		"negative count": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewPoisson(full(g, 1), dist.Validate()).LogProb(full(g, -1))
		},
		"half a count": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewGeometric(full(g, 0.5), dist.Validate()).LogProb(full(g, 0.5))
		},
		"poisson shape":   func(g *autograd.Graph) *autograd.Variable { return dist.NewPoisson(full(g, 1)).Sample(-1) },
		"poisson entropy": func(g *autograd.Graph) *autograd.Variable { return dist.NewPoisson(full(g, 1)).Entropy() },
		"gammas": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewGamma(full(g, 1, 2), full(g, 1, 3)).RSample()
		},
		"concentration": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewBeta(full(g, 1), full(g, 0), dist.Validate()).Sample()
		},
		"beta type": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewBeta(full(g, 1).To(tensor.Int64), full(g, 1)).Mean()
		},
		"no dimension": func(g *autograd.Graph) *autograd.Variable { return dist.NewDirichlet(full(g, 1)).Sample() },
		"no simplex": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewDirichlet(full(g, 1, 2), dist.Validate()).LogProb(full(g, 1, 2))
		},
		"one nil": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMultivariateNormal(full(g, 1, 2), nil).RSample()
		},
		"other nil": func(g *autograd.Graph) *autograd.Variable {
			dist.NewMultivariateNormal(nil, full(g, 1, 2, 2))
			return full(g, 1)
		},
		"no square": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMultivariateNormal(full(g, 1, 2), full(g, 1, 2, 3)).Variance()
		},
		"diagonal": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMultivariateNormal(full(g, 1, 2), full(g, 0, 2, 2), dist.Validate()).Sample()
		},
		"sizes": func(g *autograd.Graph) *autograd.Variable {
			return dist.KL(dist.NewMultivariateNormal(full(g, 1, 2), full(g, 1, 2, 2)), dist.NewMultivariateNormal(full(g, 1, 3), full(g, 1, 3, 3)))
		},
		"components": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), dist.NewNormal(full(g, 0, 3), full(g, 1))).Sample()
		},
		"sample of no components": func(g *autograd.Graph) *autograd.Variable {
			d := dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), nil)
			d.LogProb(full(g, 1))
			d.Mean()
			return d.Sample(2)
		},
		"no components": func(g *autograd.Graph) *autograd.Variable {
			dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), nil)
			return full(g, 1)
		},
		"no mean": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), dist.NewTanhNormal(full(g, 0, 2), full(g, 1))).Mean()
		},
		"no variance": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), dist.NewTanhNormal(full(g, 0, 2), full(g, 1))).Variance()
		},
		"no mean of each": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewIndependent(dist.NewTanhNormal(full(g, 0, 2), full(g, 1)), 1).Mean()
		},
		"no variance of each": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewIndependent(dist.NewTanhNormal(full(g, 0, 2), full(g, 1)), 1).Variance()
		},
		"mixture entropy": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewMixture(dist.NewCategorical(full(g, 0, 2)), dist.NewNormal(full(g, 0, 2), full(g, 1))).Entropy()
		},
		"type": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewNormal(full(g, 0, 2).To(tensor.Int64), full(g, 1)).Sample()
		},
		"nil": func(g *autograd.Graph) *autograd.Variable { return dist.NewNormal(full(g, 0, 2), nil).Sample() },
		"scale": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewNormal(full(g, 0), full(g, 0), dist.Validate()).Sample()
		},
		"NaN": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewBernoulli(full(g, math.NaN()), dist.Validate()).Sample()
		},
		"probs": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewBernoulliProbs(full(g, 1.5), dist.Validate()).Sample()
		},
		"no class": func(g *autograd.Graph) *autograd.Variable { return dist.NewCategorical(full(g, 0, 3, 0)).Sample() },
		"a number": func(g *autograd.Graph) *autograd.Variable { return dist.NewCategorical(full(g, 0)).Sample() },
		"negative": func(g *autograd.Graph) *autograd.Variable { return dist.NewCategorical(full(g, 0, 3)).Sample(-1) },
		"interval": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewUniform(full(g, 1), full(g, 1), dist.Validate()).Sample()
		},
		"dimension": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewIndependent(dist.NewBernoulli(full(g, 1, 2)), 2).Sample()
		},
		"no noise": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewIndependent(dist.NewBernoulli(full(g, 1, 2)), 1).RSample()
		},
		"entropy": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewTanhNormal(full(g, 1), full(g, 1)).Entropy()
		},
		"float class": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewCategorical(full(g, 0, 3)).LogProb(full(g, 1))
		},
		"class shape": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewCategorical(full(g, 0, 2, 3)).LogProb(full(g, 1, 3).To(tensor.Int64))
		},
		"class": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewCategorical(full(g, 0, 3), dist.Validate()).LogProb(full(g, 3).To(tensor.Int64))
		},
		"half a one": func(g *autograd.Graph) *autograd.Variable {
			return dist.NewBernoulli(full(g, 0), dist.Validate()).LogProb(full(g, 0.5))
		},
		"other families": func(g *autograd.Graph) *autograd.Variable {
			return dist.KL(dist.NewBernoulli(full(g, 0)), dist.NewNormal(full(g, 0), full(g, 1)))
		},
		"other classes": func(g *autograd.Graph) *autograd.Variable {
			return dist.KL(dist.NewCategorical(full(g, 0, 3)), dist.NewCategorical(full(g, 0, 4)))
		},
		"other dimensions": func(g *autograd.Graph) *autograd.Variable {
			d := dist.NewNormal(full(g, 0, 2), full(g, 1))
			return dist.KL(dist.NewIndependent(d, 1), dist.NewIndependent(d, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(t)
			require.NotNil(t, f(g))
			var wrong *dist.ArgumentError
			require.ErrorAs(t, g.Err(), &wrong)
			require.ErrorIs(t, g.Err(), dist.ErrArgument)
		})
	}
}

// A value that a distribution does not have is refused with Validate, and without it nothing is looked at.
func TestLogProb_LooksAtValuesWithValidateAlone(t *testing.T) {
	type options = []dist.Option
	for name, f := range map[string]func(g *autograd.Graph, o options) *autograd.Variable{
		"Geometric": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewGeometric(full(g, 0.5), o...).LogProb(full(g, -1))
		},
		"Poisson": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewPoisson(full(g, 1), o...).LogProb(full(g, 0.5))
		},
		"Bernoulli": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewBernoulli(full(g, 0), o...).LogProb(full(g, 2))
		},
		"Exponential": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewExponential(full(g, 1), o...).LogProb(full(g, -1))
		},
		"LogNormal": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewLogNormal(full(g, 0), full(g, 1), o...).LogProb(full(g, 0))
		},
		"Gamma": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewGamma(full(g, 1), full(g, 1), o...).LogProb(full(g, -1))
		},
		"Dirichlet": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewDirichlet(full(g, 1, 2), o...).LogProb(full(g, 1, 2))
		},
		"Beta": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewBeta(full(g, 1), full(g, 1), o...).LogProb(full(g, 1.5))
		},
		"Normal": func(g *autograd.Graph, o options) *autograd.Variable {
			return dist.NewNormal(full(g, 0), full(g, -1), o...).LogProb(full(g, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(t)
			require.True(t, f(g, nil).Alive())
			require.NoError(t, g.Err())
			f(g, options{dist.Validate()})
			require.ErrorIs(t, g.Err(), dist.ErrArgument)
			require.ErrorContains(t, g.Err(), "has elements that are not")
		})
	}
}

// What was not made by a constructor, and distributions of nil variables, do nothing.
func TestDistributions_OfNothing(t *testing.T) {
	for _, d := range []dist.Distribution{
		dist.Normal{}, dist.TanhNormal{}, dist.Categorical{}, dist.Bernoulli{}, dist.Uniform{}, dist.Independent{},
		dist.Exponential{}, dist.Laplace{}, dist.LogNormal{}, dist.Geometric{}, dist.Poisson{}, dist.Gamma{}, dist.Dirichlet{}, dist.Beta{},
		dist.MultivariateNormal{}, dist.Mixture{}, dist.NewGamma(nil, nil), dist.NewBeta(nil, nil), dist.NewMultivariateNormal(nil, nil),
		dist.NewMixture(dist.NewCategorical(nil), nil), dist.NewMixture(dist.Categorical{}, dist.Normal{}),
		dist.NewNormal(nil, nil, nil, dist.Validate()), dist.NewCategorical(nil), dist.NewCategoricalProbs(nil), dist.NewBernoulliProbs(nil), dist.NewIndependent(nil, 3),
	} {
		require.Nil(t, d.Sample(2))
		require.Nil(t, d.LogProb(nil))
		require.Nil(t, d.Entropy())
		require.Nil(t, d.Graph())
		require.Empty(t, d.BatchShape())
		require.Nil(t, dist.KL(d, d))
		if r, ok := d.(dist.Reparametrized); ok {
			require.Nil(t, r.RSample())
		}
	}
	require.Nil(t, dist.KL(nil, nil))
}

// Actions that are ruled out have a logit of -Inf: they never come, and neither entropy nor gradient is NaN.
func TestCategorical_WithClassesThatAreRuledOut(t *testing.T) {
	g := newGraph(t)
	logits := array{[]int{4}, []float64{0, 1, math.Inf(-1), math.Inf(-1)}, nil}.leaf(t, g, tensor.Float64)
	d, two := dist.NewCategorical(logits, dist.Validate()), dist.NewCategorical(logits.Narrow(0, 0, 2))
	for name, pair := range map[string][2]*autograd.Variable{
		"entropy": {d.Entropy(), two.Entropy()}, "KL": {dist.KL(d, dist.NewCategorical(logits.MulScalar(2))), dist.KL(two, dist.NewCategorical(logits.Narrow(0, 0, 2).MulScalar(2)))},
	} {
		want, err := pair[1].Float64s()
		require.NoError(t, err)
		requireValues(t, name, array{Shape: []int{}, Data: want}, pair[0], 1e-12)
		grads, err := autograd.Grad(pair[:1], []*autograd.Variable{logits}, autograd.RetainGraph())
		require.NoError(t, err)
		fewer, err := autograd.Grad(pair[1:], []*autograd.Variable{logits}, autograd.RetainGraph())
		require.NoError(t, err)
		wantGrad, err := fewer[0].Float64s()
		require.NoError(t, err)
		requireValues(t, name, array{Shape: []int{4}, Data: wantGrad}, grads[0], 1e-12)
	}
	samples, err := d.Sample(200).To(tensor.Float64).Max(nil, false).Item()
	require.NoError(t, err)
	require.LessOrEqual(t, samples, 1.0)
}

func TestProbs_OfNothing_AreNeverDrawn_AndAreInfinitelyFar(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		g := autograd.NewGraph(host.Default(), autograd.WithGenerator(tensor.NewGenerator(5)))
		sure := autograd.FromSlice(g, []float32{1, 0, 0}).To(dt)
		c := dist.NewCategoricalProbs(sure)
		drawn, err := c.Sample(100_000).Max(nil, false).Item()
		require.NoError(t, err)
		require.Zero(t, drawn, dt)
		chances, err := c.Probs().Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{1, 0, 0}, chances, dt)
		b := dist.NewBernoulliProbs(sure)
		mean, err := b.Sample(100_000).To(tensor.Float64).Mean([]int{0}, false).Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{1, 0, 0}, mean, dt)
		other := autograd.FromSlice(g, []float32{0.25, 0.25, 0.5}).To(dt)
		far, err := dist.KL(dist.NewCategoricalProbs(other), c).Item()
		require.NoError(t, err)
		require.Equal(t, math.Inf(1), far, dt)
		each, err := dist.KL(dist.NewBernoulliProbs(other), b).Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{math.Inf(1), math.Inf(1), math.Inf(1)}, each, dt)
		g.Release()
	}
}
