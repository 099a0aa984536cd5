package nn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// net is a module as users write them, with a weight that two of its parts share.
type net struct {
	nn.Base
	body  *nn.SequentialModule
	head  *nn.LinearLayer
	again *nn.LinearLayer
}

func newNet() *net {
	n := &net{body: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5)), head: nn.Linear(3, 3, nn.NoBias())}
	n.again = n.head
	nn.RegisterField(&n.Base, "body", &n.body)
	nn.RegisterField(&n.Base, "head", &n.head)
	nn.RegisterField(&n.Base, "again", &n.again)
	return n
}

func (n *net) Forward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable { return n.again.Forward(n.head.Forward(n.body.Forward(x))) })
}

func TestParameters_AreNamedByTheirPathAndListedOnce(t *testing.T) {
	n := newNet()
	var names []string
	for _, p := range nn.NamedParameters(n) {
		names = append(names, p.Name+" "+p.Parameter.Shape().String())
	}
	require.Equal(t, []string{"body.0.weight [3, 4]", "body.0.bias [3]", "head.weight [3, 3]"}, names)
	require.Len(t, n.Parameters(), 3)
	require.Same(t, n.head.Weight, n.Parameters()[2])
}

func TestForward_BeforeTo_IsAnErrorOfTheGraph(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	out := nn.Sequential(nn.Linear(2, 2), nn.ReLU()).Forward(g.Input(r.tensor([]float32{1, 2}, 1, 2)))
	require.ErrorIs(t, out.Sum(nil, false).Backward(), autograd.ErrNotMaterialized)
	require.ErrorContains(t, g.Err(), "module_test.go")
	require.ErrorContains(t, g.Err(), "To on the model")
	require.Nil(t, nn.ReLU().Forward(nil), "nothing in, nothing out")
}

func TestTo_WithASeed_GivesTheSameModelEveryTime(t *testing.T) {
	r := onHost(t)
	a, b, c := newNet(), newNet(), newNet()
	r.place(a, nn.Seed(1))
	r.place(b, nn.WithGenerator(tensor.NewGenerator(1)))
	r.place(c)
	for i, p := range a.Parameters() {
		require.Equal(t, valuesOf(t, p), valuesOf(t, b.Parameters()[i]))
		require.NotEqual(t, valuesOf(t, p), valuesOf(t, c.Parameters()[i]), "without a seed it is another model")
	}
	require.NotEqual(t, valuesOf(t, a.Parameters()[0])[:9], valuesOf(t, a.Parameters()[2])[:9])
}

func TestTo_MovesAModelThatHasValues(t *testing.T) {
	r, other := onHost(t), onHost(t)
	n := newNet()
	r.place(n, nn.Seed(1))
	before := valuesOf(t, n.head.Weight)
	require.NoError(t, n.To(other.dev, nn.WithAllocator(other.alloc)))
	require.Zero(t, r.allocated())
	require.Equal(t, before, valuesOf(t, n.head.Weight))
	require.NoError(t, n.To(other.dev, nn.WithAllocator(other.alloc), nn.DType(tensor.Float64)))
	require.Equal(t, tensor.Float64, n.head.Weight.Tensor().DType())
	require.Equal(t, before, valuesOf(t, n.head.Weight))
}

func TestTo_ThatFailsLeavesNothingBehind(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	n := newNet()
	for nth := 1; nth <= 3; nth++ {
		dev.FailNext(sim.CallMalloc, nth, device.ErrOutOfMemory)
		err := n.To(dev, nn.WithAllocator(alloc))
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.ErrorContains(t, err, "parameter")
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.Nil(t, n.head.Weight.Tensor())
	}
	require.NoError(t, n.To(dev, nn.WithAllocator(alloc)))
	n.Release()
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	require.Error(t, n.To(nil))
}

func TestTrainAndEval_ReachAllParts(t *testing.T) {
	n := newNet()
	dropout := n.body.At(2).(*nn.DropoutLayer)
	require.True(t, dropout.Training())
	nn.Eval(n)
	require.False(t, n.Training() || n.body.Training() || dropout.Training())
	nn.Train(n)
	require.True(t, n.Training() && n.body.Training() && dropout.Training())
}

func TestDropout_ActsInTrainingOnly(t *testing.T) {
	r := onHost(t)
	d := nn.Dropout(0.25)
	ones := make([]float32, 4000)
	for i := range ones {
		ones[i] = 1
	}
	x := r.tensor(ones)
	zeros := 0
	for _, v := range r.forward(d, x, autograd.WithGenerator(tensor.NewGenerator(1))) {
		if v == 0 {
			zeros++
			continue
		}
		require.InDelta(t, 4.0/3, v, 1e-6)
	}
	require.InDelta(t, 1000, zeros, 5*27.4, "five standard deviations")
	nn.Eval(d)
	require.NotContains(t, r.forward(d, x), 0.0)
}

func TestDropout_RefusesWhatIsNotAProbability(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	nn.Dropout(1.5).Forward(g.Input(r.tensor([]float32{1})))
	require.ErrorContains(t, g.Err(), "1.5")
	all := nn.Dropout(1)
	require.Equal(t, []float64{0, 0}, r.forward(all, r.tensor([]float32{1, 2})))
}

// The models below have layers of [64, 64] float32, 16 KiB each, and inputs of [64, 64].
const unit = 64 * 64 * 4

func deep(n int) *nn.SequentialModule {
	var layers []nn.Layer
	for range n {
		layers = append(layers, nn.Linear(64, 64, nn.NoBias()), nn.Sigmoid())
	}
	return nn.Sequential(layers...)
}

func TestSequential_WithoutGradientsHoldsTwoResultsAtATime(t *testing.T) {
	for _, depth := range []int{2, 10} {
		r := onSim(t)
		m := deep(depth)
		r.place(m)
		x := r.tensor(make([]float32, 64*64), 64, 64)
		base := r.allocated()
		r.alloc.ResetPeakStats()
		g := r.graph(autograd.NoGrad())
		out := m.Forward(g.Input(x))
		require.EqualValues(t, base+2*unit, r.alloc.Stats().AllocatedBytes.All.Peak, "a layer's input and its result")
		require.EqualValues(t, base+unit, r.allocated())
		require.True(t, out.Alive())
		g.Release()
	}
}

func TestSequential_WithGradientsHoldsOnlyWhatIsSaved(t *testing.T) {
	r := onSim(t)
	m := deep(3)
	r.place(m)
	x := r.tensor(make([]float32, 64*64), 64, 64)
	base := r.allocated()
	g := r.graph()
	out := m.Forward(g.Input(x))
	// Each sigmoid saves its result, which is also what the next layer saves. Results of the linear layers are gone.
	require.EqualValues(t, base+3*unit, r.allocated())
	require.NoError(t, out.Sum(nil, false).Backward())
	g.Release()
	require.EqualValues(t, base+3*unit, r.allocated(), "three gradients")
}

func TestDescriptions_ArePyTorchs(t *testing.T) {
	m := nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), nn.Embedding(4, 5), nn.LeakyReLU(0.01), nn.Linear(3, 1, nn.NoBias()))
	require.Equal(t, `Sequential(
  (0): Linear(in_features=2, out_features=3, bias=True)
  (1): Sequential(
    (0): ReLU()
    (1): Dropout(p=0.5, inplace=False)
  )
  (2): Embedding(4, 5)
  (3): LeakyReLU(negative_slope=0.01)
  (4): Linear(in_features=3, out_features=1, bias=False)
)`, m.String())
	require.Equal(t, 5, m.Len())
	require.Equal(t, "Sequential()", nn.Sequential().String())
}

func TestFunctionModules_ComputeWhatTheirNamesSay(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float32{-1, 0, 2, 3}, 1, 2, 2)
	for m, want := range map[*nn.FuncModule]func(v *autograd.Variable) *autograd.Variable{
		nn.Identity():          func(v *autograd.Variable) *autograd.Variable { return v },
		nn.Flatten():           func(v *autograd.Variable) *autograd.Variable { return v.Reshape(1, 4) },
		nn.ReLU():              (*autograd.Variable).ReLU,
		nn.LeakyReLU(0.2):      func(v *autograd.Variable) *autograd.Variable { return v.LeakyReLU(0.2) },
		nn.Sigmoid():           (*autograd.Variable).Sigmoid,
		nn.Tanh():              (*autograd.Variable).Tanh,
		nn.GELU():              (*autograd.Variable).GELU,
		nn.GELUTanh():          (*autograd.Variable).GELUTanh,
		nn.SiLU():              (*autograd.Variable).SiLU,
		nn.Mish():              (*autograd.Variable).Mish,
		nn.Hardsigmoid():       (*autograd.Variable).Hardsigmoid,
		nn.Hardswish():         (*autograd.Variable).Hardswish,
		nn.Softsign():          (*autograd.Variable).Softsign,
		nn.Softplus(2, 20):     func(v *autograd.Variable) *autograd.Variable { return v.Softplus(2, 20) },
		nn.LogSigmoid():        (*autograd.Variable).LogSigmoid,
		nn.SELU():              (*autograd.Variable).SELU,
		nn.ELU(0.5):            func(v *autograd.Variable) *autograd.Variable { return v.ELU(0.5) },
		nn.CELU(0.5):           func(v *autograd.Variable) *autograd.Variable { return v.CELU(0.5) },
		nn.ReLU6():             func(v *autograd.Variable) *autograd.Variable { return v.Clamp(0, 6) },
		nn.Hardtanh(-0.5, 2.5): func(v *autograd.Variable) *autograd.Variable { return v.Clamp(-0.5, 2.5) },
		nn.Threshold(1, -7):    func(v *autograd.Variable) *autograd.Variable { return v.MaskedFill(v.LeScalar(1), -7) },
		nn.Hardshrink(2):       func(v *autograd.Variable) *autograd.Variable { return v.MaskedFill(v.Abs().LeScalar(2), 0) },
		nn.Softshrink(0.5):     func(v *autograd.Variable) *autograd.Variable { return v.Abs().SubScalar(0.5).ReLU().Mul(v.Sign()) },
		nn.Tanhshrink():        func(v *autograd.Variable) *autograd.Variable { return v.Sub(v.Tanh()) },
		nn.Softmax(-1):         func(v *autograd.Variable) *autograd.Variable { return v.Softmax(-1) },
		nn.LogSoftmax(1):       func(v *autograd.Variable) *autograd.Variable { return v.LogSoftmax(1) },
		nn.Func("double", dbl): dbl,
	} {
		g := r.graph()
		v := g.Input(x)
		got, wanted := m.Forward(v), want(v)
		require.Equal(t, wanted.Shape(), got.Shape(), m.String())
		a, err := got.Float64s()
		require.NoError(t, err)
		b, err := wanted.Float64s()
		require.NoError(t, err)
		require.Equal(t, b, a, m.String())
		g.Release()
	}
}

func dbl(v *autograd.Variable) *autograd.Variable { return v.MulScalar(2) }

func TestLosses_AreTheOperationsOfAutograd(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, y := g.Input(r.tensor([]float32{-1, 0.5, 2, 3}, 2, 2)), g.Input(r.tensor([]float32{1, 0.25, 0, 0.5}, 2, 2))
	classes := x.ArgMax(1, false)
	for name, pair := range map[string][2]*autograd.Variable{
		"cross entropy": {nn.CrossEntropyLoss()(x, classes), x.CrossEntropy(classes)},
		"ignored":       {nn.CrossEntropyLoss(autograd.IgnoreIndex(1))(x, classes), x.CrossEntropy(classes, autograd.IgnoreIndex(1))},
		"nll":           {nn.NLLLoss()(x, classes), x.NLLLoss(classes)},
		"mse":           {nn.MSELoss()(x, y), x.MSELoss(y, autograd.MeanReduction)},
		"mse sum":       {nn.MSELoss(autograd.SumReduction)(x, y), x.MSELoss(y, autograd.SumReduction)},
		"l1":            {nn.L1Loss()(x, y), x.L1Loss(y, autograd.MeanReduction)},
		"bce":           {nn.BCEWithLogitsLoss(autograd.NoReduction)(x, y), x.BCEWithLogitsLoss(y, autograd.NoReduction)},
	} {
		a, err := pair[0].Float64s()
		require.NoError(t, err, name)
		b, err := pair[1].Float64s()
		require.NoError(t, err, name)
		require.Equal(t, fmt.Sprint(b), fmt.Sprint(a), name)
	}
}

func TestCheckpointed_SavesOnlyTheInput_AndIsOtherwiseTheModule(t *testing.T) {
	r := onSim(t)
	plain, saving := deep(4), nn.Sequential(nn.Checkpointed(deep(2)), nn.Checkpointed(deep(2)))
	r.place(plain)
	r.place(saving)
	require.Equal(t, "1.2.weight", nn.NamedParameters(saving)[3].Name)
	require.Equal(t, nn.Sequential(deep(2)).String(), nn.Sequential(nn.Checkpointed(deep(2))).String())
	x := r.tensor(make([]float32, 64*64), 64, 64)
	base := r.allocated()
	for m, units := range map[*nn.SequentialModule]int64{plain: 4, saving: 2} {
		g := r.graph()
		out := m.Forward(g.Input(x))
		require.EqualValues(t, base+units*unit, r.allocated())
		require.NoError(t, out.Sum(nil, false).Backward())
		g.Release()
		for _, p := range m.Parameters() {
			require.NotNil(t, p.Grad())
			p.ZeroGrad()
		}
	}
	nn.Eval(saving)
	require.False(t, saving.At(0).(*nn.CheckpointModule).Layer.(*nn.SequentialModule).Training())
}

// foreign is a module that does not embed Base.
type foreign struct{ p *autograd.Parameter }

func (f foreign) Forward(x *autograd.Variable) *autograd.Variable { return x.Mul(x.Graph().Param(f.p)) }
func (f foreign) Parameters() []*autograd.Parameter               { return []*autograd.Parameter{f.p} }
func (f foreign) To(device.Device, ...nn.Option) error            { return nil }
func (f foreign) Release()                                        { f.p.Release() }

func TestModulesThatDoNotEmbedBase_TakePart(t *testing.T) {
	p := autograd.DeclareParameter("scale", nn.Ones, 1)
	m := nn.Sequential(nn.ReLU(), foreign{p}, nn.Checkpointed(foreign{p}))
	nn.Eval(m)
	require.Equal(t, []nn.Named{{Name: "1.scale", Parameter: p}}, nn.NamedParameters(m))
	require.Contains(t, m.String(), "foreign")
}

func TestModules_ReleaseGradientsAndFreeze(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
	r.place(m)
	x := r.tensor([]float32{1, 2, 3, 5}, 2, 2)
	before := r.allocated()
	g := r.graph()
	require.NoError(t, m.Forward(g.Input(x)).Square().Sum(nil, false).Backward())
	g.Release()
	for _, p := range m.Parameters() {
		require.NotNil(t, p.Grad(), p)
	}
	m.ZeroGrad()
	require.Equal(t, before, r.allocated())
	m.SetRequiresGrad(false)
	for _, p := range append(m.Parameters(), m.Buffers()...) {
		require.Nil(t, p.Grad(), p)
		require.False(t, p.RequiresGrad(), p)
	}
	m.SetRequiresGrad(true)
	for _, p := range m.Parameters() {
		require.True(t, p.RequiresGrad(), p)
	}
	for _, b := range m.Buffers() {
		require.False(t, b.RequiresGrad(), b)
	}
}
