package optim_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// fuzzedOptimizers are of all kinds, with all state that each can have.
var fuzzedOptimizers = []func(ps []*autograd.Parameter) *optim.Grouped{
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adam(ps, optim.AMSGrad()) },
	func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.AdamW(ps[:1]).AddGroup(ps[1:], optim.LR(0.5))
	},
	func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.SGD(ps, optim.Momentum(0.9), optim.Nesterov())
	},
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.SGD(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.RMSprop(ps, optim.Centered(), optim.Momentum(0.5))
	},
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adagrad(ps, optim.LRDecay(0.1)) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Lion(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adadelta(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adamax(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.NAdam(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.RAdam(ps, optim.DecoupledWeightDecay()) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.Rprop(ps) },
	func(ps []*autograd.Parameter) *optim.Grouped { return optim.ASGD(ps) },
}

// fuzzedState is a StateDict in JSON: tensors by parameter and name, with the numbers of their elements.
type fuzzedState struct {
	Groups []optim.GroupState
	Steps  map[int]int
	Sizes  map[int]map[string]int
}

// FuzzLoadStateDict loads any state into any optimizer. What is refused changes nothing and keeps no memory; what is loaded is saved and
// loads again to the same, and steps can be taken from it.
func FuzzLoadStateDict(f *testing.F) {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(f, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(f, err)
	for kind, make := range fuzzedOptimizers {
		o := fuzzedOptimizer(f, e, make)
		f.Add(uint8(kind), fuzzedText(f, o))
		releaseAll(o)
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		var wanted fuzzedState
		if len(text) > 1<<16 || json.Unmarshal([]byte(text), &wanted) != nil {
			return
		}
		o := fuzzedOptimizer(t, e, fuzzedOptimizers[int(kind)%len(fuzzedOptimizers)])
		before, held := fuzzedText(t, o), alloc.Stats().AllocatedBytes.All.Current
		d, release := wanted.dict(t, e)
		err := o.LoadStateDict(d)
		release()
		if err != nil {
			var wrong *optim.StateError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, before, fuzzedText(t, o))
			require.Equal(t, held, alloc.Stats().AllocatedBytes.All.Current)
		} else {
			saved := dictOfFuzzed(t, o)
			text := fuzzedText(t, o)
			require.NoError(t, o.LoadStateDict(saved), "from itself")
			require.Equal(t, text, fuzzedText(t, o))
			require.NoError(t, o.Step())
		}
		releaseAll(o)
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	})
}

// fuzzedOptimizer is one that has taken a step.
func fuzzedOptimizer(t testing.TB, e tensor.Exec, make func(ps []*autograd.Parameter) *optim.Grouped) *optim.Grouped {
	var ps []*autograd.Parameter
	for _, n := range []int{1, 3} {
		v, err := tensor.Ones(e, tensor.Float32, n)
		require.NoError(t, err)
		g, err := tensor.Ones(e, tensor.Float32, n)
		require.NoError(t, err)
		p := autograd.NewParameter("p", v)
		require.NoError(t, p.SetGrad(g))
		ps = append(ps, p)
	}
	o := make(ps)
	require.NoError(t, o.Step())
	return o
}

func releaseAll(o *optim.Grouped) {
	o.Release()
	for _, p := range o.Parameters() {
		p.Release()
	}
}

func dictOfFuzzed(t testing.TB, o *optim.Grouped) optim.StateDict {
	d, err := o.StateDict()
	require.NoError(t, err)
	return d
}

// fuzzedText is the state of an optimizer in JSON.
func fuzzedText(t testing.TB, o *optim.Grouped) string {
	d := dictOfFuzzed(t, o)
	s := fuzzedState{d.Groups, map[int]int{}, map[int]map[string]int{}}
	for n, p := range d.State {
		s.Steps[n], s.Sizes[n] = p.Step, map[string]int{}
		for name, tensor := range p.Tensors {
			s.Sizes[n][name] = tensor.Len()
		}
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return string(text)
}

func (s *fuzzedState) dict(t *testing.T, e tensor.Exec) (optim.StateDict, func()) {
	d := optim.StateDict{Groups: s.Groups, State: map[int]optim.ParamState{}}
	var made []*tensor.Tensor
	for n, step := range s.Steps {
		p := optim.ParamState{Step: step, Tensors: map[string]*tensor.Tensor{}}
		for name, size := range s.Sizes[n] {
			v, err := tensor.Ones(e, tensor.Float64, min(max(size, 0), 100))
			require.NoError(t, err)
			p.Tensors[name] = v
			made = append(made, v)
		}
		d.State[n] = p
	}
	return d, func() {
		for _, v := range made {
			v.Release()
		}
	}
}

// fuzzedSchedules are of all kinds.
var fuzzedSchedules = []func(o *optim.Grouped) *optim.Schedule{
	func(o *optim.Grouped) *optim.Schedule {
		return optim.LambdaLR(o, func(n int) float64 { return 1 / float64(7-n) })
	},
	func(o *optim.Grouped) *optim.Schedule { return optim.StepLR(o, 3, 0.5) },
	func(o *optim.Grouped) *optim.Schedule { return optim.StepLR(o, 1, 10) },
	func(o *optim.Grouped) *optim.Schedule { return optim.MultiStepLR(o, []int{5, 2, 2}, 0.1) },
	func(o *optim.Grouped) *optim.Schedule { return optim.ExponentialLR(o, 1e10) },
	func(o *optim.Grouped) *optim.Schedule {
		return optim.LambdaLR(o, func(n int) float64 { return math.Pow(-0.9, float64(n)) })
	},
	func(o *optim.Grouped) *optim.Schedule { return optim.ConstantLR(o, 0.3, 5) },
	func(o *optim.Grouped) *optim.Schedule { return optim.LinearLR(o, 0.3, 1, 5) },
	func(o *optim.Grouped) *optim.Schedule { return optim.CosineAnnealingLR(o, 10, 0) },
	func(o *optim.Grouped) *optim.Schedule { return optim.CosineAnnealingWarmRestarts(o, 3, 1, 0) },
	func(o *optim.Grouped) *optim.Schedule { return optim.CosineAnnealingWarmRestarts(o, 3, 1<<40, 0.1) },
	func(o *optim.Grouped) *optim.Schedule { return optim.OneCycleLR(o, []float64{1}, 20) },
	func(o *optim.Grouped) *optim.Schedule {
		return optim.OneCycleLR(o, []float64{1, 2}, 20, optim.ThreePhase())
	},
	func(o *optim.Grouped) *optim.Schedule { return optim.PolynomialLR(o, 10, 0.5) },
	func(o *optim.Grouped) *optim.Schedule {
		return optim.CyclicLR(o, []float64{0.1}, []float64{1}, 3, optim.Triangular2())
	},
	func(o *optim.Grouped) *optim.Schedule {
		return optim.ChainedScheduler(o, optim.PolynomialLR(o, 10, 0.5), optim.ExponentialLR(o, 2))
	},
	func(o *optim.Grouped) *optim.Schedule {
		return optim.SequentialLR(o, []*optim.Schedule{optim.LinearLR(o, 0.1, 1, 3), optim.OneCycleLR(o, []float64{1}, 9)}, []int{3})
	},
}

// FuzzSchedule_LoadState loads any state into any schedule. What is refused changes nothing, not even in the optimizer; what is loaded is saved
// and loads again to the same.
func FuzzSchedule_LoadState(f *testing.F) {
	for kind := range fuzzedSchedules {
		f.Add(uint8(kind), 3, 0.1, 0.2, 0.1, uint8(2))
		f.Add(uint8(kind), 1<<53, 1.0, 0.0, 0.1, uint8(2))
	}
	f.Add(uint8(3), -1, math.NaN(), math.Inf(1), -1.0, uint8(1))
	f.Fuzz(func(t *testing.T, kind uint8, epoch int, base, second, last float64, groups uint8) {
		o := optim.SGD(nil, optim.LR(0.1), optim.Momentum(0.9)).AddGroup(nil, optim.LR(0.2))
		s := fuzzedSchedules[int(kind)%len(fuzzedSchedules)](o)
		require.NoError(t, s.Err())
		before, err := s.State()
		require.NoError(t, err)
		st := optim.ScheduleState{LastEpoch: epoch, BaseLRs: []float64{base, second, base}[:groups%4], LastLR: []float64{last, last}[:min(groups%4, 2)]}
		lr, momentum := o.LR(1), o.Momentum(1)
		err = s.LoadState(st)
		after, failed := s.State()
		require.NoError(t, failed)
		require.NoError(t, o.Err(), "the optimizer takes what a schedule sets")
		if err != nil {
			var wrong *optim.StateError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, before, after)
			require.Equal(t, []float64{lr, momentum}, []float64{o.LR(1), o.Momentum(1)})
			return
		}
		require.NoError(t, s.LoadState(after))
		again, err := s.State()
		require.NoError(t, err)
		require.Equal(t, after, again)
		if err := s.Step(); err == nil {
			require.Equal(t, after.LastEpoch+1, s.Epoch())
		}
	})
}

// FuzzPlateau_LoadState loads any state into a schedule that waits for a metric.
func FuzzPlateau_LoadState(f *testing.F) {
	f.Add(true, 1.0, 0, 0, 0, 2.0)
	f.Add(false, math.Inf(-1), 1, 2, 3, math.NaN())
	f.Add(true, math.NaN(), -1, 1<<60, math.MaxInt, 0.0)
	f.Fuzz(func(t *testing.T, rise bool, best float64, bad, cool, epoch int, metric float64) {
		o := optim.SGD(nil, optim.LR(0.1))
		var opts []optim.PlateauOption
		if rise {
			opts = append(opts, optim.MaxMode())
		}
		s := optim.ReduceLROnPlateau(o, opts...)
		before, err := s.State()
		require.NoError(t, err)
		err = s.LoadState(optim.PlateauState{Best: &best, NumBadEpochs: bad, CooldownCounter: cool, LastEpoch: epoch})
		after, failed := s.State()
		require.NoError(t, failed)
		if err != nil {
			var wrong *optim.StateError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, before, after)
			return
		}
		require.NoError(t, s.LoadState(after))
		again, err := s.State()
		require.NoError(t, err)
		require.Equal(t, after, again)
		require.NoError(t, s.Step(metric))
		require.NoError(t, o.Err())
	})
}
