package nn_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// layerGolden is a case of testdata/layers.py.
type layerGolden struct {
	Name, Text      string
	Inputs, Outputs []layerTensor
	Grads           []*layerTensor
	State           []struct {
		Name        string
		Value, Grad layerTensor
	}
}

type layerTensor struct {
	Shape []int
	Data  []float64
	Int   bool
}

// take makes a leaf of it.
func (x layerTensor) take(g *autograd.Graph) *autograd.Variable {
	v := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, x.Data, x.Shape...) })
	if x.Int {
		return v.To(tensor.Int64)
	}
	return v
}

func (x layerTensor) check(t *testing.T, got *tensor.Tensor, what string) {
	t.Helper()
	require.NotNil(t, got, what)
	require.True(t, got.Shape().Equal(x.Shape), "%s: %v, want %v", what, got.Shape(), x.Shape)
	values, err := got.Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, x.Data, values, 1e-11, what)
}

type variables = []*autograd.Variable

// goldenLayers are the layers of testdata/layers.py.
var goldenLayers = map[string]func() (nn.Module, func(in variables) variables){
	"bilinear":                  bilinearGolden(),
	"bilinear no bias":          bilinearGolden(nn.NoBias()),
	"cosine similarity":         pairGolden(func() *nn.PairModule { return nn.CosineSimilarity(1, 1e-8) }),
	"cosine similarity of rows": pairGolden(func() *nn.PairModule { return nn.CosineSimilarity(-1, 1e-3) }),
	"pairwise distance":         pairGolden(func() *nn.PairModule { return nn.PairwiseDistance(2, 1e-6, false) }),
	"pairwise distance kept":    pairGolden(func() *nn.PairModule { return nn.PairwiseDistance(3, 1e-3, true) }),
	"rrelu":                     layerOfOne(func() nn.Layer { m := nn.RReLU(0.1, 0.5); nn.Eval(m); return m }),
	"lp pool 1d":                layerOfOne(func() nn.Layer { return nn.LPPool1d(3, 2) }),
	"lp pool 2d":                layerOfOne(func() nn.Layer { return nn.LPPool2d(2, 0, nn.KernelSize(2, 3), nn.Stride(1, 2), nn.CeilMode()) }),
	"max pool": poolGolden(func() *nn.MaxPoolIndicesModule {
		return nn.MaxPool2dIndices(3, nn.KernelSize(3, 2), nn.Stride(2, 1), nn.Padding(1))
	}),
	"max pool ceil":             poolGolden(func() *nn.MaxPoolIndicesModule { return nn.MaxPool2dIndices(2, nn.CeilMode()) }),
	"max pool 1d":               poolGolden(func() *nn.MaxPoolIndicesModule { return nn.MaxPool1dIndices(2) }),
	"max unpool":                unpoolGolden(func() *nn.MaxUnpoolModule { return nn.MaxUnpool2d(2) }),
	"max unpool sized":          unpoolGolden(func() *nn.MaxUnpoolModule { return nn.MaxUnpool2d(2) }, 6, 7),
	"max unpool padded":         unpoolGolden(func() *nn.MaxUnpoolModule { return nn.MaxUnpool2d(3, nn.KernelSize(3, 2), nn.Padding(1, 0)) }, 6, 7),
	"max unpool 1d":             unpoolGolden(func() *nn.MaxUnpoolModule { return nn.MaxUnpool1d(3, nn.Stride(2)) }),
	"flatten":                   layerOfOne(func() nn.Layer { return nn.Flatten(0, 1) }),
	"upsampling nearest":        layerOfOne(func() nn.Layer { return nn.UpsamplingNearest2d(tensor.Upsample{Scale: []float64{2}}) }),
	"upsampling bilinear":       layerOfOne(func() nn.Layer { return nn.UpsamplingBilinear2d(tensor.Upsample{Size: []int{3, 5}}) }),
	"adaptive softmax":          adaptiveGolden(adaptiveForward),
	"adaptive softmax alone":    adaptiveGolden(adaptiveForward),
	"adaptive softmax log prob": adaptiveGolden(func(m *nn.AdaptiveLogSoftmaxLayer, in variables) variables { return variables{m.LogProb(in[0])} }),
	"adaptive softmax predict":  adaptiveGolden(func(m *nn.AdaptiveLogSoftmaxLayer, in variables) variables { return variables{m.Predict(in[0])} }),
}

func bilinearGolden(opts ...nn.LayerOption) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := nn.Bilinear(3, 2, 5, opts...)
		return m, func(in variables) variables { return variables{m.Forward(in[0], in[1])} }
	}
}

func pairGolden(make func() *nn.PairModule) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := make()
		return m, func(in variables) variables { return variables{m.Forward(in[0], in[1])} }
	}
}

func layerOfOne(make func() nn.Layer) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := make()
		return m, func(in variables) variables { return variables{m.Forward(in[0])} }
	}
}

func poolGolden(make func() *nn.MaxPoolIndicesModule) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := make()
		return m, func(in variables) variables {
			y, at := m.Forward(in[0])
			return variables{y, at}
		}
	}
}

func unpoolGolden(make func() *nn.MaxUnpoolModule, size ...int) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := make()
		return m, func(in variables) variables { return variables{m.Forward(in[0], in[1], size...)} }
	}
}

func adaptiveForward(m *nn.AdaptiveLogSoftmaxLayer, in variables) variables {
	output, loss := m.Forward(in[0], in[1])
	return variables{output, loss}
}

func adaptiveGolden(f func(m *nn.AdaptiveLogSoftmaxLayer, in variables) variables) func() (nn.Module, func(variables) variables) {
	return func() (nn.Module, func(variables) variables) {
		m := nn.AdaptiveLogSoftmaxWithLoss(8, 12, []int{3, 7}, nn.DivValue(2), nn.HeadBias())
		return m, func(in variables) variables { return f(m, in) }
	}
}

func TestLayers_ComputeWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/layers.json")
	require.NoError(t, err)
	var cases []layerGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, len(goldenLayers))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.compare(t) })
	}
}

func (c layerGolden) compare(t *testing.T) {
	r := onHost(t)
	m, f := goldenLayers[c.Name]()
	r.place(m, nn.DType(tensor.Float64))
	require.Equal(t, c.Text, fmt.Sprint(m))
	c.fill(t, r, m)
	before := r.allocated()
	g := r.graph()
	var in variables
	for i, x := range c.Inputs {
		v := x.take(g)
		if i < len(c.Grads) && c.Grads[i] != nil {
			x, err := v.Take()
			require.NoError(t, err)
			v = g.Input(x, autograd.RequiresGrad())
			x.Release()
		}
		in = append(in, v)
	}
	out := f(in)
	require.NoError(t, g.Err())
	var total *autograd.Variable
	for i, v := range out {
		y, err := v.Tensor()
		require.NoError(t, err)
		c.Outputs[i].check(t, y, fmt.Sprintf("result %d", i))
		if v.RequiresGrad() {
			n := v.Len()
			weights := g.Linspace(0.5, 0.5*float64(n), n, tensor.Float64).Reshape(v.Shape()...)
			if part := v.Mul(weights).Sum(nil, false); total == nil {
				total = part
			} else {
				total = total.Add(part)
			}
		}
	}
	if total != nil {
		require.NoError(t, total.Backward())
	}
	for i, want := range c.Grads {
		if want != nil {
			want.check(t, in[i].Grad(), fmt.Sprintf("gradient of input %d", i))
		}
	}
	for i, n := range nn.NamedParameters(m) {
		if n.Parameter.Grad() != nil {
			c.State[i].Grad.check(t, n.Parameter.Grad(), n.Name)
		}
	}
	for _, p := range m.Parameters() {
		p.ZeroGrad()
	}
	g.Release()
	require.Equal(t, before, r.allocated())
}

// fill gives the parameters of m the values of the script.
func (c layerGolden) fill(t *testing.T, r *rig, m nn.Module) {
	named := nn.NamedParameters(m)
	require.Len(t, named, len(c.State))
	for i, n := range named {
		require.Equal(t, c.State[i].Name, n.Name)
		x, err := tensor.FromSlice(r.exec, c.State[i].Value.Data, c.State[i].Value.Shape...)
		require.NoError(t, err)
		require.NoError(t, n.Parameter.Tensor().CopyFrom(x))
		x.Release()
	}
}

func TestBilinear_StartsWithinTheBound(t *testing.T) {
	r := onHost(t)
	m := nn.Bilinear(16, 3, 40)
	r.place(m, nn.Seed(1))
	for _, p := range m.Parameters() {
		most := 0.0
		for _, v := range valuesOf(t, p) {
			most = max(most, v, -v)
		}
		require.LessOrEqual(t, most, 0.25)
		require.Greater(t, most, 0.2)
	}
}

func TestRReLU_IsRandomInTrainingAlone(t *testing.T) {
	r := onHost(t)
	m := nn.RReLU(0.25, 0.5)
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
	defer g.Release()
	x := g.Full(-1, tensor.Float64, 64)
	v, err := m.Forward(x).Float64s()
	require.NoError(t, err)
	distinct := map[float64]bool{}
	for _, e := range v {
		require.True(t, e <= -0.25 && e >= -0.5, e)
		distinct[e] = true
	}
	require.Greater(t, len(distinct), 32)
}

func TestFeatureAlphaDropout_DropsWholeChannels(t *testing.T) {
	r := onHost(t)
	m := nn.FeatureAlphaDropout(0.25)
	require.Equal(t, "FeatureAlphaDropout(p=0.25, inplace=False)", m.String())
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
	defer g.Release()
	v, err := m.Forward(g.Ones(tensor.Float64, 8, 16, 5)).Float64s()
	require.NoError(t, err)
	values := map[float64]int{}
	for i := range 8 * 16 {
		for _, e := range v[5*i : 5*i+5] {
			require.Equal(t, v[5*i], e)
		}
		values[v[5*i]]++
	}
	require.Len(t, values, 2, "kept, or dropped")
	m.Forward(g.Ones(tensor.Float64, 8))
	require.ErrorContains(t, g.Err(), "FeatureAlphaDropout: [8]: 1 dimension; want 2 at least")
}

func TestLayers_RefuseWhatTheyCannotDo(t *testing.T) {
	r := onHost(t)
	var wrong *nn.ArgumentError
	for want, m := range map[string]nn.Module{
		"Bilinear: 0 features":   nn.Bilinear(0, 1, 1),
		"it has no option Eps":   nn.Bilinear(1, 1, 1, nn.Eps(1)),
		"cutoffs [] of 3":        nn.AdaptiveLogSoftmaxWithLoss(4, 3, nil),
		"cutoffs [2 2] of 3":     nn.AdaptiveLogSoftmaxWithLoss(4, 3, []int{2, 2}),
		"cutoffs [3] of 3":       nn.AdaptiveLogSoftmaxWithLoss(4, 3, []int{3}),
		"cutoffs [0] of 3":       nn.AdaptiveLogSoftmaxWithLoss(4, 3, []int{0}),
		"the divisor is 0":       nn.AdaptiveLogSoftmaxWithLoss(4, 3, []int{2}, nn.DivValue(0), nil),
		"3 numbers of the strid": nn.MaxUnpool2d(2, nn.Stride(1, 2, 3)),
		"no option Dilation":     nn.MaxUnpool2d(2, nn.Dilation(2)),
		"option ExcludePadding":  nn.MaxPool2dIndices(2, nn.ExcludePadding()),
		"option DivisorOverride": nn.LPPool2d(2, 2, nn.DivisorOverride(2)),
		"3 dimensions; there ar": nn.Flatten(0, 1, 2),
		"option NonlinearityReL": nn.GRUCell(1, 1, nn.NonlinearityReLU()),
	} {
		err := nn.Check(m)
		require.ErrorAs(t, err, &wrong, want)
		require.ErrorContains(t, err, want)
	}
	adaptive := nn.AdaptiveLogSoftmaxWithLoss(4, 9, []int{3})
	r.place(adaptive)
	before := r.allocated()
	for want, f := range map[string]func(g *autograd.Graph){
		"row 1 has class 9 of 9": func(g *autograd.Graph) {
			adaptive.Forward(g.Ones(tensor.Float32, 2, 4), autograd.FromSlice(g, []int64{0, 9}, 2))
		},
		"classes of int32":   func(g *autograd.Graph) { adaptive.Forward(g.Ones(tensor.Float32, 2, 4), g.Zeros(tensor.Int32, 2)) },
		"one class for each": func(g *autograd.Graph) { adaptive.Forward(g.Ones(tensor.Float32, 2, 4), g.Zeros(tensor.Int64, 3)) },
		"want [N, 4]":        func(g *autograd.Graph) { adaptive.LogProb(g.Ones(tensor.Float32, 2, 5)) },
		"nil variable":       func(g *autograd.Graph) { adaptive.Forward(g.Ones(tensor.Float32, 2, 4), nil) },
		"is [9 9]; along dimension 0 it must be between 3 and 5": func(g *autograd.Graph) {
			nn.MaxUnpool2d(2).Forward(g.Ones(tensor.Float32, 1, 2, 2), g.Zeros(tensor.Int64, 1, 2, 2), 9, 9)
		},
		"1 sizes of the result": func(g *autograd.Graph) {
			nn.MaxUnpool2d(2).Forward(g.Ones(tensor.Float32, 1, 2, 2), g.Zeros(tensor.Int64, 1, 2, 2), 9)
		},
		"want 3 or 4": func(g *autograd.Graph) {
			nn.MaxUnpool2d(2).Forward(g.Ones(tensor.Float32, 2), g.Zeros(tensor.Int64, 2))
		},
	} {
		g := r.graph()
		f(g)
		require.ErrorContains(t, g.Err(), want)
		g.Release()
		require.Equal(t, before, r.allocated(), want)
	}
}

// What is saved under PyTorch's names is what PyTorch's state_dict has.
func TestAdaptiveLogSoftmax_HasPyTorchsNames(t *testing.T) {
	var names []string
	for _, n := range nn.NamedParameters(nn.AdaptiveLogSoftmaxWithLoss(8, 12, []int{3, 7})) {
		names = append(names, n.Name+" "+n.Parameter.Shape().String())
	}
	require.Equal(t, []string{"head.weight [5, 8]", "tail.0.0.weight [2, 8]", "tail.0.1.weight [4, 2]", "tail.1.0.weight [0, 8]", "tail.1.1.weight [5, 0]"}, names)
}
