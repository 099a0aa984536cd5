package autograd_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGraph_KeepsTheFirstErrorOfAChain(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	a := g.Input(r.zeros(tensor.Float32, 2, 3), autograd.RequiresGrad())
	b := g.Input(r.zeros(tensor.Float32, 4, 5))
	base := r.allocated()
	_, _, line, _ := runtime.Caller(0)
	bad := a.MatMul(b)
	loss := bad.ReLU().Add(a.Reshape(17)).Sum(nil, false)
	require.Equal(t, base, r.allocated(), "nothing runs after an error")

	err := loss.Backward()
	require.Same(t, g.Err(), err)
	var op *autograd.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "matmul", op.Op)
	require.Equal(t, tensor.Shape{4, 5}, op.Operands[1].Shape)
	require.Equal(t, line+1, op.Site.Line)
	require.Regexp(t, `autograd: matmul\(float32\[2, 3\], float32\[4, 5\]\) at errors_test.go:\d+: .*inner dimensions`, err.Error())
	var shape *tensor.ShapeError
	require.ErrorAs(t, err, &shape)

	_, err = bad.Item()
	require.Same(t, g.Err(), err)
	require.Zero(t, bad.NDim())
}

func TestOperations_DoNothingAfterAnError(t *testing.T) {
	first := errors.New("the first error")
	for _, c := range gradientCases {
		r := onHost(t)
		g := r.graph()
		defer g.Release()
		var alive, poison vars
		inputs := c.make(r)
		for _, x := range inputs {
			alive = append(alive, g.Input(x))
		}
		g.Fail(first)
		for _, x := range inputs {
			poison = append(poison, g.Input(x))
		}
		base := r.allocated()
		for name, in := range map[string]vars{"before": alive, "after": poison} {
			require.Same(t, first, c.f(in).Backward(), "%s %s: inputs from %s", c.op, c.note, name)
		}
		require.Equal(t, base, r.allocated())
	}
}

func TestGraph_WithoutADevice_ReportsItAtTheEnd(t *testing.T) {
	g := autograd.NewGraph(nil)
	defer g.Release()
	v := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 1) })
	require.Error(t, v.Exp().Backward())
	require.Error(t, g.Err())
}

func TestGraph_OfAllocatorOfAnotherDevice_ReportsItAtTheEnd(t *testing.T) {
	r, other := onSim(t), onSim(t)
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(other.alloc))
	defer g.Release()
	var wrong *tensor.DeviceError
	require.ErrorAs(t, g.Input(r.square()).Exp().Backward(), &wrong)
}

func TestInput_OfAnotherDevice_IsRefused(t *testing.T) {
	r, other := onSim(t), onSim(t)
	g := r.graph()
	defer g.Release()
	g.Input(other.square())
	var wrong *tensor.DeviceError
	require.ErrorAs(t, g.Err(), &wrong)
}

func TestInput_ThatIsReleased_IsRefused(t *testing.T) {
	r := onSim(t)
	x := r.square()
	x.Release()
	g := r.graph()
	defer g.Release()
	require.ErrorIs(t, g.Input(x).Exp().Backward(), tensor.ErrReleased)
}

func TestInput_OfIntegersCannotRequireAGradient(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	g.Input(r.ints([]int64{1}), autograd.RequiresGrad())
	require.ErrorIs(t, g.Err(), autograd.ErrNoGrad)
}

func TestVariablesOfTwoGraphs_DoNotMix(t *testing.T) {
	r := onSim(t)
	g, h := r.graph(), r.graph()
	defer g.Release()
	defer h.Release()
	x := r.square()
	g.Input(x).Add(h.Input(x))
	require.ErrorIs(t, g.Err(), autograd.ErrOtherGraph)
	require.NoError(t, h.Err())
}

func TestNilVariables_AreErrorsAndNotPanics(t *testing.T) {
	r := onSim(t)
	var none *autograd.Variable
	require.ErrorIs(t, none.Exp().Add(nil).CrossEntropy(nil).Embedding(nil).Detach().Backward(), autograd.ErrNilVariable)
	_, err := none.Item()
	require.ErrorIs(t, err, autograd.ErrNilVariable)
	none.Release()

	g := r.graph()
	defer g.Release()
	x := g.Input(r.square())
	x.Add(none)
	require.ErrorIs(t, g.Err(), autograd.ErrNilVariable)
	require.ErrorIs(t, none.BCEWithLogitsLoss(x, autograd.MeanReduction, autograd.PosWeight(x)).Backward(), autograd.ErrNilVariable)
}

func TestReleasedGraph_SaysSoAtEveryUse(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	v := g.Input(r.zeros(tensor.Float32, 1), autograd.RequiresGrad())
	g.Release()
	for name, use := range map[string]func() error{
		"Item":     func() error { _, err := v.Item(); return err },
		"Backward": func() error { return v.Backward() },
		"Take":     func() error { _, err := v.Take(); return err },
		"op":       func() error { return v.Exp().Backward() },
		"Input":    func() error { return g.Input(r.square()).Backward() },
	} {
		var released *autograd.ReleasedError
		require.ErrorAs(t, use(), &released, name)
		require.Equal(t, autograd.GraphReleased, released.Reason, name)
		require.ErrorContains(t, released, "its graph was released")
	}
	require.False(t, v.Alive())
}

func TestBackward_ASecondTimeIsAnErrorThatNamesTheRemedy(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	loss := v.Exp().Sum(nil, false)
	require.NoError(t, loss.Backward())
	err := loss.Backward()
	var second *autograd.SecondBackwardError
	require.ErrorAs(t, err, &second)
	require.Equal(t, "exp", second.Op)
	require.ErrorContains(t, err, "RetainGraph")
	require.NoError(t, g.Err(), "nothing was changed")
}

func TestBackward_ASecondTimeIsFineWhereNothingWasSaved(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	loss := v.MulScalar(3).Sum(nil, false)
	require.NoError(t, loss.Backward())
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{6, 6}, values(t, v.Grad()))
}

func TestBackward_OfAModifiedSavedTensorIsAnErrorAndChangesNothing(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float64{1, 2})
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{3, 4})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	loss := g.Input(x).Mul(g.Param(w)).Sum(nil, false)
	require.NoError(t, x.FillInPlace(5))
	err := loss.Backward()
	var modified *autograd.ModifiedError
	require.ErrorAs(t, err, &modified)
	require.Equal(t, "mul", modified.Op)
	require.Equal(t, "input 0", modified.Saved)
	require.Equal(t, modified.Expected+1, modified.Version)
	require.ErrorContains(t, err, "has been modified by an in-place operation")
	require.Nil(t, w.Grad())
}

func TestBackward_RefusesWhatHasNoGradient(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g, inference := r.graph(), r.graph(autograd.NoGrad())
	defer g.Release()
	defer inference.Release()
	v := g.Input(x, autograd.RequiresGrad())
	for name, err := range map[string]error{
		"constant":        g.Input(x).Sum(nil, false).Backward(),
		"not one element": v.Exp().Backward(),
		"no grad":         inference.Input(x).Sum(nil, false).Backward(),
		"shape of seed":   v.Backward(autograd.WithGradient(r.zeros(tensor.Float32, 64))),
		"type of seed":    v.Backward(autograd.WithGradient(r.zeros(tensor.Float64, 64, 64))),
		"compared":        v.Gt(v).To(tensor.Float32).Sum(nil, false).Backward(),
	} {
		require.ErrorIs(t, err, autograd.ErrNoGrad, name)
	}
	require.NoError(t, g.Err())
}

func TestParameterWithoutATensor_IsAnErrorThatNamesIt(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	p := autograd.DeclareParameter("weight", nil, 2, 3)
	g.Param(p).Exp()
	var missing *autograd.ParameterError
	require.ErrorAs(t, g.Err(), &missing)
	require.Equal(t, "weight", missing.Name)
	require.Equal(t, tensor.Shape{2, 3}, missing.Shape)
}

// everything is a training step that uses most operations. It must come through an allocation failing at any place without a
// leak and without a panic.
func everything(g *autograd.Graph, x, y *tensor.Tensor, w, b *autograd.Parameter) error {
	v := g.Input(x, autograd.RequiresGrad())
	h := g.Scope(func() *autograd.Variable { return v.Linear(g.Param(w), g.Param(b)).ReLU().Dropout(0.25) })
	h = h.GELU().Add(h.SiLU()).Mul(h.Sigmoid().AddScalar(0.5)).Div(h.Exp().AddScalar(1))
	h = autograd.Where(h.Gt(v), h, v.Tanh()).Maximum(v.MulScalar(0.1)).Clamp(-3, 3)
	h = h.Sub(h.Mean([]int{1}, true)).Div(h.Std([]int{1}, 1, true).AddScalar(1)).Mul(h.Var([]int{0}, 0, true))
	h = autograd.Cat([]*autograd.Variable{h.Narrow(1, 0, 2), h.Slice(1, 2, 4, 1)}, 1).Pow(h.Abs().AddScalar(1).Log().AddScalar(2))
	h = h.MatMul(h.T()).Softmax(1).MatMul(h).Add(h.Max([]int{1}, true)).Add(autograd.Stack([]*autograd.Variable{h, h}, 0).Min([]int{0}, false))
	h = h.Add(h.MatMul(h.Select(0, 1)).Unsqueeze(1)).Add(h.Select(1, 0).MatMul(h)).Add(h.PowScalar(2))
	h = h.Add(g.Param(w).Embedding(g.Input(y)).Softplus(1, 20)).Add(h.Minimum(v)).Add(h.Reciprocal().Sqrt().Rsqrt().PowScalar(2).Clamp(0, 1))
	heads := h.SelfAttention(2, 1, autograd.AttnDropout(0.1))
	h = h.Add(autograd.Cat([]*autograd.Variable{heads, heads}, 1)).Add(autograd.ScaledDotProductAttention(h, v, h.T(), autograd.AttnMask(h.Detach())))
	loss := h.SmoothL1Loss(v, 1, autograd.MeanReduction).Add(h.HuberLoss(v, 1, autograd.SumReduction)).Add(h.Sigmoid().BCELoss(v.Sigmoid(), autograd.MeanReduction))
	loss = loss.Add(h.LogSoftmax(1).KLDivLoss(v.Softmax(1), false, autograd.BatchMeanReduction)).Add(h.CrossEntropy(v.Softmax(1)))
	loss = loss.Add(h.LogSoftmax(1).NLLLoss(g.Input(y), autograd.ClassWeights(v.Select(0, 0))))
	loss = loss.Add(h.MulScalar(2).CrossEntropy(g.Input(y), autograd.ClassWeights(v.Select(0, 0)), autograd.LabelSmoothing(0.1)))
	loss = loss.Add(h.CrossEntropy(g.Input(y))).Add(h.MSELoss(v, autograd.MeanReduction)).Add(h.L1Loss(v, autograd.SumReduction))
	loss = loss.Add(h.BCEWithLogitsLoss(v.Sigmoid(), autograd.MeanReduction)).Add(h.LogSoftmax(1).NLLLoss(g.Input(y)))
	return loss.Backward()
}

func TestOutOfMemory_AtAnyAllocation_IsReturnedAndLeaksNothing(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e := must2(tensor.On(dev, tensor.WithAllocator(alloc)))
	x := must(tensor.Zeros(e, tensor.Float32, 4, 4))
	y := must(tensor.Zeros(e, tensor.Int64, 4))
	w := autograd.NewParameter("w", must(tensor.Zeros(e, tensor.Float32, 4, 4)))
	b := autograd.NewParameter("b", must(tensor.Zeros(e, tensor.Float32, 4)))
	base := alloc.Stats().AllocatedBytes.All.Current
	step := func() error {
		g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.WithGenerator(tensor.NewGenerator(1)))
		defer g.Release()
		return everything(g, x, y, w, b)
	}

	failures := 0
	for n := 1; ; n++ {
		dev.FailNext(sim.CallMalloc, n, device.ErrOutOfMemory)
		err := step()
		w.ZeroGrad()
		b.ZeroGrad()
		require.Equal(t, base, alloc.Stats().AllocatedBytes.All.Current, "allocation %d failed: %v", n, err)
		if err == nil {
			break
		}
		failures++
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		var op *autograd.OpError
		if !errors.As(err, &op) {
			require.ErrorContains(t, err, "Ones", "only the seed is made outside of an operation")
		}
	}
	require.Greater(t, failures, 200)
	for _, leaf := range []interface{ Release() }{x, y, w, b} {
		leaf.Release()
	}
	require.NoError(t, alloc.Close())
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
