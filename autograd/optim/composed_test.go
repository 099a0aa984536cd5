package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// matrix is a parameter of testdata/muon.py.
func matrix(t *testing.T, e tensor.Exec, i, rows, columns int, dt tensor.DType) *autograd.Parameter {
	t.Helper()
	flat := param(t, e, i, rows*columns, dt)
	x, err := flat.Tensor().Reshape(rows, columns)
	require.NoError(t, err)
	p := autograd.NewParameter("w", x)
	t.Cleanup(p.Release)
	return p
}

// setMatrixGradient gives a matrix the gradient of testdata/steps.py.
func setMatrixGradient(t *testing.T, e tensor.Exec, p *autograd.Parameter, step, i int) {
	t.Helper()
	flat, err := tensor.Empty(e, p.Tensor().DType(), p.Len())
	require.NoError(t, err)
	defer flat.Release()
	q := autograd.NewParameter("", flat.Retain())
	defer q.Release()
	setGradient(t, e, q, step, i)
	g, err := q.Grad().Reshape(p.Shape()...)
	require.NoError(t, err)
	require.NoError(t, p.SetGrad(g))
}

func TestMuon_GivesTheNumbersOfTheReference(t *testing.T) {
	makers := map[string]func(ps params) *optim.Grouped{
		"muon": func(ps params) *optim.Grouped { return optim.Muon(ps) },
		"muon settings": func(ps params) *optim.Grouped {
			return optim.Muon(ps[:1], optim.LR(0.05), optim.WeightDecay(0.3), optim.Momentum(0.8), optim.MatchRMSAdamW()).AddGroup(ps[1:])
		},
		"muon plain": func(ps params) *optim.Grouped {
			return optim.Muon(ps, optim.LR(0.1), func(s *optim.Settings) { s.Nesterov = false })
		},
	}
	text, err := os.ReadFile("testdata/muon.json")
	require.NoError(t, err)
	var golden []struct {
		Name, DType string
		After       [][][]float64
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden, 2*len(makers))
	for _, want := range golden {
		t.Run(want.Name+" "+want.DType, func(t *testing.T) {
			dt, tolerance := tensor.Float64, 1e-12
			if want.DType == "float32" {
				dt, tolerance = tensor.Float32, 2e-5
			}
			e, _ := newExec(t, host.New())
			ps := params{matrix(t, e, 0, 3, 5, dt), matrix(t, e, 1, 5, 3, dt), matrix(t, e, 2, 4, 4, dt)}
			opt := makers[want.Name](ps)
			defer opt.Release()
			for step := 1; step <= 20; step++ {
				for i, p := range ps {
					setMatrixGradient(t, e, p, step, i)
				}
				require.NoError(t, opt.Step())
				if step%5 != 1 && step != 20 {
					continue
				}
				for i, p := range ps {
					for k, got := range floats(t, p.Tensor()) {
						w := want.After[min(step/5, 4)][i][k]
						require.InDelta(t, w, got, tolerance*max(1, math.Abs(w)), "step %d, parameter %d", step, i)
					}
				}
			}
		})
	}
}

func TestMuon_RefusesWhatIsNoMatrix(t *testing.T) {
	e, _ := newExec(t, host.New())
	var wrong *optim.ConfigError
	opt := optim.Muon(params{param(t, e, 0, 3, tensor.Float32)})
	require.ErrorAs(t, opt.Step(), &wrong)
	require.EqualError(t, wrong, `optim: Muon: parameter "p" has shape [3]; it takes matrices alone: give other parameters to AdamW`)
	require.ErrorAs(t, optim.Muon(nil, optim.Momentum(1)).Err(), &wrong)
	require.ErrorContains(t, optim.Muon(nil, optim.Dampening(0.1)).Err(), "it has no option Dampening")
}

func TestMuon_GoesOnFromAState(t *testing.T) {
	e, _ := newExec(t, host.New())
	whole, part := matrix(t, e, 0, 3, 5, tensor.BFloat16), matrix(t, e, 0, 3, 5, tensor.BFloat16)
	a, b := optim.Muon(params{whole}), optim.Muon(params{part})
	defer a.Release()
	defer b.Release()
	setMatrixGradient(t, e, whole, 1, 0)
	setMatrixGradient(t, e, part, 2, 0)
	require.NoError(t, a.Step())
	require.NoError(t, part.Tensor().CopyFrom(whole.Tensor()))
	require.NoError(t, b.LoadStateDict(throughJSON(t, dictOf(t, a))))
	setMatrixGradient(t, e, whole, 2, 0)
	require.NoError(t, a.Step())
	require.NoError(t, b.Step())
	require.Equal(t, floats(t, whole.Tensor()), floats(t, part.Tensor()))
	sgd := optim.SGD(params{part})
	require.ErrorIs(t, sgd.LoadStateDict(throughJSON(t, dictOf(t, a))), optim.ErrInvalid)
	require.ErrorIs(t, a.LoadStateDict(throughJSON(t, dictOf(t, sgd))), optim.ErrInvalid)
}

// composedKinds have no kernel of their own.
var composedKinds = map[string]func(ps params, opts ...optim.Option) *optim.Grouped{
	"Adadelta": optim.Adadelta, "Adamax": optim.Adamax, "NAdam": optim.NAdam, "RAdam": optim.RAdam, "Rprop": optim.Rprop, "ASGD": optim.ASGD,
}

func TestCapturable_IsRefusedByOptimizersThatCountOnTheHost(t *testing.T) {
	for name, make := range composedKinds {
		var wrong *optim.ConfigError
		require.ErrorAs(t, make(nil, optim.Capturable()).Err(), &wrong, name)
		require.Equal(t, name, wrong.Optimizer)
	}
}

// A step that fails, wherever that is, leaves everything as it was and may be called again, but for the copies at its end.
func TestComposedStep_ThatFailsChangesNothing(t *testing.T) {
	for name, make := range composedKinds {
		dev := sim.New(1 << 30)
		e, err := tensor.On(dev, tensor.WithAllocator(memory.NewDirect(dev)))
		require.NoError(t, err)
		ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
		for i, p := range ps {
			setGradient(t, e, p, 1, i)
		}
		failed := 0
		for nth := 1; ; nth++ {
			opt := make(ps)
			dev.FailNext(sim.CallMalloc, nth, memory.ErrOutOfMemory)
			versions := []uint32{ps[0].Tensor().Version(), ps[1].Tensor().Version()}
			held := e.Allocator().Stats().AllocatedBytes.All.Current - int64(opt.StateBytes())
			err := opt.Step()
			require.Equal(t, held, e.Allocator().Stats().AllocatedBytes.All.Current-int64(opt.StateBytes()), "%s %d", name, nth)
			if err == nil {
				for _, s := range dictOf(t, opt).State {
					require.Equal(t, 1, s.Step)
				}
				opt.Release()
				break
			}
			require.ErrorIs(t, err, memory.ErrOutOfMemory)
			require.ErrorContains(t, err, "optim: "+name)
			require.Empty(t, dictOf(t, opt).State, "no step was taken")
			require.Equal(t, versions, []uint32{ps[0].Tensor().Version(), ps[1].Tensor().Version()})
			opt.Release()
			failed++
		}
		require.GreaterOrEqual(t, failed, 4, name)
	}
}

func TestComposedStep_KeepsNoMemoryWhenALaunchFails(t *testing.T) {
	for _, make := range composedKinds {
		dev := sim.New(1 << 30)
		e, err := tensor.On(dev, tensor.WithAllocator(memory.NewDirect(dev)))
		require.NoError(t, err)
		ps := params{param(t, e, 0, 3, tensor.BFloat16), param(t, e, 1, 5, tensor.Float32)}
		one, err := tensor.Ones(e, tensor.Float32)
		require.NoError(t, err)
		for i, p := range ps {
			setGradient(t, e, p, 1, i)
		}
		base := e.Allocator().Stats().AllocatedBytes.All.Current
		failed := 0
		for nth := 1; ; nth++ {
			opt := make(ps)
			dev.FailNext(sim.CallSubmit, nth, device.ErrOutOfMemory)
			err := opt.StepScaled(one, nil)
			opt.Release()
			require.Equal(t, base, e.Allocator().Stats().AllocatedBytes.All.Current)
			if err == nil {
				break
			}
			failed++
		}
		require.Positive(t, failed)
		one.Release()
	}
}

// A step with a scale is that of gradients which were divided by it.
func TestComposedStep_DividesGradientsByTheScale(t *testing.T) {
	e, _ := newExec(t, host.New())
	scale, err := tensor.Full(e, 8, tensor.Float32)
	require.NoError(t, err)
	defer scale.Release()
	for name, make := range composedKinds {
		want, got := param(t, e, 0, 5, tensor.Float32), param(t, e, 0, 5, tensor.Float32)
		a, b := make(params{want}), make(params{got})
		for step := 1; step <= 3; step++ {
			setGradient(t, e, want, step, 0)
			setGradient(t, e, got, step, 0)
			require.NoError(t, got.Grad().MulScalarInPlace(8))
			before := floats(t, got.Grad())
			require.NoError(t, a.Step())
			require.NoError(t, b.StepScaled(scale, nil))
			require.Equal(t, before, floats(t, got.Grad()), "the gradient stays as it is")
		}
		require.Equal(t, floats(t, want.Tensor()), floats(t, got.Tensor()), name)
		a.Release()
		b.Release()
	}
}

// The average is that of the values after steps from T0 on.
func TestASGD_Averages(t *testing.T) {
	e, _ := newExec(t, host.New())
	p := param(t, e, 0, 3, tensor.Float64)
	opt := optim.ASGD(params{p}, optim.LR(0.1), optim.T0(1))
	defer opt.Release()
	sum := make([]float64, 3)
	for step := 1; step <= 6; step++ {
		setGradient(t, e, p, step, 0)
		require.NoError(t, opt.Step())
		for i, v := range floats(t, p.Tensor()) {
			if step >= 3 { // weights are 1, 1, 1, 1/2, 1/3, 1/4
				sum[i] += v / 4
			}
		}
	}
	for i, got := range floats(t, dictOf(t, opt).State[0].Tensors["ax"]) {
		require.InDelta(t, sum[i], got, 1e-12)
	}
}

func TestRprop_AndAdadelta_RefuseSettings(t *testing.T) {
	for name, opt := range map[string]*optim.Grouped{
		"rho": optim.Adadelta(nil, optim.Rho(1.5)), "NaN": optim.Adadelta(nil, optim.Rho(math.NaN())),
		"etas": optim.Rprop(nil, optim.Etas(0.5, 0.9)), "sizes": optim.Rprop(nil, optim.StepSizes(2, 1)),
		"lambd": optim.ASGD(nil, optim.Lambd(-1)), "decay": optim.NAdam(nil, optim.MomentumDecay(-1)), "betas": optim.RAdam(nil, optim.Betas(1, 0.9)),
	} {
		require.ErrorIs(t, opt.Err(), optim.ErrInvalid, name)
	}
	require.ErrorContains(t, optim.Adam(nil, optim.Etas(0.1, 2)).Err(), "it has no option Etas")
	require.ErrorContains(t, optim.Adam(nil, optim.StepSizes(0.1, 2)).Err(), "it has no option StepSizes")
}

func TestMuon_WithoutMemoryChangesNothing(t *testing.T) {
	dev := sim.New(1 << 30)
	e, err := tensor.On(dev, tensor.WithAllocator(memory.NewDirect(dev)))
	require.NoError(t, err)
	ps := params{matrix(t, e, 0, 3, 5, tensor.Float32), matrix(t, e, 1, 5, 3, tensor.BFloat16)}
	for i, p := range ps {
		setMatrixGradient(t, e, p, 1, i)
	}
	base := e.Allocator().Stats().AllocatedBytes.All.Current
	failed := 0
	for nth := 1; ; nth++ {
		opt := optim.Muon(ps)
		versions := []uint32{ps[0].Tensor().Version(), ps[1].Tensor().Version()}
		dev.FailNext(sim.CallMalloc, nth, memory.ErrOutOfMemory)
		err := opt.Step()
		opt.Release()
		require.Equal(t, base, e.Allocator().Stats().AllocatedBytes.All.Current)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.Equal(t, versions, []uint32{ps[0].Tensor().Version(), ps[1].Tensor().Version()})
		failed++
	}
	require.Greater(t, failed, 20)
}
