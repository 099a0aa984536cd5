package nn_test

import (
	"bytes"
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
	for name, m := range map[string]nn.Module{
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
	for want, m := range map[string]nn.Module{
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
	for want, m := range map[string]nn.Module{
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
