package nn_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// parametrizeGolden is what PyTorch computed: see testdata/parametrize.py.
type parametrizeGolden struct {
	Name                string
	State, Grads, After map[string]array
	Input, Out          array
	InputGrad           array `json:"input_grad"`
	Eval, Weight        array
}

func (c *parametrizeGolden) layer(t *testing.T) nn.Layer {
	linear, conv := nn.Linear(3, 4), nn.Conv2d(2, 3, 2)
	var l nn.Layer = linear
	var err error
	switch c.Name {
	case "weight norm linear":
		err = nn.WeightNorm(l)
	case "weight norm linear dim 1":
		err = nn.WeightNorm(l, nn.NormDim(1))
	case "weight norm linear whole":
		err = nn.WeightNorm(l, nn.NormDim(-1))
	case "weight norm conv2d":
		l = conv
		err = nn.WeightNorm(l)
	case "spectral norm linear":
		err = nn.SpectralNorm(l)
	case "spectral norm conv2d":
		l = conv
		err = nn.SpectralNorm(l, nn.PowerIterations(2))
	case "spectral norm convtranspose1d":
		l = nn.ConvTranspose1d(2, 3, 2)
		err = nn.SpectralNorm(l)
	case "spectral norm layernorm":
		l = nn.LayerNorm([]int{3})
		err = nn.SpectralNorm(l)
	default:
		require.Fail(t, "unknown case", c.Name)
	}
	require.NoError(t, err)
	return l
}

func TestParametrizations_ComputeWhatPyTorchComputes(t *testing.T) {
	text, err := os.ReadFile("testdata/parametrize.json")
	require.NoError(t, err)
	var cases []parametrizeGolden
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 8)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

func (c *parametrizeGolden) check(t *testing.T) {
	r := onHost(t)
	l := c.layer(t)
	r.place(l, nn.DType(tensor.Float64), nn.Seed(1))
	named := nn.NamedState(l)
	require.Len(t, named, len(c.State))
	for _, n := range named {
		require.Contains(t, c.State, n.Name)
		require.NoError(t, n.Parameter.Tensor().CopyFrom(c.State[n.Name].on(r)))
	}
	x := c.Input.on(r)
	placed := r.allocated()
	g := r.graph()
	in := g.Input(x, autograd.RequiresGrad())
	out := l.Forward(in).Keep()
	require.NoError(t, out.Mul(out).Sum(nil, false).Backward())
	value, err := out.Tensor()
	require.NoError(t, err)
	c.Out.requireNear(t, value, "result")
	c.InputGrad.requireNear(t, in.Grad(), "gradient of the input")
	g.Release()
	for _, n := range nn.NamedParameters(l) {
		c.Grads[n.Name].requireNear(t, n.Parameter.Grad(), n.Name)
		n.Parameter.ZeroGrad()
	}
	require.Equal(t, placed, r.allocated())
	for _, n := range named {
		c.After[n.Name].requireNear(t, n.Parameter.Tensor(), n.Name)
	}
	nn.Eval(l)
	require.InDeltaSlice(t, c.Eval.Data, r.forward(l, x), 1e-12)
	require.InDeltaSlice(t, c.Eval.Data, r.forward(l, x), 1e-12, "nothing changes after Eval")

	other := c.layer(t) // another one loads it
	r.place(other, nn.DType(tensor.Float64), nn.Seed(2))
	nn.Eval(other)
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, l))
	require.NoError(t, nn.Load(&file, other))
	require.InDeltaSlice(t, c.Eval.Data, r.forward(other, x), 1e-12)
	copied, err := nn.Clone(l)
	require.NoError(t, err)
	defer copied.Release()
	require.InDeltaSlice(t, c.Eval.Data, r.forward(copied, x), 1e-12)

	require.NoError(t, nn.RemoveParametrization(l, "weight"))
	require.InDeltaSlice(t, c.Eval.Data, r.forward(l, x), 1e-12)
	require.ElementsMatch(t, []string{"weight", "bias"}, names(nn.NamedState(l)))
	for _, n := range nn.NamedParameters(l) {
		if n.Name == "weight" {
			c.Weight.requireNear(t, n.Parameter.Tensor(), "weight")
			require.True(t, n.Parameter.RequiresGrad())
		}
	}
	require.InDeltaSlice(t, c.Eval.Data, r.forward(copied, x), 1e-12, "the copy is its own")
}

func TestParametrizations_OfAPlacedLayerChangeNothing(t *testing.T) {
	r := onHost(t)
	for name, parametrize := range map[string]func(m nn.Module) error{
		"weight norm": func(m nn.Module) error { return nn.WeightNorm(m, nn.NormParameter("weight_hh_l0")) },
	} {
		t.Run(name, func(t *testing.T) {
			m := nn.Sequential(nn.LSTM(2, 3), nn.Linear(3, 2))
			r.place(m, nn.Seed(1))
			x := r.tensor([]float32{1, 2, 3, 4}, 2, 1, 2)
			want := r.forward(m, x)
			require.NoError(t, parametrize(m.At(0)))
			require.InDeltaSlice(t, want, r.forward(m, x), 1e-6)
			require.Equal(t, []string{"0.weight_ih_l0", "0.bias_ih_l0", "0.bias_hh_l0", "0.parametrizations.weight_hh_l0.original0",
				"0.parametrizations.weight_hh_l0.original1", "1.weight", "1.bias"}, names(nn.NamedParameters(m)))
			g := r.graph(autograd.NoGrad())
			out, last, cell := m.At(0).(*nn.RNNLayer).ForwardState(g.Input(x), nil, nil)
			require.NoError(t, g.Err())
			require.Equal(t, []int{3, 3, 3}, []int{out.Dim(2), last.Dim(2), cell.Dim(2)})
			g.Release()
			require.NoError(t, nn.RemoveParametrization(m.At(0), "weight_hh_l0"))
			require.InDeltaSlice(t, want, r.forward(m, x), 1e-6)
		})
	}
}

// The largest singular value of the weight is 1 after SpectralNorm, from the first pass on.
func TestSpectralNorm_BeginsNearTheSingularValue(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2, nn.NoBias(), nn.WeightInit(func(e tensor.Exec, _ *tensor.Generator, _ tensor.DType, _ ...int) (*tensor.Tensor, error) {
		return tensor.FromSlice(e, []float32{3, 0, 0, 1}, 2, 2)
	}))
	require.NoError(t, nn.SpectralNorm(l))
	r.place(l, nn.Seed(1))
	require.EqualValues(t, 3*512, r.allocated(), "the original and two vectors: the weight has no memory")
	require.InDeltaSlice(t, []float64{1, 1. / 3}, r.forward(l, r.tensor([]float32{1, 1}, 2)), 1e-6)
	l.Release()
	r.place(l, nn.Seed(2))
	require.InDeltaSlice(t, []float64{1, 1. / 3}, r.forward(l, r.tensor([]float32{1, 1}, 2)), 1e-6)
}

// doubling computes a parameter as twice its original, plus an offset of its own.
type doubling struct {
	nn.Base
	Offset *autograd.Parameter
	err    error
	many   int
}

func (d *doubling) Originals(shape tensor.Shape) ([]tensor.Shape, error) {
	return []tensor.Shape{shape}, d.err
}

func (d *doubling) Invert(w *tensor.Tensor) (all []*tensor.Tensor, err error) {
	for range d.many {
		t, err := w.MulScalar(0.5)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (d *doubling) Compute(o []*autograd.Variable) *autograd.Variable {
	return o[0].MulScalar(2).Add(o[0].Graph().Param(d.Offset))
}

func newDoubling() *doubling {
	return nn.New(&doubling{Offset: autograd.DeclareParameter("offset", nn.Zeros), many: 1})
}

func TestParametrize_TakesThoseOfPrograms(t *testing.T) {
	r := onHost(t)
	for _, placed := range []bool{false, true} {
		l := nn.Linear(1, 1, nn.WeightInit(nn.Constant(3)), nn.NoBias())
		if placed {
			require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc)))
		}
		require.NoError(t, nn.Parametrize(l, "weight", newDoubling()))
		unplaced, err := nn.Clone(l)
		require.NoError(t, err)
		require.Equal(t, []string{"parametrizations.weight.original", "parametrizations.weight.0.offset"}, names(nn.NamedState(l)))
		r.place(l)
		r.place(unplaced)
		require.Equal(t, []float64{6}, r.forward(l, r.tensor([]float32{2}, 1)))
		require.Equal(t, []float64{6}, r.forward(unplaced, r.tensor([]float32{2}, 1)))
		require.Equal(t, []float64{1.5}, valuesOf(t, nn.NamedState(l)[0].Parameter))
	}
}

func TestParametrize_RefusesWhatCannotBe(t *testing.T) {
	r := onHost(t)
	var bad *nn.ArgumentError
	l := nn.Linear(2, 2)
	require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc)))
	defer l.Release()
	mine := errors.New("mine")
	for want, err := range map[string]error{
		"nn: Parametrize: the module is nil":                                             nn.Parametrize(nil, "weight", newDoubling()),
		"nn: Parametrize: the parametrization is nil":                                    nn.Parametrize(l, "weight", nil),
		"nn: Parametrize: the module has no parameter \"w\" of its own":                  nn.WeightNorm(l, nn.NormParameter("w")),
		"nn: WeightNorm: it has no option PowerIterations":                               nn.WeightNorm(l, nn.PowerIterations(1)),
		"nn: SpectralNorm: 0 power iterations; there must be at least 1":                 nn.SpectralNorm(l, nn.PowerIterations(0)),
		"nn: Parametrize: weight: nn: SpectralNorm: dimension 2; the parameter has 2":    nn.SpectralNorm(l, nn.NormDim(2)),
		"nn: RemoveParametrization: the module has no parametrized parameter \"weight\"": nn.RemoveParametrization(l, "weight"),
	} {
		require.ErrorAs(t, err, &bad)
		require.EqualError(t, err, want)
	}
	before := r.allocated()
	d := newDoubling()
	d.err = mine
	require.ErrorIs(t, nn.Parametrize(l, "weight", d), mine)
	d = newDoubling()
	d.many = 3
	require.ErrorContains(t, nn.Parametrize(l, "weight", d), "it has made 3 tensors, and there are 1 originals")
	require.Equal(t, before, r.allocated())
	require.Equal(t, []string{"weight", "bias"}, names(nn.NamedState(l)))
	require.NoError(t, nn.WeightNorm(l))
	require.ErrorContains(t, nn.WeightNorm(l), "parametrized already")
	g := r.graph()
	l.Release()
	l.Forward(g.Input(r.tensor([]float32{1, 2}, 2)))
	var missing *autograd.ParameterError
	require.ErrorAs(t, g.Err(), &missing)
	require.Equal(t, "parametrizations.weight.original0", missing.Name)
	g.Release()
	l.Weight = autograd.DeclareParameter("weight", nn.Ones, 2, 2)
	require.ErrorContains(t, l.To(r.dev), "its field has been assigned to since it was parametrized")
}

func TestParametrize_ThatFailsKeepsNothing(t *testing.T) {
	r := onSim(t)
	l := nn.Linear(1<<13, 1<<14+1<<13) // 768 MiB of 1 GiB
	require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc)))
	defer l.Release()
	before := r.allocated()
	require.Error(t, nn.WeightNorm(l))
	require.Error(t, nn.SpectralNorm(l))
	require.Equal(t, before, r.allocated())
	require.Len(t, l.Parameters(), 2)
	l.Release()
	require.NoError(t, nn.WeightNorm(l))
	require.Error(t, l.To(r.dev, nn.WithAllocator(r.alloc)), "the weight, from which the originals are made, is there beside them")
	require.Zero(t, r.allocated())
}

func TestSpectralNorm_OfAModelThatIsYetToBeLoaded(t *testing.T) {
	r := onHost(t)
	from, to := nn.Linear(3, 2), nn.Linear(3, 2)
	for _, l := range []*nn.LinearLayer{from, to} {
		require.NoError(t, nn.SpectralNorm(l))
	}
	r.place(from, nn.Seed(1))
	r.place(to, nn.Unset())
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, from))
	require.NoError(t, nn.Load(&file, to))
	x := r.tensor([]float32{1, 2, 3}, 3)
	require.Equal(t, r.forward(from, x), r.forward(to, x))
	require.Equal(t, r.forward(nn.Sequential(from), x), r.forward(to, x), "both have taken the same steps")
}
