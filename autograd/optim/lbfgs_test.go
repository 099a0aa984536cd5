package optim_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// landscapes are the functions of testdata/lbfgs.py, with their gradients.
var landscapes = map[string]func(x, grad []float64) float64{
	"valley": func(x, grad []float64) (loss float64) {
		for i := range len(x) - 1 {
			rise, rest := x[i+1]-x[i]*x[i], 1-x[i]
			loss += 100*rise*rise + rest*rest
			grad[i] += -400*rise*x[i] - 2*rest
			grad[i+1] += 200 * rise
		}
		return loss
	},
	"bowl": func(x, grad []float64) (loss float64) {
		for i, v := range x {
			k := float64(i + 1)
			loss += k*(v-1)*(v-1)/2 + v*v*v*v/4
			grad[i] = k*(v-1) + v*v*v
		}
		return loss
	},
}

// walk is LBFGS on a landscape.
type walk struct {
	t       *testing.T
	e       tensor.Exec
	ps      params
	f       func(x, grad []float64) float64
	failing int // the call that fails
	calls   int
}

var errLost = errors.New("lost")

func newWalk(t *testing.T, e tensor.Exec, landscape string, dt tensor.DType) *walk {
	w := &walk{t: t, e: e, f: landscapes[landscape]}
	w.add(dt, []float64{-1.2, 1}, 2)
	w.add(dt, []float64{0.5, -0.7, 1.1}, 3, 1)
	return w
}

func (w *walk) tensor(dt tensor.DType, values []float64, shape ...int) *tensor.Tensor {
	wide, err := tensor.FromSlice(w.e, values, shape...)
	require.NoError(w.t, err)
	defer wide.Release()
	x, err := wide.To(dt)
	require.NoError(w.t, err)
	return x
}

func (w *walk) add(dt tensor.DType, values []float64, shape ...int) {
	p := autograd.NewParameter("p", w.tensor(dt, values, shape...))
	w.t.Cleanup(p.Release)
	w.ps = append(w.ps, p)
}

func (w *walk) at() (x []float64) {
	for _, p := range w.ps {
		x = append(x, floats(w.t, p.Tensor())...)
	}
	return x
}

func (w *walk) closure() (float64, error) {
	if w.calls++; w.calls == w.failing {
		return 0, errLost
	}
	x := w.at()
	grad := make([]float64, len(x))
	loss := w.f(x, grad)
	for _, p := range w.ps {
		if err := p.SetGrad(w.tensor(p.Tensor().DType(), grad[:p.Len()], p.Shape()...)); err != nil {
			return 0, err
		}
		grad = grad[p.Len():]
	}
	return loss, nil
}

var lbfgsCases = map[string][]optim.Option{
	"valley wolfe": {optim.MaxIter(5), optim.StrongWolfe()},
	"valley wolfe short history": {optim.LR(0.5), optim.MaxIter(4), optim.HistorySize(3),
		optim.StrongWolfe()},
	"valley":               {optim.LR(0.05), optim.MaxIter(3)},
	"bowl":                 {optim.LR(0.8), optim.MaxIter(4)},
	"bowl to the end":      nil,
	"bowl few evaluations": {optim.LR(0.5), optim.MaxIter(9), optim.MaxEval(3)},
	"bowl tolerance": {optim.MaxIter(3), optim.ToleranceGrad(1e-2), optim.ToleranceChange(1e-3),
		optim.StrongWolfe()},
}

// landscapeOf is the first word.
func landscapeOf(name string) string {
	if name[0] == 'v' {
		return "valley"
	}
	return "bowl"
}

func TestLBFGS_GivesTheNumbersOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/lbfgs.json")
	require.NoError(t, err)
	var golden []struct {
		Name, DType string
		Rows        [][]float64
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden, len(lbfgsCases)+2)
	for _, want := range golden {
		t.Run(want.Name+" "+want.DType, func(t *testing.T) {
			dt, tolerance := tensor.Float64, 1e-8
			if want.DType == "float32" {
				dt, tolerance = tensor.Float32, 1e-4
			}
			e, _ := newExec(t, host.New())
			w := newWalk(t, e, landscapeOf(want.Name), dt)
			opt := optim.LBFGS(w.ps, lbfgsCases[want.Name]...)
			defer opt.Release()
			for step, row := range want.Rows {
				loss, err := opt.StepClosure(w.closure)
				require.NoError(t, err)
				if dt == tensor.Float32 {
					row[1] = float64(w.calls) // the losses there are float64, so that it ends at another time
				}
				for k, got := range append([]float64{loss, float64(w.calls)}, w.at()...) {
					require.InDelta(t, row[k], got, tolerance*max(1, math.Abs(row[k])), "step %d, column %d", step, k)
				}
			}
		})
	}
}

func TestLBFGS_StateGoesOnBitForBit(t *testing.T) {
	e, alloc := newExec(t, host.New())
	whole, part := newWalk(t, e, "valley", tensor.Float64), newWalk(t, e, "valley", tensor.Float64)
	opts := lbfgsCases["valley wolfe short history"]
	a, b := optim.LBFGS(whole.ps, opts...), optim.LBFGS(part.ps, opts...)
	defer a.Release()
	defer b.Release()
	empty, err := a.StateDict()
	require.NoError(t, err)
	require.NoError(t, b.LoadStateDict(empty))
	a.SetClosure(whole.closure)
	for range 3 {
		require.NoError(t, a.Step())
	}
	for i, p := range part.ps {
		require.NoError(t, p.Tensor().CopyFrom(whole.ps[i].Tensor()))
	}
	d, err := a.StateDict()
	require.NoError(t, err)
	require.Len(t, d.State[0].Tensors, 2+2*3)
	require.NoError(t, b.LoadStateDict(throughJSON(t, d)))
	require.Equal(t, a.StateBytes(), b.StateBytes())
	for range 2 {
		require.NoError(t, a.Step())
		_, err := b.StepClosure(part.closure)
		require.NoError(t, err)
	}
	require.Equal(t, whole.at(), part.at())

	held := alloc.Stats().AllocatedBytes.All.Current
	for name, spoil := range map[string]func(d *optim.StateDict){
		"kind":       func(d *optim.StateDict) { d.Optimizer = "Adam" },
		"groups":     func(d *optim.StateDict) { d.Groups = nil },
		"parameters": func(d *optim.StateDict) { d.Groups[0]["params"] = []int{0} },
		"no lr":      func(d *optim.StateDict) { delete(d.Groups[0], "lr") },
		"iterations": func(d *optim.StateDict) { d.Groups[0]["max_iter"] = 1.5 },
		"history":    func(d *optim.StateDict) { d.Groups[0]["history_size"] = 2 },
		"no numbers": func(d *optim.StateDict) { delete(d.Groups[0], "lbfgs") },
		"tensors":    func(d *optim.StateDict) { d.State = nil },
		"a tensor": func(d *optim.StateDict) {
			d.State[0].Tensors["old_stps.2"] = whole.ps[0].Tensor()
		},
	} {
		d, err := a.StateDict()
		require.NoError(t, err)
		d = throughJSON(t, d)
		spoil(&d)
		var wrong *optim.StateError
		require.ErrorAs(t, b.LoadStateDict(d), &wrong, name)
		require.Equal(t, held, alloc.Stats().AllocatedBytes.All.Current, name)
	}
}

// A closure that fails, at whatever call, leaves parameters and state as they were.
func TestLBFGS_AnErrorChangesNothing(t *testing.T) {
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, inner.Close()) })
	for _, opts := range [][]optim.Option{{optim.StrongWolfe(), optim.MaxIter(4)}, {optim.LR(0.01), optim.MaxIter(4)}} {
		failed := 0
		for nth := 1; ; nth++ {
			e, err := tensor.On(dev, tensor.WithAllocator(inner))
			require.NoError(t, err)
			w := newWalk(t, e, "valley", tensor.Float64)
			opt := optim.LBFGS(w.ps, opts...)
			_, err = opt.StepClosure(w.closure)
			require.NoError(t, err)
			before, d := w.at(), dictText(t, opt)
			calls := w.calls
			w.failing = calls + nth
			held := opt.StateBytes()
			loss, err := opt.StepClosure(w.closure)
			release := func() {
				opt.Release()
				for _, p := range w.ps {
					p.ZeroGrad()
					p.Release()
				}
			}
			if err == nil {
				release()
				break
			}
			failed++
			require.ErrorIs(t, err, errLost)
			require.ErrorContains(t, err, "optim: LBFGS")
			require.Zero(t, loss)
			require.Equal(t, before, w.at())
			require.Equal(t, d, dictText(t, opt))
			require.Equal(t, held, opt.StateBytes())
			release()
			require.Zero(t, opt.StateBytes())
			require.Zero(t, inner.Stats().AllocatedBytes.All.Current)
		}
		require.GreaterOrEqual(t, failed, 3)
	}
}

func dictText(t *testing.T, opt *optim.LBFGSOptimizer) string {
	t.Helper()
	d, err := opt.StateDict()
	require.NoError(t, err)
	text, err := json.Marshal(d.Groups)
	require.NoError(t, err)
	for _, name := range []string{"d", "prev_flat_grad"} {
		more, err := json.Marshal(floats(t, d.State[0].Tensors[name]))
		require.NoError(t, err)
		text = append(text, more...)
	}
	return string(text)
}

func TestLBFGS_RefusesWhatItCannotDo(t *testing.T) {
	e, _ := newExec(t, host.New())
	w := newWalk(t, e, "bowl", tensor.Float32)
	var wrong *optim.ConfigError
	for name, opt := range map[string]*optim.LBFGSOptimizer{
		"momentum": optim.LBFGS(w.ps, optim.Momentum(0.9)), "capture": optim.LBFGS(w.ps, optim.Capturable()),
		"iterations": optim.LBFGS(w.ps, optim.MaxIter(0)), "history": optim.LBFGS(w.ps, optim.HistorySize(-1)),
		"rate": optim.LBFGS(w.ps, optim.LR(math.NaN())), "tolerance": optim.LBFGS(w.ps, optim.ToleranceGrad(-1)),
		"twice": optim.LBFGS(append(w.ps, w.ps...)), "nil": optim.LBFGS(params{nil}), "none": optim.LBFGS(nil), "no optimizer": nil,
	} {
		_, err := opt.StepClosure(w.closure)
		require.ErrorAs(t, err, &wrong, name)
	}
	require.ErrorAs(t, optim.LBFGS(w.ps).Step(), &wrong)
	require.ErrorContains(t, wrong, "closure")
	require.ErrorContains(t, optim.Adam(nil, optim.MaxIter(3)).Err(), "it has no option MaxIter")

	mixed := optim.LBFGS(append(params{param(t, e, 0, 2, tensor.Float64)}, w.ps...))
	_, err := mixed.StepClosure(w.closure)
	var types *tensor.DTypeError
	require.ErrorAs(t, err, &types)
}

func TestLBFGS_IsDrivenBySchedules(t *testing.T) {
	opt := optim.LBFGS(nil, optim.LR(0.5))
	s := optim.StepLR(opt, 1, 0.5)
	require.NoError(t, s.Step())
	require.InDelta(t, 0.25, opt.LR(0), 0)
	require.Equal(t, "LBFGS: 0 parameters, lr 0.25, 0 iterations so far", opt.String())
	opt.SetLR(1, 1)
	require.ErrorIs(t, opt.Err(), optim.ErrInvalid)
}

// lacking is an allocator that fails once it is asked to.
type lacking struct {
	memory.Allocator
	calls, failAt int
}

func (a *lacking) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if a.calls++; a.calls == a.failAt {
		return memory.Block{}, &memory.OOMError{Requested: bytes}
	}
	return a.Allocator.Alloc(bytes, s)
}

// Memory that is missing, wherever that is, does too.
func TestLBFGS_WithoutMemoryChangesNothing(t *testing.T) {
	dev := host.New()
	inner, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	a := &lacking{Allocator: inner}
	e, err := tensor.On(dev, tensor.WithAllocator(a))
	require.NoError(t, err)
	for _, o := range []optim.Option{optim.StrongWolfe(), optim.LR(0.01)} {
		failed := 0
		for nth := 1; ; nth++ {
			w := newWalk(t, e, "valley", tensor.Float64)
			lacks := func() (float64, error) { // the closure's own memory is there
				at := a.failAt
				a.failAt = 0
				calls := a.calls
				loss, err := w.closure()
				a.failAt, a.calls = at, calls
				return loss, err
			}
			opt := optim.LBFGS(w.ps, o, optim.MaxIter(4), optim.HistorySize(2))
			_, err = opt.StepClosure(w.closure)
			require.NoError(t, err)
			before, d, held := w.at(), dictText(t, opt), inner.Stats().AllocatedBytes.All.Current
			a.calls, a.failAt = 0, nth
			_, err = opt.StepClosure(lacks)
			a.failAt = 0
			if err != nil {
				require.ErrorIs(t, err, memory.ErrOutOfMemory)
				require.Equal(t, before, w.at())
				require.Equal(t, d, dictText(t, opt))
				require.Equal(t, held, inner.Stats().AllocatedBytes.All.Current, "allocation %d", nth)
				failed++
			}
			opt.Release()
			for _, p := range w.ps {
				p.ZeroGrad()
				p.Release()
			}
			require.Zero(t, inner.Stats().AllocatedBytes.All.Current, "allocation %d", nth)
			if err == nil {
				break
			}
		}
		require.Greater(t, failed, 20)
	}
	require.NoError(t, inner.Close())
	require.NoError(t, dev.Close())
}
