package nn_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// What is wrong with a module is the error of To, and that of the graph in which it runs.
func TestModules_ThatCannotBeMadeSayWhy(t *testing.T) {
	inner := nn.Sequential(nn.ReLU())
	inner.Register("self", inner)
	for name, m := range map[string]nn.Layer{
		"GRU of 2^62 layers": nn.GRU(3, 3, nn.Layers(1<<62)),
		"LSTM of none":       nn.LSTM(3, 3, nn.Layers(0)),
		"nil part":           nn.Sequential(nn.ReLU(), nil),
		"nil pointer":        nn.Sequential((*nn.LinearLayer)(nil)),
		"nil module":         nn.Checkpointed(nil),
		"part of itself":     inner,
		"kernel of 3 sizes":  nn.Conv2d(3, 4, 3, nn.KernelSize(1, 1, 1)),
		"kernel of 2 sizes":  nn.Conv1d(3, 4, 3, nn.KernelSize(2, 5)),
		"transposed kernel":  nn.ConvTranspose1d(3, 4, 3, nn.KernelSize(2, 5)),
		"no groups":          nn.Conv1d(3, 4, 3, nn.Groups(0)),
		"no groups at all":   nn.ConvTranspose2d(3, 4, 3, nn.Groups(0)),
		"output padding":     nn.Conv1d(3, 4, 3, nn.OutputPadding(1)),
		"same size":          nn.ConvTranspose1d(3, 4, 3, nn.PaddingSame()),
		"divisor":            nn.AvgPool1d(3, nn.DivisorOverride(0)),
		"divisor of a max":   nn.MaxPool1d(3, nn.DivisorOverride(0)),
		"negative groups":    nn.Conv1d(3, 4, 3, nn.Groups(-1)),
		"groups of inputs":   nn.Conv1d(3, 4, 3, nn.Groups(2)),
		"groups of outputs":  nn.ConvTranspose1d(3, 4, 3, nn.Groups(3)),
		"heads":              nn.MultiheadAttention(4, 3),
		"no heads":           nn.TransformerBlock(4, 0),
		"negative heads":     nn.MultiheadAttention(4, -2),
		"groups of channels": nn.GroupNorm(2, 3),
		"no channel groups":  nn.GroupNorm(0, 3),
		"dropout":            nn.Dropout(1.5),
		"no dropout":         nn.Dropout(math.NaN()),
		"block dropout":      nn.TransformerBlock(4, 2, nn.BlockDropout(-1)),
		"attention dropout":  nn.MultiheadAttention(4, 2, nn.AttentionDropout(2)),
		"recurrent dropout":  nn.GRU(3, 3, nn.DropoutBetween(2)),
	} {
		t.Run(name, func(t *testing.T) {
			dev := host.New()
			defer func() { require.NoError(t, dev.Close()) }()
			var bad *nn.ArgumentError
			require.ErrorAs(t, m.To(dev), &bad, name)
			g := autograd.NewGraph(dev)
			defer g.Release()
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 1, 3, 3) })
			require.False(t, m.Forward(x).Alive())
			require.ErrorAs(t, g.Err(), &bad)
			require.NotEmpty(t, nn.Describe("model", m))
		})
	}
}

func TestNil_ArgumentsOfModules(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	m := nn.Sequential(nn.Conv2d(1, 1, 3, nil, nn.KernelSize(), nn.LayerOption(nil), nn.WindowOption{}), nn.MaxPool2d(2, nil, nn.KernelSize()))
	require.Equal(t, tensor.Shape{1, 1, 3, 3}, m.Parameters()[0].Shape())
	require.NoError(t, m.To(dev, nil))
	defer m.Release()
	var bad *nn.ArgumentError
	require.ErrorAs(t, nn.Load(nil, m), &bad)
	require.ErrorAs(t, nn.Save(nil, m), &bad)
	require.ErrorAs(t, nn.Save(new(bytes.Buffer), nil), &bad)
	require.Nil(t, m.At(-1))
	require.Nil(t, m.At(2))

	g := autograd.NewGraph(dev)
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2) })
	require.False(t, nn.Func("f", nil).Forward(x).Alive())
	require.ErrorAs(t, g.Err(), &bad)

	for _, shape := range [][]int{{-1, 3}, {1 << 32, 1 << 32}} {
		var wrong *tensor.ShapeError
		e, err := tensor.On(dev)
		require.NoError(t, err)
		_, err = nn.Eye(e, nil, tensor.Float32, shape...)
		require.ErrorAs(t, err, &wrong)
	}
}

// empty is a module whose Forward, without a Scope, returns nil.
type empty struct{ nn.Base }

func (*empty) Forward(*autograd.Variable) *autograd.Variable { return nil }

// hollow is one with a Scope.
type hollow struct{ nn.Base }

func (h *hollow) Forward(x *autograd.Variable) *autograd.Variable {
	return h.Scope(x, func(*autograd.Graph) *autograd.Variable { return nil })
}

func TestForward_ThatReturnsNilIsTheGraphsError(t *testing.T) {
	r := onHost(t)
	none := nn.Func("f", func(*autograd.Variable) *autograd.Variable { return nil })
	for want, m := range map[string]nn.Layer{
		"autograd: forward in 1 at refused_test.go:":              nn.Sequential(nn.Linear(5, 3), none, nn.Linear(3, 2)),
		"autograd: forward in 0 at refused_test.go:":              nn.Sequential(new(hollow)),
		"autograd: forward(float32[2, 5]) at refused_test.go:":    nn.Sequential(nn.Identity(), new(empty), nn.Identity()),
		"module 1: Forward returned nil":                          nn.Sequential(nn.Identity(), new(empty), nn.Identity()),
		"autograd: checkpoint(float32[2, 5]) at refused_test.go:": nn.Checkpointed(new(empty)),
	} {
		r.place(m)
		g := r.graph()
		y := m.Forward(g.Input(r.tensor(make([]float32, 10), 2, 5)))
		require.ErrorIs(t, g.Err(), autograd.ErrNilVariable, want)
		require.ErrorContains(t, g.Err(), want)
		require.ErrorContains(t, g.Err(), "Forward returned nil", want)
		require.False(t, y.Alive())
		require.NotNil(t, y)
		g.Release()
		require.Nil(t, m.Forward(nil), "a nil input is not the module's mistake")
	}
}

func TestMessages_OfMistakesInMakingALayer(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	for want, m := range map[string]nn.Layer{
		"nn: PaddingIdx: row 9 of 4 rows":              nn.Embedding(4, 2, nn.PaddingIdx(9)),
		"nn: PaddingIdx: row -5 of 4 rows":             nn.EmbeddingBag(4, 2, tensor.BagSum, nn.PaddingIdx(-5)),
		"it has no initializer that could make one":    nn.Linear(2, 3, nn.WeightInit(nil)),
		"nn: Groups: 0 groups; there must be at least": nn.Conv1d(1, 1, 1, nn.Groups(0)),
	} {
		err := m.To(dev)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "module :")
	}
}

// As in PyTorch, a layer does not take an option that it does not have.
func TestOptions_OfOtherLayersAreRefused(t *testing.T) {
	layers := map[string]func(o nn.LayerOption) nn.Layer{
		"Linear":          func(o nn.LayerOption) nn.Layer { return nn.Linear(2, 2, o) },
		"Embedding":       func(o nn.LayerOption) nn.Layer { return nn.Embedding(2, 2, o) },
		"EmbeddingBag":    func(o nn.LayerOption) nn.Layer { return nn.EmbeddingBag(2, 2, tensor.BagSum, o) },
		"LayerNorm":       func(o nn.LayerOption) nn.Layer { return nn.LayerNorm([]int{2}, o) },
		"RMSNorm":         func(o nn.LayerOption) nn.Layer { return nn.RMSNorm([]int{2}, o) },
		"GroupNorm":       func(o nn.LayerOption) nn.Layer { return nn.GroupNorm(1, 2, o) },
		"InstanceNorm1d":  func(o nn.LayerOption) nn.Layer { return nn.InstanceNorm1d(2, o) },
		"InstanceNorm2d":  func(o nn.LayerOption) nn.Layer { return nn.InstanceNorm2d(2, o) },
		"BatchNorm1d":     func(o nn.LayerOption) nn.Layer { return nn.BatchNorm1d(2, o) },
		"BatchNorm2d":     func(o nn.LayerOption) nn.Layer { return nn.BatchNorm2d(2, o) },
		"BatchNorm3d":     func(o nn.LayerOption) nn.Layer { return nn.BatchNorm3d(2, o) },
		"Conv1d":          func(o nn.LayerOption) nn.Layer { return nn.Conv1d(2, 2, 1, o) },
		"Conv2d":          func(o nn.LayerOption) nn.Layer { return nn.Conv2d(2, 2, 1, o) },
		"ConvTranspose1d": func(o nn.LayerOption) nn.Layer { return nn.ConvTranspose1d(2, 2, 1, o) },
		"ConvTranspose2d": func(o nn.LayerOption) nn.Layer { return nn.ConvTranspose2d(2, 2, 1, o) },
	}
	options := map[string]nn.LayerOption{
		"NoBias": nn.NoBias(), "WeightInit": nn.WeightInit(nn.Ones), "BiasInit": nn.BiasInit(nn.Ones), "Eps": nn.Eps(1e-3),
		"Affine": nn.Affine(true), "Momentum": nn.Momentum(0.1), "RunningStats": nn.RunningStats(true), "PaddingIdx": nn.PaddingIdx(0),
	}
	has := func(layer, option string) bool {
		norm, table := strings.Contains(layer, "Norm"), strings.HasPrefix(layer, "Embedding")
		switch option {
		case "NoBias", "BiasInit":
			return !table && layer != "RMSNorm"
		case "Eps", "Affine":
			return norm
		case "Momentum", "RunningStats":
			return strings.HasPrefix(layer, "BatchNorm")
		case "PaddingIdx":
			return table
		}
		return true
	}
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	for layer, make := range layers {
		for option, o := range options {
			m := make(o)
			err := m.To(dev)
			if has(layer, option) {
				require.NoError(t, err, "%s of %s", option, layer)
				m.Release()
				continue
			}
			var bad *nn.ArgumentError
			require.ErrorAs(t, err, &bad, "%s of %s", option, layer)
			require.EqualError(t, bad, "nn: "+layer+": it has no option "+option)
		}
	}
	for want, m := range map[string]nn.Layer{
		"nn: LSTMCell: it has no option Bidirectional":      nn.LSTMCell(2, 2, nn.Bidirectional()),
		"nn: LSTMCell: it has no option Layers":             nn.LSTMCell(2, 2, nn.NoRNNBias(), nn.Layers(1)),
		"nn: GRUCell: it has no option BatchFirst":          nn.GRUCell(2, 2, nn.BatchFirst()),
		"nn: GRUCell: it has no option DropoutBetween":      nn.GRUCell(2, 2, nn.DropoutBetween(0)),
		"nn: AvgPool1d: it has no option Dilation":          nn.AvgPool1d(2, nn.Dilation(1)),
		"nn: AvgPool2d: it has no option Dilation":          nn.AvgPool2d(2, nn.CeilMode(), nn.Dilation(1)),
		"nn: MaxPool1d: it has no option ExcludePadding":    nn.MaxPool1d(2, nn.ExcludePadding()),
		"nn: MaxPool2d: it has no option DivisorOverride":   nn.MaxPool2d(2, nn.DivisorOverride(2)),
		"nn: Conv1d: it has no option OutputPadding":        nn.Conv1d(1, 1, 1, nn.OutputPadding(1)),
		"nn: Conv2d: it has no option OutputPadding":        nn.Conv2d(1, 1, 1, nn.OutputPadding(1)),
		"nn: ConvTranspose2d: it has no option PaddingSame": nn.ConvTranspose2d(1, 1, 1, nn.PaddingSame()),
	} {
		require.EqualError(t, m.To(dev), want)
	}
}

// A step of a cell does not go by Forward, which finds what is wrong with other modules.
func TestRecurrent_StepsFindMistakesToo(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2}, 1, 2))
	h, c := nn.LSTMCell(2, 2, nn.Layers(2)).Step(x, nil, nil)
	require.False(t, h.Alive() || c.Alive())
	require.ErrorContains(t, g.Err(), "nn: LSTMCell: it has no option Layers")
	layer := *nn.GRU(2, 2)
	other := r.graph()
	defer other.Release()
	layer.ForwardState(other.Input(r.tensor([]float32{1, 2}, 1, 2)), nil, nil)
	require.ErrorContains(t, other.Err(), "it is a copy of another one")
}

func TestCheckpointed_BatchNormCountsABatchTwice(t *testing.T) {
	r := onHost(t)
	l := nn.BatchNorm1d(1)
	m := nn.Checkpointed(l)
	r.place(m)
	defer m.Release()
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2}, 2, 1), autograd.RequiresGrad())
	require.NoError(t, m.Forward(x).Sum(nil, false).Backward())
	require.Equal(t, []float64{2}, valuesOf(t, l.BatchesTracked), "as in PyTorch")
}
