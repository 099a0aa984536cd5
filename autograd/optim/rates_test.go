package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
)

func TestSchedules_RefuseSettingsThatGiveNoRates(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, make := range map[string]func(o *optim.Grouped, v float64) *optim.Schedule{
		"StepLR":            func(o *optim.Grouped, v float64) *optim.Schedule { return optim.StepLR(o, 1, v) },
		"MultiStepLR":       func(o *optim.Grouped, v float64) *optim.Schedule { return optim.MultiStepLR(o, []int{1}, v) },
		"ExponentialLR":     func(o *optim.Grouped, v float64) *optim.Schedule { return optim.ExponentialLR(o, v) },
		"ConstantLR":        func(o *optim.Grouped, v float64) *optim.Schedule { return optim.ConstantLR(o, v, 2) },
		"LinearLR start":    func(o *optim.Grouped, v float64) *optim.Schedule { return optim.LinearLR(o, v, 1, 2) },
		"LinearLR end":      func(o *optim.Grouped, v float64) *optim.Schedule { return optim.LinearLR(o, 1, v, 2) },
		"CosineAnnealingLR": func(o *optim.Grouped, v float64) *optim.Schedule { return optim.CosineAnnealingLR(o, 2, v) },
		"CosineAnnealingWarmRestarts": func(o *optim.Grouped, v float64) *optim.Schedule {
			return optim.CosineAnnealingWarmRestarts(o, 2, 1, v)
		},
		"PolynomialLR":             func(o *optim.Grouped, v float64) *optim.Schedule { return optim.PolynomialLR(o, 3, v) },
		"CyclicLR":                 func(o *optim.Grouped, v float64) *optim.Schedule { return swing(o, v) },
		"CyclicLR momentum":        func(o *optim.Grouped, v float64) *optim.Schedule { return swing(o, 1, optim.CyclicMomentum(v, 0.9)) },
		"CyclicLR gamma":           func(o *optim.Grouped, v float64) *optim.Schedule { return swing(o, 1, optim.ExpRange(v)) },
		"OneCycleLR":               func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, v) },
		"OneCycleLR start":         func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, 1, optim.PctStart(v)) },
		"OneCycleLR factor":        func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, 1, optim.DivFactor(v, 1)) },
		"OneCycleLR final":         func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, 1, optim.DivFactor(1, v)) },
		"OneCycleLR momentum":      func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, 1, optim.CycleMomentum(v, 0.9)) },
		"OneCycleLR most momentum": func(o *optim.Grouped, v float64) *optim.Schedule { return cycle(o, 1, optim.CycleMomentum(0.5, v)) },
		"LambdaLR": func(o *optim.Grouped, v float64) *optim.Schedule {
			return optim.LambdaLR(o, func(int) float64 { return v })
		},
	} {
		for _, v := range []float64{nan, inf, -inf, -1} {
			o := optim.SGD(nil, optim.LR(0.5), optim.Momentum(0.9))
			s := make(o, v)
			var bad *optim.ConfigError
			require.ErrorAs(t, s.Err(), &bad, "%s %v", name, v)
			require.ErrorIs(t, s.Step(), optim.ErrInvalid)
			require.Equal(t, 0.5, o.LR(0), "%s %v", name, v)
			require.NoError(t, o.Err())
		}
	}
}

func swing(o *optim.Grouped, most float64, opts ...optim.CyclicOption) *optim.Schedule {
	return optim.CyclicLR(o, []float64{0.1}, []float64{most}, 5, opts...)
}

func cycle(o *optim.Grouped, most float64, opts ...optim.OneCycleOption) *optim.Schedule {
	return optim.OneCycleLR(o, []float64{most}, 5, opts...)
}

func TestReduceLROnPlateau_RefusesSettingsThatGiveNoRates(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(-1), math.Inf(1)} {
		for name, opt := range map[string]optim.PlateauOption{
			"factor": optim.PlateauFactor(v), "least": optim.MinLR(v), "threshold": optim.Threshold(v, true), "eps": optim.PlateauEps(v),
		} {
			s := optim.ReduceLROnPlateau(optim.SGD(nil, optim.LR(0.5)), opt)
			require.ErrorIs(t, s.Step(1), optim.ErrInvalid, "%s %v", name, v)
		}
	}
	require.ErrorIs(t, optim.ReduceLROnPlateau(optim.SGD(nil), optim.MinLR(-1)).Step(1), optim.ErrInvalid)
	require.ErrorIs(t, optim.ReduceLROnPlateau(optim.SGD(nil), optim.PlateauFactor(-1)).Step(1), optim.ErrInvalid)
}

// A formula that gives no rate is the error of the step, which changes nothing.
func TestSchedules_StepRefusesARateThatIsNone(t *testing.T) {
	late := func(v float64) func(o *optim.Grouped) *optim.Schedule {
		return func(o *optim.Grouped) *optim.Schedule {
			return optim.LambdaLR(o, func(int) float64 { return 1 }, func(epoch int) float64 { return []float64{1, 1, v}[epoch] })
		}
	}
	for name, make := range map[string]func(o *optim.Grouped) *optim.Schedule{
		"overflow": func(o *optim.Grouped) *optim.Schedule { return optim.ExponentialLR(o, 1e300) },
		"NaN":      late(math.NaN()),
		"infinite": late(math.Inf(1)),
		"negative": late(-1),
		"later in a sequence": func(o *optim.Grouped) *optim.Schedule {
			return optim.SequentialLR(o, []*optim.Schedule{optim.ConstantLR(o, 1, 1), optim.ExponentialLR(o, 1e300)}, []int{0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := optim.SGD(nil, optim.LR(0.5)).AddGroup(nil)
			s := make(o)
			require.NoError(t, s.Step())
			rates := s.LastLR()
			for range 2 {
				var bad *optim.ConfigError
				require.ErrorAs(t, s.Step(), &bad)
				require.Contains(t, bad.Error(), "epoch 2")
				require.NoError(t, s.Err())
				require.NoError(t, o.Err())
				require.Equal(t, 1, s.Epoch())
				require.Equal(t, rates, s.LastLR())
				require.Equal(t, rates, []float64{o.LR(0), o.LR(1)})
			}
		})
	}
}
