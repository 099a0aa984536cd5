package optim_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func dictOf(t *testing.T, opt *optim.Grouped) optim.StateDict {
	t.Helper()
	d, err := opt.StateDict()
	require.NoError(t, err)
	return d
}

// throughJSON is what a program has that has saved a dict's settings and loaded them again.
func throughJSON(t *testing.T, d optim.StateDict) optim.StateDict {
	t.Helper()
	text, err := json.Marshal(d.Groups)
	require.NoError(t, err)
	again := optim.StateDict{State: d.State}
	require.NoError(t, json.Unmarshal(text, &again.Groups))
	return again
}

func TestStateDict_OfEveryOptimizer_GoesOnBitForBit(t *testing.T) {
	for name, c := range stepCases {
		t.Run(name, func(t *testing.T) {
			e, _ := newExec(t, host.New())
			run := func(opt *optim.Grouped, ps params, from, to int) {
				for step := from; step <= to; step++ {
					for i, p := range ps {
						p.ZeroGrad()
						if !c.skip[[2]int{step, i}] {
							setGradient(t, e, p, step, i)
						}
					}
					require.NoError(t, opt.Step())
				}
			}
			straight := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
			whole := c.make(straight)
			defer whole.Release()
			run(whole, straight, 1, 3)

			resumed := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
			for i, p := range resumed {
				require.NoError(t, p.Tensor().CopyFrom(straight[i].Tensor()))
			}
			second := c.make(resumed)
			defer second.Release()
			require.NoError(t, second.LoadStateDict(throughJSON(t, dictOf(t, whole))))
			run(whole, straight, 4, 6)
			run(second, resumed, 4, 6)
			for i := range straight {
				want, err := straight[i].Tensor().Float64s()
				require.NoError(t, err)
				got, err := resumed[i].Tensor().Float64s()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

func TestStateDict_HasPyTorchsNames(t *testing.T) {
	e, _ := newExec(t, host.New())
	for name, c := range map[string]struct {
		opt     *optim.Grouped
		tensors []string
		keys    []string
		step    int
	}{
		"sgd": {optim.SGD(params{param(t, e, 0, 3, tensor.Float32)}, optim.Momentum(0.9)), []string{"momentum_buffer"},
			[]string{"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "params"}, 0},
		"adam": {optim.Adam(params{param(t, e, 0, 3, tensor.Float32)}, optim.AMSGrad()),
			[]string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
			[]string{"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay", "params"}, 1},
		"rmsprop": {optim.RMSprop(params{param(t, e, 0, 3, tensor.Float32)}, optim.Momentum(0.5), optim.Centered()),
			[]string{"square_avg", "momentum_buffer", "grad_avg"},
			[]string{"lr", "momentum", "alpha", "eps", "centered", "weight_decay", "maximize", "params"}, 1},
		"adagrad": {optim.Adagrad(params{param(t, e, 0, 3, tensor.Float32)}), []string{"sum"},
			[]string{"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value", "maximize", "params"}, 1},
		"lion": {optim.Lion(params{param(t, e, 0, 3, tensor.Float32)}), []string{"exp_avg"},
			[]string{"lr", "betas", "weight_decay", "maximize", "params"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer c.opt.Release()
			require.Empty(t, dictOf(t, c.opt).State, "nothing was learned yet")
			setGradient(t, e, c.opt.Parameters()[0], 1, 0)
			require.NoError(t, c.opt.Step())
			d := dictOf(t, c.opt)
			var names, keys []string
			for n := range d.State[0].Tensors {
				names = append(names, n)
			}
			for k := range d.Groups[0] {
				keys = append(keys, k)
			}
			require.ElementsMatch(t, c.tensors, names)
			require.ElementsMatch(t, c.keys, keys)
			require.Equal(t, c.step, d.State[0].Step)
		})
	}
}

func TestLoadStateDict_RefusesWhatDoesNotFit_AndChangesNothing(t *testing.T) {
	e, alloc := newExec(t, host.New())
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
	opt := optim.Adam(ps)
	defer opt.Release()
	for i, p := range ps {
		setGradient(t, e, p, 1, i)
	}
	require.NoError(t, opt.Step())
	good := func() optim.StateDict { return throughJSON(t, dictOf(t, opt)) }
	before := alloc.Stats().AllocatedBytes.All.Current
	for name, spoil := range map[string]func(d *optim.StateDict){
		"groups":       func(d *optim.StateDict) { d.Groups = append(d.Groups, d.Groups[0]) },
		"parameters":   func(d *optim.StateDict) { d.Groups[0]["params"] = []int{0} },
		"no lr":        func(d *optim.StateDict) { delete(d.Groups[0], "lr") },
		"a text":       func(d *optim.StateDict) { d.Groups[0]["lr"] = "fast" },
		"three betas":  func(d *optim.StateDict) { d.Groups[0]["betas"] = []float64{1, 2, 3} },
		"a bad beta":   func(d *optim.StateDict) { d.Groups[0]["betas"] = []float64{0.9, 1} },
		"amsgrad":      func(d *optim.StateDict) { d.Groups[0]["amsgrad"] = true },
		"no step":      func(d *optim.StateDict) { d.State = map[int]optim.ParamState{0: {Tensors: d.State[0].Tensors}} },
		"other shapes": func(d *optim.StateDict) { d.State = map[int]optim.ParamState{0: d.State[0], 1: d.State[0]} },
		"a third":      func(d *optim.StateDict) { d.State = map[int]optim.ParamState{2: d.State[0]} },
		"NaN":          func(d *optim.StateDict) { d.Groups[0]["lr"] = math.NaN() },
		"infinite":     func(d *optim.StateDict) { d.Groups[0]["eps"] = math.Inf(1) },
		"negative":     func(d *optim.StateDict) { d.Groups[0]["weight_decay"] = -1 },
		"null":         func(d *optim.StateDict) { d.Groups[0]["lr"] = nil },
		"a null beta":  func(d *optim.StateDict) { d.Groups[0]["betas"] = []any{0.9, nil} },
		"a null flag":  func(d *optim.StateDict) { d.Groups[0]["amsgrad"] = nil },
		"initial rate": func(d *optim.StateDict) { d.Groups[0]["initial_lr"] = -0.5 },
		"steps": func(d *optim.StateDict) {
			d.State[0] = optim.ParamState{Step: math.MaxInt, Tensors: d.State[0].Tensors}
		},
		"negative steps": func(d *optim.StateDict) { d.State[0] = optim.ParamState{Step: -1, Tensors: d.State[0].Tensors} },
		"of another one": func(d *optim.StateDict) { d.State = map[int]optim.ParamState{0: {Step: 1}} },
	} {
		d := good()
		spoil(&d)
		err := opt.LoadStateDict(d)
		var wrong *optim.StateError
		require.ErrorAs(t, err, &wrong, name)
		require.ErrorIs(t, err, optim.ErrInvalid)
		require.Equal(t, before, alloc.Stats().AllocatedBytes.All.Current, name)
		require.Equal(t, 1, dictOf(t, opt).State[1].Step)
	}
	require.NoError(t, opt.LoadStateDict(good()))
}

func TestLoadStateDict_WithoutMemory_ChangesNothing(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	ps := params{param(t, e, 0, 3, tensor.Float32)}
	opt := optim.Adam(ps)
	defer opt.Release()
	setGradient(t, e, ps[0], 1, 0)
	require.NoError(t, opt.Step())
	before := alloc.Stats().AllocatedBytes.All.Current
	dev.FailNext(sim.CallMalloc, 2, memory.ErrOutOfMemory)
	require.ErrorIs(t, opt.LoadStateDict(dictOf(t, opt)), memory.ErrOutOfMemory)
	require.Equal(t, before, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, opt.LoadStateDict(dictOf(t, opt)), "from itself")
}

func TestPrepareStateDict_SwapsThereAndBack(t *testing.T) {
	e, alloc := newExec(t, host.New())
	ps := params{param(t, e, 0, 3, tensor.Float32)}
	opt := optim.Adam(ps)
	defer opt.Release()
	setGradient(t, e, ps[0], 1, 0)
	require.NoError(t, opt.Step())
	saved := throughJSON(t, dictOf(t, opt))
	saved.Groups[0]["lr"] = 0.5
	before := alloc.Stats().AllocatedBytes.All.Current
	prepared, err := opt.PrepareStateDict(saved)
	require.NoError(t, err)
	require.InDelta(t, 1e-3, opt.LR(0), 0)
	prepared.Swap()
	require.InDelta(t, 0.5, opt.LR(0), 0)
	require.Equal(t, 1, dictOf(t, opt).State[0].Step)
	prepared.Swap()
	require.InDelta(t, 1e-3, opt.LR(0), 0)
	prepared.Release()
	prepared.Release()
	require.Equal(t, before, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, opt.Step())
}

func TestSettings_MustBeFinite(t *testing.T) {
	for _, v := range []float64{math.Inf(1), math.NaN(), -1} {
		for name, o := range map[string]optim.Option{
			"LR": optim.LR(v), "WeightDecay": optim.WeightDecay(v), "Momentum": optim.Momentum(v), "Eps": optim.Eps(v),
		} {
			var wrong *optim.ConfigError
			require.ErrorAs(t, optim.SGD(nil, o).Err(), &wrong, "%s %v", name, v)
		}
		opt := optim.SGD(nil)
		opt.SetLR(v)
		require.ErrorIs(t, opt.Err(), optim.ErrInvalid)
	}
	require.ErrorIs(t, optim.SGD(nil, optim.Dampening(math.NaN())).Err(), optim.ErrInvalid)
	require.NoError(t, optim.SGD(nil, optim.Dampening(-1)).Err(), "as in PyTorch")
}

func TestStateDict_OfInvalidSettingsIsTheirError(t *testing.T) {
	for _, lr := range []float64{math.Inf(-1), math.NaN(), -1} {
		_, err := optim.Adam(nil, optim.LR(lr)).StateDict()
		require.ErrorIs(t, err, optim.ErrInvalid)
	}
}

func TestLoadStateDict_SaysWhatASettingIsWithoutTheNamesOfTypes(t *testing.T) {
	p := autograd.DeclareParameter("p", nil, 1)
	o := optim.Adam([]*autograd.Parameter{p})
	for want, change := range map[string]func(d *optim.StateDict){
		`lr: "fast", want a number`:            func(d *optim.StateDict) { d.Groups[0]["lr"] = "fast" },
		`lr: null, want a number`:              func(d *optim.StateDict) { d.Groups[0]["lr"] = nil },
		`amsgrad: 1, want true or false`:       func(d *optim.StateDict) { d.Groups[0]["amsgrad"] = 1 },
		`betas: 0.9, want a list of 2 numbers`: func(d *optim.StateDict) { d.Groups[0]["betas"] = 0.9 },
		`betas: [], want a number`:             func(d *optim.StateDict) { d.Groups[0]["betas"] = []any{0.9, []int{}} },
	} {
		d, err := o.StateDict()
		require.NoError(t, err)
		change(&d)
		require.ErrorContains(t, o.LoadStateDict(d), want)
	}
}
