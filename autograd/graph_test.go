package autograd_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestParameter_UsedTwiceIsOneLeaf(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2, 3})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	require.Same(t, g.Param(w), g.Param(w))
	loss := g.Param(w).Mul(g.Param(w)).Mul(g.Param(w)).Sum(nil, false)
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{12, 27}, values(t, w.Grad()))
	require.Same(t, w.Grad(), g.Param(w).Grad())
}

func TestParameter_GradientsAddUpUntilZeroGrad(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	step := func() {
		g := r.graph()
		defer g.Release()
		require.NoError(t, g.Param(w).MulScalar(3).Sum(nil, false).Backward())
	}
	step()
	step()
	require.Equal(t, []float64{6, 6}, values(t, w.Grad()))
	w.ZeroGrad()
	require.Nil(t, w.Grad())
	step()
	require.Equal(t, []float64{3, 3}, values(t, w.Grad()))
}

func TestParameter_FrozenHasNoGradientAndIsNotSavedFor(t *testing.T) {
	r := onSim(t)
	w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
	defer w.Release()
	w.SetRequiresGrad(false)
	x := r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	base := r.allocated()
	out := g.Scope(func() *autograd.Variable { return v.AddScalar(1).MatMul(g.Param(w)) })
	require.EqualValues(t, base+unit, r.allocated(), "the input of the product is only needed for the weight's gradient")
	require.NoError(t, out.Sum(nil, false).Backward())
	require.Nil(t, w.Grad())
}

func TestParameter_IsNotReleasedByScopeBackwardOrGraph(t *testing.T) {
	r := onSim(t)
	w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
	g := r.graph()
	var leaf *autograd.Variable
	loss := g.Scope(func() *autograd.Variable {
		leaf = g.Param(w)
		return leaf.Exp().Sum(nil, false)
	})
	require.True(t, leaf.Alive())
	require.NoError(t, loss.Backward())
	require.True(t, leaf.Alive())
	g.Release()
	require.False(t, w.Tensor().Released())
	w.Release()
	require.Nil(t, w.Tensor())
	require.Nil(t, w.Grad())
}

func TestParameter_To_ConvertsAndMovesValueAndGradient(t *testing.T) {
	r, other := onHost(t), onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	require.NoError(t, w.SetGrad(must(tensor.FromSlice(r.exec, []float64{3, 4}))))
	require.NoError(t, w.To(other.exec, tensor.Float32))
	require.Zero(t, r.allocated())
	require.Equal(t, tensor.Float32, w.Tensor().DType())
	require.Equal(t, other.exec, w.Tensor().Exec())
	require.Equal(t, []float64{1, 2}, values(t, w.Tensor()))
	require.Equal(t, []float64{3, 4}, values(t, w.Grad()))
	before := w.Tensor().Version()
	require.NoError(t, w.To(other.exec, 0))
	require.Equal(t, before, w.Tensor().Version())
}

func TestBackward_ReleasesWhatItHasPassed_UnlessKept(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	passed := x.MulScalar(2)
	kept := passed.MulScalar(3).Keep()
	beside := passed.MulScalar(5) // does not lead to the loss
	loss := kept.Sum(nil, false)
	require.NoError(t, loss.Backward())

	_, err := passed.Float64s()
	var released *autograd.ReleasedError
	require.ErrorAs(t, err, &released)
	require.Equal(t, autograd.BackwardDone, released.Reason)
	require.Equal(t, []float64{6, 12}, valuesOf(t, kept))
	require.Equal(t, []float64{10, 20}, valuesOf(t, beside))
	require.Equal(t, []float64{18}, valuesOf(t, loss), "the root stays, to be printed")
	require.True(t, x.Alive())
}

func TestRetainGrad_LeavesTheGradientOfAnIntermediateResult(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	h := x.MulScalar(2).RetainGrad()
	loss := h.Mul(h).Sum(nil, false)
	require.Nil(t, h.Grad())
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	require.Equal(t, []float64{4, 8}, values(t, h.Grad()))
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{8, 16}, values(t, h.Grad()))
	require.Equal(t, []float64{16, 32}, values(t, x.Grad()))

	g.Input(r.tensor([]float64{1})).RetainGrad()
	require.ErrorIs(t, g.Err(), autograd.ErrNoGrad)
}

func TestTake_OutlivesTheGraph(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	v := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	e := v.MulScalar(2).PowScalar(1)
	loss := e.Exp().Log().Sum(nil, false)
	x, err := e.Take()
	require.NoError(t, err)
	require.NoError(t, loss.Backward(), "what was saved of it is not disturbed")
	_, err = e.Tensor()
	require.ErrorContains(t, err, "Take")
	g.Release()
	require.Equal(t, []float64{2, 4}, values(t, x))
	x.Release()
}

func TestDetach_SharesMemoryAndStopsGradients(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3}), autograd.RequiresGrad())
	d := x.Detach()
	require.False(t, d.RequiresGrad())
	require.True(t, must2(d.Tensor()).SharesStorage(must2(x.Tensor())))
	require.NoError(t, x.Mul(d).Sum(nil, false).Backward())
	require.Equal(t, []float64{3}, values(t, x.Grad()))
}

func TestValues_ReadsTheGoType(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.Input(r.ints([]int64{1, 2}))
	got, err := autograd.Values[int64](v)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, got)
	_, err = autograd.Values[float32](v)
	require.Error(t, err)
	item, err := v.Select(0, 1).Item()
	require.NoError(t, err)
	require.Equal(t, 2.0, item)
}

func TestGradients_AreConvertedToTheTypeOfTheirLeaf(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	narrow := g.Input(keep(t)(tensor.FromSlice(r.exec, []float32{1, 2})), autograd.RequiresGrad())
	wide := g.Input(r.tensor([]float64{3, 4}), autograd.RequiresGrad())
	product := narrow.Mul(wide)
	require.Equal(t, tensor.Float64, product.DType())
	require.NoError(t, product.Sum(nil, false).Backward())
	require.Equal(t, tensor.Float32, narrow.Grad().DType())
	require.Equal(t, []float64{3, 4}, values(t, narrow.Grad()))
	require.Equal(t, tensor.Float64, wide.Grad().DType())
}

func TestBackward_FromALeafGivesItTheSeed(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{7}), autograd.RequiresGrad())
	require.NoError(t, x.Backward())
	require.Equal(t, []float64{1}, values(t, x.Grad()))
}

func TestBackward_OfTwoLossesOverSharedNodes(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{2}), autograd.RequiresGrad())
	shared := x.PowScalar(2)
	first, second := shared.MulScalar(3), shared.MulScalar(5)
	require.NoError(t, first.Backward(autograd.RetainGraph()))
	require.NoError(t, second.Backward())
	require.Equal(t, []float64{32}, values(t, x.Grad()))
}

// caster converts the inputs of one operation, as autocast does.
type caster struct {
	op   string
	to   tensor.DType
	seen []string
	err  error
}

func (c *caster) Cast(op string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	c.seen = append(c.seen, op)
	if op != c.op {
		return in, nil
	}
	for i, v := range in {
		in[i] = v.To(c.to)
	}
	return in, c.err
}

func TestCaster_SeesEveryOperationButItsOwn(t *testing.T) {
	r := onHost(t)
	c := &caster{op: "matmul", to: tensor.Float32}
	g := r.graph(autograd.WithCaster(c))
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3, 4}, 2, 2), autograd.RequiresGrad())
	p := x.MatMul(x)
	require.Equal(t, tensor.Float32, p.DType())
	require.NoError(t, p.Exp().Sum(nil, false).Backward())
	require.Equal(t, tensor.Float64, x.Grad().DType())
	require.Equal(t, []string{"matmul", "exp", "sum"}, c.seen)

	require.Same(t, c, g.SetCaster(nil))
	require.Equal(t, tensor.Float64, x.MatMul(x).DType())
}

func TestCaster_ErrorIsTheOperations(t *testing.T) {
	r := onHost(t)
	cause := errors.New("not allowed under autocast")
	g := r.graph(autograd.WithCaster(&caster{op: "exp", to: tensor.Float32, err: cause}))
	defer g.Release()
	var op *autograd.OpError
	require.ErrorAs(t, g.Input(r.tensor([]float64{1})).Exp().Backward(), &op)
	require.Equal(t, "exp", op.Op)
	require.ErrorIs(t, op, cause)
}

func TestDetectAnomaly_NamesTheOperationAndItsPlace(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.DetectAnomaly())
	defer g.Release()
	x := g.Input(r.tensor([]float64{0}), autograd.RequiresGrad())
	_, _, line, _ := runtime.Caller(0)
	root := x.Sqrt()
	err := root.MulScalar(0).Sum(nil, false).Backward()
	require.ErrorIs(t, err, autograd.ErrNaN)
	var op *autograd.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "sqrt", op.Op)
	require.True(t, op.Backward)
	require.Equal(t, line+1, op.Site.Line)
	require.Same(t, err, g.Err())
}

func TestGraph_OnAnotherStream_IsOrderedWithItsLeaves(t *testing.T) {
	r := onHost(t)
	s := must2(r.dev.NewStream())
	defer s.Close()
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	for range 50 {
		g := r.graph(autograd.WithStream(s))
		loss := g.Param(w).MulScalar(3).Sum(nil, false)
		require.NoError(t, loss.Backward())
		require.Equal(t, r.exec, w.Grad().Exec(), "the gradient works on the parameter's stream")
		require.NoError(t, w.Grad().MulScalarInPlace(0.5)) // at once, on the default stream
		g.Release()
		require.Equal(t, []float64{1.5, 1.5}, values(t, w.Grad()))
		w.ZeroGrad()
	}
}

func TestGraph_DroppedWithoutRelease_IsFreedByTheSafetyNet(t *testing.T) {
	r := onHost(t)
	x := r.tensor(make([]float64, 1024), 1024)
	base := r.allocated()
	func() {
		g := r.graph()
		g.Input(x, autograd.RequiresGrad()).Exp().Exp()
		require.NoError(t, g.Err())
	}()
	require.Greater(t, r.allocated(), base)
	for deadline := time.Now().Add(10 * time.Second); r.allocated() > base && time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		must(tensor.Scalar(r.exec, 0, tensor.Float64)).Release() // an allocation takes in the blocks that were queued
	}
	require.EqualValues(t, 2, r.alloc.Stats().NumDeferredFrees)
	require.Equal(t, base, r.allocated())
}

func TestNoGrad_RecordsNothingInside(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	frozen := g.NoGrad(func() *autograd.Variable { return g.Param(w).Exp() })
	require.False(t, frozen.RequiresGrad())
	require.True(t, g.GradEnabled())
	require.NoError(t, g.Param(w).MulScalar(3).Add(frozen).Backward(), "the parameter's leaf is as if made outside")
	require.Equal(t, []float64{3}, values(t, w.Grad()))
}

func TestNew_BringsTensorsOfOtherExecsUnderTheGraphs(t *testing.T) {
	r, other := onHost(t), onHost(t)
	g := r.graph()
	defer g.Release()
	v := g.New(func(tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(r.exec, tensor.Float64, 1) })
	require.Equal(t, g.Exec(), must2(v.Tensor()).Exec())
	g.New(func(tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(other.exec, tensor.Float64, 1) })
	var wrong *tensor.DeviceError
	require.ErrorAs(t, g.Err(), &wrong)
}

func TestParameter_OfIntegersRequiresNoGradient(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("steps", must(tensor.FromSlice(r.exec, []int64{2})))
	defer p.Release()
	require.False(t, p.RequiresGrad())
	p.SetRequiresGrad(true)
	g := r.graph()
	defer g.Release()
	g.Param(p)
	require.ErrorIs(t, g.Err(), autograd.ErrNoGrad)
}

func TestParameter_MovedBetweenForwardAndBackward_IsAnError(t *testing.T) {
	r, other := onHost(t), onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	loss := g.Param(w).MulScalar(3)
	require.NoError(t, w.To(other.exec, 0))
	require.ErrorContains(t, loss.Backward(), "moved between forward and backward")
	require.Nil(t, w.Grad())
}

func TestParameter_ReleasedBetweenForwardAndBackward_IsAnError(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	g := r.graph()
	defer g.Release()
	loss := g.Param(w).Exp()
	w.Release()
	require.ErrorIs(t, loss.Backward(), autograd.ErrNotMaterialized)
	require.ErrorContains(t, g.Err(), `parameter "w" [1] has no tensor`)
}

func TestParam_MakesANewLeafIfItsWasReleased(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	first := g.Param(w).MulScalar(3)
	g.Param(w).Release()
	require.NoError(t, first.Add(g.Param(w)).Backward())
	require.Equal(t, []float64{4}, values(t, w.Grad()))
}
