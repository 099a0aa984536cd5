package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// counter is an optimizer that counts its steps.
type counter struct {
	params []*autograd.Parameter
	steps  int
	err    error
}

func (c *counter) Parameters() []*autograd.Parameter { return c.params }
func (c *counter) Step() error {
	if c.err == nil {
		c.steps++
	}
	return c.err
}

// scaled is a scaler that has scaled something, and is released at the end of the test.
func (r *rig) scaled(opts ...amp.ScalerOption) *amp.GradScaler {
	r.t.Helper()
	s := amp.NewGradScaler(opts...)
	r.t.Cleanup(s.Release)
	x, err := s.ScaleTensor(r.full(1, tensor.Float32))
	require.NoError(r.t, err)
	x.Release()
	return s
}

// with gives p a gradient of type dt, which becomes that of p too.
func (r *rig) with(p *autograd.Parameter, dt tensor.DType, values ...float64) *autograd.Parameter {
	r.t.Helper()
	wide, err := tensor.FromSlice(r.exec, values, p.Shape()...)
	require.NoError(r.t, err)
	defer wide.Release()
	g, err := wide.To(dt)
	require.NoError(r.t, err)
	require.NoError(r.t, p.To(r.exec, dt))
	require.NoError(r.t, p.SetGrad(g))
	return p
}

func scaleOf(t testing.TB, s *amp.GradScaler) float64 {
	t.Helper()
	v, err := s.GetScale()
	require.NoError(t, err)
	return v
}

func skipped(t testing.TB, s *amp.GradScaler, opt amp.Optimizer) bool {
	t.Helper()
	v, err := s.Skipped(opt)
	require.NoError(t, err)
	return v
}

func trackerOf(t testing.TB, s *amp.GradScaler) int {
	t.Helper()
	st, err := s.State()
	require.NoError(t, err)
	return st.GrowthTracker
}

func TestNewGradScaler_HasPyTorchsDefaults(t *testing.T) {
	s := amp.NewGradScaler()
	require.True(t, s.IsEnabled())
	require.Equal(t, 65536.0, scaleOf(t, s))
	require.Equal(t, []float64{2, 0.5, 2000}, []float64{s.GrowthFactor(), s.BackoffFactor(), float64(s.GrowthInterval())})
	s.SetGrowthFactor(3)
	s.SetBackoffFactor(0.25)
	s.SetGrowthInterval(7)
	st, err := s.State()
	require.NoError(t, err)
	require.Equal(t, amp.State{Scale: 65536, GrowthFactor: 3, BackoffFactor: 0.25, GrowthInterval: 7}, st)
}

func TestNewGradScaler_RefusesFactorsThatLeadNowhere(t *testing.T) {
	r := onHost(t)
	p := r.param(1, 1)
	for _, c := range []struct {
		opt  amp.ScalerOption
		want amp.Misuse
		text string
	}{
		{amp.GrowthFactor(1), amp.BadGrowth, "The growth factor must be > 1.0."},
		{amp.GrowthFactor(math.NaN()), amp.BadGrowth, "The growth factor must be > 1.0."},
		{amp.BackoffFactor(1), amp.BadBackoff, "The backoff factor must be < 1.0."},
		{amp.BackoffFactor(math.NaN()), amp.BadBackoff, "The backoff factor must be < 1.0."},
		{amp.BackoffFactor(0), amp.BadBackoff, "The backoff factor must be < 1.0. (0)"},
		{amp.GrowthFactor(math.Inf(1)), amp.BadGrowth, "(+Inf)"},
		{amp.InitScale(-1), amp.BadScale, "NewGradScaler: the scale must be more than 0 and finite in float32. (-1)"},
		{amp.InitScale(1e39), amp.BadScale, "(1e+39)"},
		{amp.InitScale(1e-60), amp.BadScale, "(1e-60)"},
		{amp.InitScale(math.NaN()), amp.BadScale, "(NaN)"},
		{amp.GrowthInterval(0), amp.BadInterval, "(0)"},
	} {
		s := amp.NewGradScaler(c.opt)
		require.ErrorContains(t, s.Err(), c.text)
		opt := &counter{params: []*autograd.Parameter{p}}
		g := r.graph()
		loss := g.Param(p).Sum(nil, false)
		_, stateErr := s.State()
		_, scaleErr := s.ScaleTensor(p.Tensor())
		for _, err := range []error{s.Backward(loss), s.Unscale(opt), s.Step(opt), s.Update(), stateErr, scaleErr} {
			require.ErrorIs(t, err, c.want)
		}
		require.NoError(t, g.Err())
		require.Equal(t, loss, s.Scale(loss))
		require.ErrorIs(t, g.Err(), c.want, "Scale leaves it in the graph")
		require.Zero(t, opt.steps)
		require.NoError(t, amp.NewGradScaler(c.opt, amp.Enabled(false)).Err(), "what is off is not looked at")
	}
}

func TestScale_MultipliesVariablesAndTensors(t *testing.T) {
	r := onHost(t)
	s := amp.NewGradScaler(amp.InitScale(2))
	defer s.Release()
	for dt, want := range map[tensor.DType]tensor.DType{
		tensor.Float32: tensor.Float32, tensor.Float64: tensor.Float64, tensor.Float16: tensor.Float32, tensor.BFloat16: tensor.Float32,
	} {
		x, err := s.ScaleTensor(r.full(4, dt, 3))
		require.NoError(t, err)
		require.Equal(t, want, x.DType(), "the scale of %s is float32", dt)
		require.Equal(t, []float64{8, 8, 8}, values(t, x))
		x.Release()
	}
	g := r.graph()
	v := g.Input(r.full(4, tensor.Float32), autograd.RequiresGrad())
	outs := s.ScaleAll(v, v.MulScalar(2))
	require.Equal(t, 8.0, item(t, valueOf(t, outs[0])))
	require.Equal(t, 16.0, item(t, valueOf(t, outs[1])))
	require.NoError(t, outs[1].Backward())
	require.Equal(t, 4.0, item(t, v.Grad()), "the derivative is scaled too")

	_, err := s.ScaleTensor(nil)
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.Nil(t, s.Scale(nil))
	require.ErrorIs(t, s.Backward(nil), autograd.ErrNilVariable)
	lost := g.Scope(func() *autograd.Variable { v.Neg(); return nil })
	require.Nil(t, s.Scale(lost))
}

func TestScale_PassesTheErrorOfTheGraphOn(t *testing.T) {
	r := onHost(t)
	s := amp.NewGradScaler()
	g := r.graph()
	bad := g.Input(r.full(1, tensor.Float32, 2)).MatMul(g.Input(r.full(1, tensor.Float32, 3)))
	var shape *tensor.ShapeError
	require.ErrorAs(t, s.Backward(bad), &shape)
	require.Equal(t, 65536.0, scaleOf(t, s))
	scale, _ := s.Tensors()
	require.Nil(t, scale, "nothing was scaled")
}

func TestScale_IsMadeOnceBesideWhatIsScaledFirst(t *testing.T) {
	r, other := onHost(t), onHost(t)
	s := amp.NewGradScaler(amp.InitScale(4))
	base := r.allocated()
	x, err := s.ScaleTensor(r.full(1, tensor.Float32))
	require.NoError(t, err)
	x.Release()
	require.EqualValues(t, 2*block, r.allocated()-base-block, "scale and tracker, beside the tensor")
	scale, tracker := s.Tensors()
	require.Equal(t, r.dev.ID(), scale.Device().ID())
	require.Equal(t, []tensor.DType{tensor.Float32, tensor.Int32}, []tensor.DType{scale.DType(), tracker.DType()})
	require.Equal(t, []int{0, 0}, []int{scale.NDim(), tracker.NDim()})

	y, err := s.ScaleTensor(other.full(3, tensor.Float32))
	require.NoError(t, err)
	require.Equal(t, other.dev.ID(), y.Device().ID())
	require.Equal(t, 12.0, item(t, y))
	y.Release()
	s.Release()
	require.EqualValues(t, block, r.allocated()-base)
	require.Equal(t, 4.0, scaleOf(t, s))
	s.Release()
}

func TestUnscale_DividesAndFindsWhatOverflowed(t *testing.T) {
	r := onHost(t)
	a, b, none := r.param(0, 2), r.param(0, 2), r.param(0, 2)
	opt := &counter{params: []*autograd.Parameter{a, none, b}}
	for _, c := range []struct {
		dt       tensor.DType
		gradient float64
		found    float64
	}{
		{tensor.Float32, 8, 0}, {tensor.BFloat16, 8, 0}, {tensor.Float64, 8, 0},
		{tensor.Float32, math.Inf(1), 1}, {tensor.BFloat16, math.NaN(), 1}, {tensor.Float64, math.Inf(-1), 1},
	} {
		s := r.scaled(amp.InitScale(4))
		r.with(a, tensor.Float32, 4, -4)
		r.with(b, c.dt, 8, c.gradient)
		require.NoError(t, s.Unscale(opt))
		require.Equal(t, []float64{1, -1}, values(t, a.Grad()))
		require.Equal(t, 2.0, values(t, b.Grad())[0])
		require.Equal(t, c.dt, b.Grad().DType())
		found := s.FoundInf(opt)
		require.Len(t, found, 1)
		require.Equal(t, c.found, item(t, found[0]))
		require.NoError(t, s.Step(opt))
		require.Equal(t, c.found == 1, skipped(t, s, opt))
		require.NoError(t, s.Update())
		require.Equal(t, map[float64]float64{0: 4, 1: 2}[c.found], scaleOf(t, s))
	}
	require.Equal(t, 3, opt.steps)
}

func TestUnscale_RefusesFloat16BeforeAnythingHasChanged(t *testing.T) {
	r := onHost(t)
	a, half := r.param(0, 1), r.param(0, 1)
	r.with(a, tensor.Float32, 8)
	r.with(half, tensor.Float16, 8)
	opt := &counter{params: []*autograd.Parameter{a, half}}
	s := r.scaled(amp.InitScale(4))
	for _, err := range []error{s.Unscale(opt), s.Step(opt)} {
		require.ErrorIs(t, err, amp.Float16Gradient)
		require.ErrorContains(t, err, "Attempting to unscale FP16 gradients.")
		require.ErrorContains(t, err, `parameter "p"`)
	}
	require.Equal(t, 8.0, item(t, a.Grad()))
	require.NoError(t, s.UnscaleHalf(opt), "the flag for sharded training allows it")
	require.Equal(t, 2.0, item(t, half.Grad()))
	require.Equal(t, 2.0, item(t, a.Grad()))
}

func TestDisabled_DoesNothing(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(1, 1), tensor.Float32, math.Inf(1))
	opt := &counter{params: []*autograd.Parameter{p}}
	s := amp.NewGradScaler(amp.Enabled(false))
	require.False(t, s.IsEnabled())
	base := r.allocated()
	x := r.full(3, tensor.Float32)
	same, err := s.ScaleTensor(x)
	require.NoError(t, err)
	require.True(t, same.SharesStorage(x))
	same.Release()
	g := r.graph()
	v := g.Input(x)
	require.Same(t, v, s.Scale(v))
	require.NoError(t, s.Unscale(opt))
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Step(opt), "as often as the program likes")
	require.NoError(t, s.Update())
	require.ErrorIs(t, s.Step(nil), amp.BadOptimizer)
	require.Equal(t, 2, opt.steps)
	require.Equal(t, 1.0, scaleOf(t, s))
	st, err := s.State()
	require.NoError(t, err)
	require.Equal(t, amp.State{}, st)
	require.NoError(t, s.LoadState(amp.State{}))
	require.EqualValues(t, block, r.allocated()-base, "the tensor of this test")

	p.ZeroGrad()
	require.NoError(t, s.Backward(g.Param(p).Sum(nil, false)))
	require.Equal(t, 1.0, item(t, p.Grad()))
}

// The scale is changed between forward and backward: the derivative would be of another loss than the one that was computed.
func TestScale_ChangedBeforeBackwardIsAnError(t *testing.T) {
	r := onHost(t)
	p := r.param(1, 1)
	s := amp.NewGradScaler(amp.InitScale(2))
	defer s.Release()
	g := r.graph()
	loss := s.Scale(g.Param(p).Sum(nil, false))
	require.NoError(t, s.Update(amp.NewScale(4)))
	require.ErrorIs(t, loss.Backward(), autograd.ErrModified)
}

func TestBackward_KeepsTheLoss(t *testing.T) {
	r := onHost(t)
	for name, s := range map[string]*amp.GradScaler{"on": amp.NewGradScaler(amp.InitScale(4)), "off": amp.NewGradScaler(amp.Enabled(false))} {
		defer s.Release()
		g := r.graph()
		loss := g.Param(r.param(3, 2)).Sum(nil, false)
		require.NoError(t, s.Backward(loss), name)
		v, err := loss.Item()
		require.NoError(t, err, name)
		require.Equal(t, 6.0, v, name)
	}
}
