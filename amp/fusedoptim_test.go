package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

var _ amp.FusedStepper = (*optim.Grouped)(nil)

type optimizerMaker func(ps []*autograd.Parameter) *optim.Grouped

var fusedOptimizers = map[string]optimizerMaker{
	"sgd": func(ps []*autograd.Parameter) *optim.Grouped { return optim.SGD(ps, optim.LR(0.1)) },
	"sgd momentum": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.SGD(ps, optim.LR(0.1), optim.Momentum(0.9), optim.Dampening(0.5), optim.WeightDecay(0.1))
	},
	"adam":  func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adam(ps, optim.LR(0.1), optim.Maximize()) },
	"adamw": func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps, optim.LR(0.1)) },
	"amsgrad": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.AdamW(ps[:1], optim.AMSGrad(), optim.LR(0.1)).AddGroup(ps[1:], optim.Betas(0.5, 0.9))
	},
	"rmsprop": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.RMSprop(ps, optim.Momentum(0.5), optim.Centered())
	},
	"adagrad": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.Adagrad(ps, optim.LRDecay(0.3), optim.WeightDecay(0.1))
	},
	"nadam": func(ps []*autograd.Parameter) *optim.Grouped { return optim.NAdam(ps, optim.LR(0.1)) },
	"lion":  func(ps []*autograd.Parameter) *optim.Grouped { return optim.Lion(ps, optim.LR(0.1)) },
}

// side is a model of three parameters in training, with a scaler whose scales are no powers of two.
type side struct {
	*rig
	ps      []*autograd.Parameter
	opt     *optim.Grouped
	stepper amp.Optimizer
	scaler  *amp.GradScaler
}

func newSide(r *rig, dt tensor.DType, make optimizerMaker, fused bool) *side {
	s := &side{rig: r, scaler: r.scaled(amp.InitScale(100), amp.GrowthFactor(3), amp.BackoffFactor(1.0/3), amp.GrowthInterval(2))}
	for i, n := range []int{7, 1, 33} {
		t, err := tensor.Full(r.exec, float64(i)-0.75, dt, n)
		require.NoError(r.t, err)
		p := autograd.NewParameter("p", t)
		r.t.Cleanup(p.Release)
		s.ps = append(s.ps, p)
	}
	s.opt = make(s.ps)
	r.t.Cleanup(s.opt.Release)
	s.stepper = &unfused{s.opt}
	if fused {
		s.stepper = s.opt
	}
	return s
}

// gradients are those of iteration i times the scale: some are missing, and in some iterations one is infinite or NaN.
func (s *side) gradients(i int) {
	s.opt.ZeroGrad()
	scale := scaleOf(s.t, s.scaler)
	for k, p := range s.ps {
		if k == 1 && (i == 2 || i == 3) {
			continue
		}
		v := make([]float64, p.Len())
		for j := range v {
			v[j] = (math.Mod(float64(7*j+5*i+3*k), 11)/4 - 1.2) * scale
		}
		switch {
		case k == 0 && (i == 0 || i == 5):
			v[i] = math.Inf(-1)
		case k == 2 && (i == 3 || i == 5):
			v[20] = math.NaN()
		}
		s.with(p, p.Tensor().DType(), v...)
	}
}

// iterate takes the steps from..to-1, with a learning rate that changes, and reports which were skipped.
func (s *side) iterate(from, to int, unscale func(i int) bool) (left []int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		s.gradients(i)
		s.opt.SetLR(0.1 / float64(i+1))
		if unscale(i) {
			require.NoError(s.t, s.scaler.Unscale(s.stepper))
			require.NoError(s.t, optim.ClipGradNormAsync(s.ps, 1))
		}
		require.NoError(s.t, s.scaler.Step(s.stepper))
		if skipped(s.t, s.scaler, s.stepper) {
			left = append(left, i)
		}
		require.NoError(s.t, s.scaler.Update())
	}
	return left
}

// requireSame compares everything that two sides have learned.
func requireSame(t *testing.T, want, got *side) {
	t.Helper()
	require.Equal(t, scaleOf(t, want.scaler), scaleOf(t, got.scaler))
	a, err := want.opt.StateDict()
	require.NoError(t, err)
	b, err := got.opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, a.Groups, b.Groups)
	for i, p := range want.ps {
		require.Equal(t, values(t, p.Tensor()), values(t, got.ps[i].Tensor()), "parameter %d", i)
		require.Equal(t, a.State[i].Step, b.State[i].Step, "parameter %d", i)
		for name, x := range a.State[i].Tensors {
			require.Equal(t, values(t, x), values(t, b.State[i].Tensors[name]), "%s of parameter %d", name, i)
		}
	}
}

func never(int) bool  { return false }
func always(int) bool { return true }
func odd(i int) bool  { return i%2 == 1 }

func TestFused_StepsAreThoseOfTheOtherPathBitForBit(t *testing.T) {
	for name, make := range fusedOptimizers {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
			for when, unscale := range map[string]func(int) bool{"never": never, "always": always, "odd": odd} {
				t.Run(name+" "+dt.String()+", unscaled "+when, func(t *testing.T) {
					r := onHost(t)
					plain, fused := newSide(r, dt, make, false), newSide(r, dt, make, true)
					require.Equal(t, []int{0, 3, 5}, plain.iterate(0, 9, unscale))
					require.Equal(t, []int{0, 3, 5}, fused.iterate(0, 9, unscale))
					requireSame(t, plain, fused)
				})
			}
		}
	}
}

// Either path goes on where the other has stopped, in the same optimizer or, by its state, in a new one.
func TestFused_StepsAndOthersMix(t *testing.T) {
	for name, make := range fusedOptimizers {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			plain, mixed := newSide(r, tensor.Float32, make, false), newSide(r, tensor.Float32, make, true)
			plain.iterate(0, 9, never)
			mixed.stepper = &unfused{mixed.opt}
			mixed.iterate(0, 2, never)
			mixed.stepper = mixed.opt
			mixed.iterate(2, 4, never)
			mixed.stepper = &unfused{mixed.opt}
			mixed.iterate(4, 6, never)
			d, err := mixed.opt.StateDict()
			require.NoError(t, err)
			opt := make(mixed.ps)
			defer opt.Release()
			require.NoError(t, opt.LoadStateDict(d))
			mixed.opt, mixed.stepper = opt, opt
			mixed.iterate(6, 9, never)
			requireSame(t, plain, mixed)
		})
	}
}

// In half precision gradients are not rounded after the division: by a power of two that makes no difference.
func TestFused_StepsOfBFloat16AreTheSameForScalesThatArePowersOfTwo(t *testing.T) {
	for name, make := range fusedOptimizers {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			plain, fused := newSide(r, tensor.BFloat16, make, false), newSide(r, tensor.BFloat16, make, true)
			for _, s := range []*side{plain, fused} {
				s.scaler = r.scaled(amp.InitScale(1024), amp.GrowthInterval(2))
				s.iterate(0, 9, never)
			}
			requireSame(t, plain, fused)
		})
	}
}

func TestFused_StepLeavesGradientsScaledAndTakesFloat16(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(1, 2), tensor.Float16, 8, 16)
	opt := optim.SGD([]*autograd.Parameter{p}, optim.LR(1))
	s := r.scaled(amp.InitScale(32))
	require.NoError(t, s.Step(opt))
	require.False(t, skipped(t, s, opt))
	require.Equal(t, []float64{0.75, 0.5}, values(t, p.Tensor()))
	require.Equal(t, []float64{8, 16}, values(t, p.Grad()))
}

func TestFused_AWholeIterationDoesNotWait(t *testing.T) {
	for name, make := range fusedOptimizers {
		if name == "nadam" {
			continue // it has no kernel, and waits for the flag
		}
		t.Run(name, func(t *testing.T) {
			dev := sim.New(1 << 30)
			r := newRig(t, dev)
			ps := []*autograd.Parameter{r.param(1, 64, 64), r.param(1, 64)}
			opt := make(ps)
			defer opt.Release()
			s := amp.NewGradScaler()
			defer s.Release()
			x := r.full(1, tensor.Float32, 64, 64)
			for i := range 4 {
				g := r.graph(amp.Autocast(tensor.Float16))
				require.NoError(t, s.Backward(g.Input(x).Linear(g.Param(ps[0]), g.Param(ps[1])).Sum(nil, false)))
				g.Release()
				if i%2 == 1 {
					require.NoError(t, s.Unscale(opt))
					require.NoError(t, optim.ClipGradNormAsync(ps, 1))
				}
				require.NoError(t, s.Step(opt))
				require.NoError(t, s.Update())
				opt.ZeroGrad()
			}
			require.Zero(t, waits(dev))
		})
	}
}

// What the fused path allocates beside the state is the counters, once, in one block.
func TestFused_StepsKeepOneBlockOfCounters(t *testing.T) {
	r := onSim(t)
	opts := map[bool]*optim.Grouped{}
	for _, fused := range []bool{false, true} {
		var ps []*autograd.Parameter
		for range 20 {
			ps = append(ps, r.with(r.param(0, 128), tensor.Float32, make([]float64, 128)...))
		}
		opts[fused] = optim.Adam(ps[:10]).AddGroup(ps[10:])
		defer opts[fused].Release()
	}
	require.NoError(t, opts[false].Step())
	s := r.scaled()
	require.NoError(t, s.Step(opts[true]))
	require.NoError(t, s.Update())
	require.Equal(t, opts[false].StateBytes()+block, opts[true].StateBytes())
	before := r.allocated()
	require.NoError(t, s.Step(opts[true]))
	require.NoError(t, s.Update())
	require.Equal(t, before, r.allocated())
	opts[true].Release()
	require.EqualValues(t, before-int64(21*block)-20*block, r.allocated())
}

func TestFused_StepOnSeveralDevices(t *testing.T) {
	a, b := onHost(t), onHost(t)
	ps := []*autograd.Parameter{a.param(1, 2), b.param(1, 2)}
	opt := optim.Adam(ps, optim.LR(0.5))
	t.Cleanup(opt.Release)
	s := a.scaled(amp.InitScale(8))
	for i, overflow := range []float64{1, math.Inf(1), 1} {
		scale := scaleOf(t, s)
		a.with(ps[0], tensor.Float32, scale, scale)
		b.with(ps[1], tensor.Float32, scale, scale*overflow)
		require.NoError(t, s.Step(opt))
		require.Equal(t, i == 1, skipped(t, s, opt))
		require.NoError(t, s.Update())
	}
	for _, p := range ps {
		require.InDelta(t, 0, values(t, p.Tensor())[0], 1e-5, "two steps of half")
	}
	d, err := opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, []int{2, 2}, []int{d.State[0].Step, d.State[1].Step})
}
