package optim_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// kinds are the optimizers by their names.
var kinds = map[string]func(ps params) *optim.Grouped{
	"SGD":      func(ps params) *optim.Grouped { return optim.SGD(ps, optim.Momentum(0.9)) },
	"Adam":     func(ps params) *optim.Grouped { return optim.Adam(ps) },
	"AdamW":    func(ps params) *optim.Grouped { return optim.AdamW(ps) },
	"RMSprop":  func(ps params) *optim.Grouped { return optim.RMSprop(ps, optim.Momentum(0.9)) },
	"Adagrad":  func(ps params) *optim.Grouped { return optim.Adagrad(ps) },
	"Adadelta": func(ps params) *optim.Grouped { return optim.Adadelta(ps) },
	"Adamax":   func(ps params) *optim.Grouped { return optim.Adamax(ps) },
	"NAdam":    func(ps params) *optim.Grouped { return optim.NAdam(ps) },
	"RAdam":    func(ps params) *optim.Grouped { return optim.RAdam(ps) },
	"ASGD":     func(ps params) *optim.Grouped { return optim.ASGD(ps) },
	"Rprop":    func(ps params) *optim.Grouped { return optim.Rprop(ps) },
	"Lion":     func(ps params) *optim.Grouped { return optim.Lion(ps) },
}

// The state of each optimizer is refused by every other, also before a step, and where a program kept the groups alone, as those of
// PyTorch's dicts are, without the name.
func TestLoadStateDict_RefusesTheStateOfAnotherOptimizer(t *testing.T) {
	e, _ := newExec(t, host.New())
	for from, makeFrom := range kinds {
		for into, makeInto := range kinds {
			for _, stepped := range []bool{false, true} {
				p := params{param(t, e, 0, 3, tensor.Float32)}
				old, other := makeFrom(p), makeInto(params{param(t, e, 0, 3, tensor.Float32)})
				if stepped {
					setGradient(t, e, p[0], 1, 0)
					require.NoError(t, old.Step())
				}
				d := dictOf(t, old)
				require.Equal(t, from, d.Optimizer)
				nameless := throughJSON(t, d)
				if from == into {
					require.NoError(t, other.LoadStateDict(d))
					require.NoError(t, other.LoadStateDict(nameless))
				} else {
					var wrong *optim.StateError
					require.ErrorAs(t, other.LoadStateDict(d), &wrong)
					require.Equal(t, [2]string{from, into}, [2]string{wrong.From, wrong.Of})
					require.EqualError(t, wrong, "optim: "+into+": LoadStateDict: it is the state of "+from+", not of "+into)
					require.ErrorAs(t, other.LoadStateDict(nameless), &wrong, "%s to %s", from, into)
				}
				old.Release()
				other.Release()
			}
		}
	}
}

// PyTorch says since 2.7 which of Adam and AdamW a group is of, and did not before.
func TestLoadStateDict_TakesGroupsWithoutTheFlagOfAdamW(t *testing.T) {
	e, _ := newExec(t, host.New())
	opt := optim.AdamW(params{param(t, e, 0, 3, tensor.Float32)})
	d := throughJSON(t, dictOf(t, opt))
	require.Equal(t, true, d.Groups[0]["decoupled_weight_decay"])
	delete(d.Groups[0], "decoupled_weight_decay")
	d.Groups[0]["foreach"], d.Groups[0]["fused"] = nil, nil
	require.NoError(t, opt.LoadStateDict(d))
	d.Groups[0]["decoupled_weight_decay"] = "yes"
	require.ErrorIs(t, opt.LoadStateDict(d), optim.ErrInvalid)
}

func TestLoadState_RefusesTheStateOfAnotherSchedule(t *testing.T) {
	e, _ := newExec(t, host.New())
	opt := optim.SGD(params{param(t, e, 0, 3, tensor.Float32)})
	steps, cosine := optim.StepLR(opt, 2, 0.5), optim.CosineAnnealingLR(opt, 10, 0)
	st, err := steps.State()
	require.NoError(t, err)
	text, err := json.Marshal(st)
	require.NoError(t, err)
	var again optim.ScheduleState
	require.NoError(t, json.Unmarshal(text, &again))
	require.NoError(t, steps.LoadState(again))
	var wrong *optim.StateError
	require.ErrorAs(t, cosine.LoadState(again), &wrong)
	require.Equal(t, [2]string{"StepLR", "CosineAnnealingLR"}, [2]string{wrong.From, wrong.Of})
	again.Schedule = ""
	require.NoError(t, cosine.LoadState(again), "PyTorch's do not say it")
}
