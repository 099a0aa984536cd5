package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// twoGroups is the optimizer of testdata/schedules.py.
func twoGroups(t *testing.T) *optim.Grouped {
	t.Helper()
	e, _ := newExec(t, host.New())
	opt := optim.SGD(params{param(t, e, 0, 1, tensor.Float32)}, optim.LR(0.1), optim.Momentum(0.9))
	return opt.AddGroup(params{param(t, e, 1, 1, tensor.Float32)}, optim.LR(0.02))
}

var schedules = map[string]func(o *optim.Grouped) *optim.Schedule{
	"step":          func(o *optim.Grouped) *optim.Schedule { return optim.StepLR(o, 4, 0.3) },
	"multistep":     func(o *optim.Grouped) *optim.Schedule { return optim.MultiStepLR(o, []int{7, 3, 7, 11}, 0.5) },
	"exponential":   func(o *optim.Grouped) *optim.Schedule { return optim.ExponentialLR(o, 0.9) },
	"constant":      func(o *optim.Grouped) *optim.Schedule { return optim.ConstantLR(o, 0.25, 4) },
	"linear":        func(o *optim.Grouped) *optim.Schedule { return optim.LinearLR(o, 0.1, 0.9, 6) },
	"cosine":        func(o *optim.Grouped) *optim.Schedule { return optim.CosineAnnealingLR(o, 5, 0.01) },
	"warm restarts": func(o *optim.Grouped) *optim.Schedule { return optim.CosineAnnealingWarmRestarts(o, 4, 1, 0.001) },
	"warm restarts longer": func(o *optim.Grouped) *optim.Schedule {
		return optim.CosineAnnealingWarmRestarts(o, 2, 2, 0)
	},
	"lambda": func(o *optim.Grouped) *optim.Schedule {
		return optim.LambdaLR(o, func(e int) float64 { return math.Pow(0.95, float64(e)) }, func(e int) float64 { return 1 / float64(1+e) })
	},
	"one cycle": func(o *optim.Grouped) *optim.Schedule { return optim.OneCycleLR(o, []float64{0.5}, 15) },
	"one cycle linear": func(o *optim.Grouped) *optim.Schedule {
		return optim.OneCycleLR(o, []float64{0.5, 0.1}, 15, optim.PctStart(0.4), optim.LinearAnneal(), optim.CycleMomentum(0.7, 0.8),
			optim.DivFactor(10, 100))
	},
	"one cycle three": func(o *optim.Grouped) *optim.Schedule {
		return optim.OneCycleLR(o, []float64{0.5}, 15, optim.ThreePhase(), optim.FixedMomentum())
	},
	"polynomial": func(o *optim.Grouped) *optim.Schedule { return optim.PolynomialLR(o, 6, 2) },
	"multiplicative": func(o *optim.Grouped) *optim.Schedule {
		return optim.MultiplicativeLR(o, func(int) float64 { return 0.9 }, func(e int) float64 { return 1 - 1/float64(e+3) })
	},
	"cyclic": func(o *optim.Grouped) *optim.Schedule { return optim.CyclicLR(o, []float64{0.01}, []float64{0.2}, 4) },
	"cyclic triangular2": func(o *optim.Grouped) *optim.Schedule {
		return optim.CyclicLR(o, []float64{0.01, 0.1}, []float64{0.2, 0.05}, 3, optim.StepsDown(2), optim.Triangular2(),
			optim.CyclicMomentum(0.7, 0.95))
	},
	"cyclic range": func(o *optim.Grouped) *optim.Schedule {
		return optim.CyclicLR(o, []float64{0.01}, []float64{0.2}, 2, optim.StepsDown(3), optim.ExpRange(0.9), optim.KeepMomentum())
	},
	"cyclic function": func(o *optim.Grouped) *optim.Schedule {
		return optim.CyclicLR(o, []float64{0.01}, []float64{0.2}, 2, optim.ScaleCycles(func(c int) float64 { return 1 / float64(c+1) }, false))
	},
	"chained": func(o *optim.Grouped) *optim.Schedule {
		return optim.ChainedScheduler(o, optim.ConstantLR(o, 0.1, 3), optim.ExponentialLR(o, 0.9), optim.CosineAnnealingLR(o, 20, 0),
			optim.PolynomialLR(o, 30, 0.5))
	},
	"sequential": func(o *optim.Grouped) *optim.Schedule {
		return optim.SequentialLR(o,
			[]*optim.Schedule{optim.LinearLR(o, 0.1, 1, 4), optim.CosineAnnealingLR(o, 6, 0), optim.StepLR(o, 1, 0.5)}, []int{4, 10})
	},
}

var plateaus = map[string][]optim.PlateauOption{
	"plateau": {optim.PlateauFactor(0.5), optim.Patience(2)},
	"plateau max": {optim.MaxMode(), optim.PlateauFactor(0.5), optim.Patience(3), optim.Cooldown(2),
		optim.MinLR(0.03, 0.001)},
	"plateau absolute": {optim.PlateauFactor(0.1), optim.Patience(1), optim.Threshold(0.5, true), optim.PlateauEps(0.005)},
}

var plateauMetrics = []float64{5, 4, 4, 3.9999, 4.2, 3, 3, 3, 3, 2.99, 3.5, math.NaN(), 2.5, 2.5, 2.5, 2.5, 2.5, 2.5}

type scheduleCase struct {
	Name string
	Rows [][]float64
}

func scheduleCases(t *testing.T) (all []scheduleCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/schedules.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, len(schedules)+len(plateaus))
	return all
}

func requireRates(t *testing.T, want []float64, opt *optim.Grouped, at int) {
	t.Helper()
	for i, w := range want {
		got := opt.LR(i)
		if i >= 2 {
			got = opt.Momentum(i - 2)
		}
		require.InDelta(t, w, got, 1e-12*max(1e-3, math.Abs(w)), "row %d, column %d", at, i)
	}
}

func TestSchedules_GiveTheRatesOfPyTorch(t *testing.T) {
	for _, c := range scheduleCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			opt := twoGroups(t)
			if strings.HasPrefix(c.Name, "plateau") {
				s := optim.ReduceLROnPlateau(opt, plateaus[c.Name]...)
				for i, want := range c.Rows {
					require.NoError(t, s.Step(plateauMetrics[i]))
					requireRates(t, want, opt, i)
				}
				return
			}
			s := schedules[c.Name](opt)
			for i, want := range c.Rows {
				if i > 0 {
					require.NoError(t, s.Step())
				}
				requireRates(t, want, opt, i)
				require.Equal(t, []float64{opt.LR(0), opt.LR(1)}, s.LastLR())
				require.Equal(t, i, s.Epoch())
			}
			require.NoError(t, opt.Err())
		})
	}
}

func TestSchedules_GoOnFromAStateThroughJSON(t *testing.T) {
	for name, make := range schedules {
		t.Run(name, func(t *testing.T) {
			whole, second := twoGroups(t), twoGroups(t)
			a := make(whole)
			for range 6 {
				require.NoError(t, a.Step())
			}
			st, err := a.State()
			require.NoError(t, err)
			text, err := json.Marshal(st)
			require.NoError(t, err)
			var again optim.ScheduleState
			require.NoError(t, json.Unmarshal(text, &again))
			b := make(second)
			require.NoError(t, b.LoadState(again))
			for range 8 {
				require.Equal(t, []float64{whole.LR(0), whole.LR(1), whole.Momentum(1)}, []float64{second.LR(0), second.LR(1), second.Momentum(1)})
				require.NoError(t, a.Step())
				require.NoError(t, b.Step())
			}
		})
	}
}

func TestPlateau_GoesOnFromAStateThroughJSON(t *testing.T) {
	for name, opts := range plateaus {
		for cut := range plateauMetrics {
			whole, second := twoGroups(t), twoGroups(t)
			a, b := optim.ReduceLROnPlateau(whole, opts...), optim.ReduceLROnPlateau(second, opts...)
			for _, m := range plateauMetrics[:cut] {
				require.NoError(t, a.Step(m))
			}
			st, err := a.State()
			require.NoError(t, err)
			text, err := json.Marshal(st)
			require.NoError(t, err)
			var again optim.PlateauState
			require.NoError(t, json.Unmarshal(text, &again))
			require.NoError(t, b.LoadState(again))
			require.NoError(t, second.LoadStateDict(throughJSON(t, dictOf(t, whole))))
			for _, m := range plateauMetrics[cut:] {
				require.NoError(t, a.Step(m))
				require.NoError(t, b.Step(m))
				require.Equal(t, []float64{whole.LR(0), whole.LR(1)}, []float64{second.LR(0), second.LR(1)}, "%s cut at %d", name, cut)
			}
		}
	}
}

func TestSchedules_RefuseWrongSettings(t *testing.T) {
	opt, other := twoGroups(t), twoGroups(t)
	for name, s := range map[string]*optim.Schedule{
		"step size":     optim.StepLR(opt, 0, 0.1),
		"functions":     optim.LambdaLR(opt),
		"warm-up":       optim.LinearLR(opt, 0, 1, 5),
		"end":           optim.LinearLR(opt, 0.5, 2, 5),
		"total":         optim.LinearLR(opt, 0.5, 1, 0),
		"constant":      optim.ConstantLR(opt, -1, 3),
		"cosine":        optim.CosineAnnealingLR(opt, 0, 0),
		"restarts":      optim.CosineAnnealingWarmRestarts(opt, 1, 0, 0),
		"rates":         optim.OneCycleLR(opt, []float64{1, 2, 3}, 10),
		"one cycle":     optim.OneCycleLR(opt, []float64{1}, 0),
		"part":          optim.OneCycleLR(opt, []float64{1}, 10, optim.PctStart(2)),
		"no momentum":   optim.OneCycleLR(optim.SGD(nil).AddGroup(nil), []float64{1}, 10),
		"milestones":    optim.SequentialLR(opt, []*optim.Schedule{optim.StepLR(opt, 1, 1)}, []int{3}),
		"falling":       optim.SequentialLR(opt, []*optim.Schedule{optim.StepLR(opt, 1, 1), optim.StepLR(opt, 1, 1), optim.StepLR(opt, 1, 1)}, []int{3, 2}),
		"another one's": optim.SequentialLR(opt, []*optim.Schedule{optim.StepLR(other, 1, 1)}, nil),
		"a wrong one":   optim.SequentialLR(opt, []*optim.Schedule{optim.StepLR(opt, 0, 1)}, nil),
	} {
		require.ErrorIs(t, s.Step(), optim.ErrInvalid, name)
		require.ErrorIs(t, s.Err(), optim.ErrInvalid, name)
	}
	require.ErrorIs(t, optim.ReduceLROnPlateau(opt, optim.PlateauFactor(1)).Step(1), optim.ErrInvalid)
	require.ErrorIs(t, optim.ReduceLROnPlateau(opt, optim.MinLR(1, 2, 3)).Step(1), optim.ErrInvalid)
	require.NoError(t, opt.Err())
}

func TestSchedule_StepBeyondItsEnd_IsAnErrorThatChangesNothing(t *testing.T) {
	opt := twoGroups(t)
	s := optim.OneCycleLR(opt, []float64{0.5}, 3)
	require.NoError(t, s.Step())
	require.NoError(t, s.Step())
	require.NoError(t, s.Step())
	last := opt.LR(0)
	require.ErrorIs(t, s.Step(), optim.ErrInvalid)
	require.Equal(t, last, opt.LR(0))
	require.ErrorIs(t, s.LoadState(optim.ScheduleState{LastEpoch: 1}), optim.ErrInvalid)
}

// A loop that calls Step after each of total batches calls it once more than there are rates that are used. PyTorch lets it.
func TestOneCycleLR_TakesAStepAfterTheLastBatch(t *testing.T) {
	for _, c := range []struct {
		opts         []optim.OneCycleOption
		rate, moment float64
	}{{nil, 0.013347753018883055, 0.9366525935914912}, {[]optim.OneCycleOption{optim.LinearAnneal()}, 0, -1}, {[]optim.OneCycleOption{optim.ThreePhase()}, -1, -1}} {
		opt := optim.SGD(nil, optim.LR(0.1), optim.Momentum(0.9))
		s := optim.OneCycleLR(opt, []float64{0.1}, 6, c.opts...)
		for range 6 {
			require.NoError(t, s.Step())
		}
		if c.rate >= 0 {
			require.InDelta(t, c.rate, opt.LR(0), 1e-15)
		}
		if c.moment >= 0 {
			require.InDelta(t, c.moment, opt.Momentum(0), 1e-15)
		}
		require.ErrorContains(t, s.Step(), "the cycle is over")
	}
}

func TestSetMomentum_RefusesToSwitchItOnOrOff(t *testing.T) {
	opt := optim.SGD(nil)
	opt.SetMomentum(0.5, 0)
	require.ErrorIs(t, opt.Err(), optim.ErrInvalid)
	adam := optim.Adam(nil)
	adam.SetMomentum(0.5, 0)
	require.NoError(t, adam.Err())
	require.Equal(t, []float64{0.5, 0}, []float64{adam.Momentum(0), adam.Momentum(7)})
	adam.SetMomentum(1, 0)
	require.ErrorIs(t, adam.Err(), optim.ErrInvalid)
}

func TestLoadState_OfSchedules_RefusesWhatNoneHas_AndChangesNothing(t *testing.T) {
	opt := optim.SGD(nil, optim.LR(0.1), optim.Momentum(0.9))
	cycle := optim.OneCycleLR(opt, []float64{1}, 10)
	require.NoError(t, cycle.Step())
	before, err := cycle.State()
	require.NoError(t, err)
	for name, spoil := range map[string]func(st *optim.ScheduleState){
		"negative epoch": func(st *optim.ScheduleState) { st.LastEpoch = -1 },
		"absurd epoch":   func(st *optim.ScheduleState) { st.LastEpoch = math.MaxInt },
		"past the end":   func(st *optim.ScheduleState) { st.LastEpoch = 11 },
		"groups":         func(st *optim.ScheduleState) { st.BaseLRs = nil },
		"NaN":            func(st *optim.ScheduleState) { st.BaseLRs = []float64{math.NaN()} },
		"negative":       func(st *optim.ScheduleState) { st.BaseLRs = []float64{-1} },
		"infinite":       func(st *optim.ScheduleState) { st.LastLR = []float64{math.Inf(1)} },
	} {
		st, err := cycle.State()
		require.NoError(t, err)
		spoil(&st)
		var wrong *optim.StateError
		require.ErrorAs(t, cycle.LoadState(st), &wrong, name)
		require.Equal(t, "OneCycleLR", wrong.Of)
		after, err := cycle.State()
		require.NoError(t, err)
		require.Equal(t, before, after, name)
		require.NoError(t, opt.Err())
	}
	lambda := optim.LambdaLR(opt, func(epoch int) float64 { return 1 / float64(5-epoch) })
	require.ErrorIs(t, lambda.LoadState(optim.ScheduleState{LastEpoch: 5, BaseLRs: []float64{1}}), optim.ErrInvalid)
	require.NoError(t, opt.Err(), "the optimizer was not given an infinite rate")
}

func TestLoadState_OfAPlateau_RefusesWhatNoneHas(t *testing.T) {
	s := optim.ReduceLROnPlateau(optim.SGD(nil), optim.MaxMode())
	require.NoError(t, s.Step(math.Inf(1)))
	st, err := s.State()
	require.NoError(t, err)
	require.Equal(t, math.Inf(1), *st.Best, "not what it began with")
	require.NoError(t, s.LoadState(st))
	nan := math.NaN()
	for _, bad := range []optim.PlateauState{{Best: &nan}, {NumBadEpochs: -1}, {CooldownCounter: -1}, {LastEpoch: -1}, {LastEpoch: math.MaxInt}} {
		var wrong *optim.StateError
		require.ErrorAs(t, s.LoadState(bad), &wrong)
	}
	again, err := s.State()
	require.NoError(t, err)
	require.Equal(t, st, again)
}

func TestCosineAnnealingWarmRestarts_HasRatesAtEveryEpoch(t *testing.T) {
	s := optim.CosineAnnealingWarmRestarts(optim.SGD(nil, optim.LR(1)), 1<<30, 1<<40, 0)
	for _, epoch := range []int{1 << 30, 1 << 50, 1 << 53} {
		require.NoError(t, s.LoadState(optim.ScheduleState{LastEpoch: epoch, BaseLRs: []float64{1}}))
		require.GreaterOrEqual(t, s.LastLR()[0], 0.0)
	}
}
