package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
	"github.com/cistern-ml/cistern/tensor"
)

// leaks are tests of the functions that give something else than one tensor, which samples do not have: an allocation or a call of the
// device fails at each place in turn.
type leaks struct {
	t     *testing.T
	bench bench
	alloc *faulty
	dev   *sim.Device
	far   bench // on another device
}

func newLeaks(t *testing.T) *leaks {
	l := &leaks{t: t}
	l.bench, l.alloc, l.dev = onFaulty(t)
	l.far, _ = onZeros(t)
	t.Cleanup(func() { require.NoError(t, memory.Drop(l.dev)) }) // the pool of pinned memory
	return l
}

// zeros is a float32 tensor whose strides are not those of a contiguous one, if it has several dimensions.
func (l *leaks) zeros(shape ...int) *tensor.Tensor {
	n := len(shape)
	if n < 2 {
		return must(l.t)(tensor.Zeros(l.bench.Exec, tensor.Float32, shape...))
	}
	shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
	return must(l.t)(must(l.t)(tensor.Zeros(l.bench.Exec, tensor.Float32, shape...)).Transpose(-2, -1))
}

// held is the memory that is in use, of both devices and pinned.
func (l *leaks) held() [3]int64 {
	pool, err := pinned.For(l.dev)
	require.NoError(l.t, err)
	require.NoError(l.t, pool.EmptyCache()) // sees that the copies have been made
	return [3]int64{l.bench.allocated(), l.far.allocated(), pool.Stats().ActiveBytes.Current}
}

// check fails run at every place until it succeeds. It returns how often it failed.
func (l *leaks) check(run func() (release func(), err error)) (failures int) {
	l.t.Helper()
	before := l.held()
	for _, inject := range []func(at int){
		func(at int) { l.alloc.calls, l.alloc.failAt = 0, at },
		func(at int) {
			if l.dev.Inject(nil); at > 0 {
				l.dev.Inject((&countdown{failAt: at}).fault)
			}
		},
	} {
		for at := 1; ; at++ {
			inject(at)
			release, err := run()
			inject(0)
			if err == nil {
				release()
				require.Equal(l.t, before, l.held(), "temporaries")
				break
			}
			failures++
			require.Equal(l.t, before, l.held(), "failure %d: %v", at, err)
			require.Less(l.t, at, 1000, "fails without a fault: %v", err)
		}
	}
	return failures
}

// single and nothing are runs with one tensor for a result, and without.
func single(f func() (*tensor.Tensor, error)) func() (func(), error) {
	return func() (func(), error) { x, err := f(); return x.Release, err }
}

func nothing(f func() error) func() (func(), error) {
	return func() (func(), error) { return func() {}, f() }
}

func TestFunctionsWithoutSamples_KeepNoMemoryWhereverTheyFail(t *testing.T) {
	for name, c := range map[string]struct {
		places int // at which it can fail, at least
		run    func(l *leaks) func() (func(), error)
	}{
		"ToDevice": {3, func(l *leaks) func() (func(), error) {
			x := l.zeros(2, 3)
			return single(func() (*tensor.Tensor, error) { return x.ToDevice(l.far.Exec) })
		}},
		"ToDevice, to where calls fail": {2, func(l *leaks) func() (func(), error) {
			x := must(l.t)(tensor.Zeros(l.far.Exec, tensor.Float32, 2, 3))
			return single(func() (*tensor.Tensor, error) { return x.ToDevice(l.bench.Exec) })
		}},
		"ToSlice": {3, func(l *leaks) func() (func(), error) {
			x := l.zeros(2, 3)
			return nothing(func() error { _, err := tensor.ToSlice[float32](x); return err })
		}},
		"CopyFromSlice": {3, func(l *leaks) func() (func(), error) {
			x := l.zeros(2, 3)
			return nothing(func() error { return tensor.CopyFromSlice(x, make([]float32, 6)) })
		}},
		"CopyToHost":         {3, func(l *leaks) func() (func(), error) { return l.hostCopy(false) }},
		"CopyToHost, pinned": {3, func(l *leaks) func() (func(), error) { return l.hostCopy(true) }},
		"HostCopy.Tensor": {2, func(l *leaks) func() (func(), error) {
			h, err := l.zeros(2, 3).CopyToHost(false)
			require.NoError(l.t, err)
			return single(func() (*tensor.Tensor, error) { return h.Tensor(l.bench.Exec) })
		}},
		"HostCopy.Tensor, pinned": {2, func(l *leaks) func() (func(), error) {
			h, err := l.zeros(2, 3).CopyToHost(true)
			require.NoError(l.t, err)
			l.t.Cleanup(h.Release)
			return single(func() (*tensor.Tensor, error) { return h.Tensor(l.bench.Exec) })
		}},
		"BatchNormTraining": {7, func(l *leaks) func() (func(), error) {
			x, mean, variance, w := l.zeros(4, 3), l.zeros(3), l.zeros(3), l.zeros(3)
			return func() (func(), error) {
				out, m, err := tensor.BatchNormTraining(x, mean, variance, w, w, 0.1, 1e-5)
				return func() { out.Release(); m.Release() }, err
			}
		}},
		"LSTM":         {8, func(l *leaks) func() (func(), error) { return l.recurrent(false) }},
		"GRU":          {8, func(l *leaks) func() (func(), error) { return l.recurrent(true) }},
		"LSTMBackward": {14, func(l *leaks) func() (func(), error) { return l.recurrentGrad(false) }},
		"GRUBackward":  {14, func(l *leaks) func() (func(), error) { return l.recurrentGrad(true) }},
		"GradNorm": {4, func(l *leaks) func() (func(), error) {
			x := l.zeros(2, 3)
			return single(func() (*tensor.Tensor, error) { return steps.GradNorm(l.bench.Exec, tensors{x}, 2) })
		}},
		"ClipGradNorm": {3, func(l *leaks) func() (func(), error) {
			x, norm := l.zeros(2, 3), must(l.t)(tensor.Zeros(l.bench.Exec, tensor.Float64))
			return nothing(func() error { return steps.ClipGradNorm(tensors{x}, norm, 1, false) })
		}},
		"ClipGradValue": {3, func(l *leaks) func() (func(), error) {
			x := l.zeros(2, 3)
			return nothing(func() error { return steps.ClipGradValue(l.bench.Exec, tensors{x}, 1) })
		}},
		"AmpUnscale": {3, func(l *leaks) func() (func(), error) {
			x, found, inv := l.zeros(2, 3), l.zeros(), l.zeros()
			return nothing(func() error { return steps.Unscale(tensors{x}, found, inv) })
		}},
		"SGDStep": {3, func(l *leaks) func() (func(), error) {
			x, g := must(l.t)(tensor.Zeros(l.bench.Exec, tensor.Float32, 2, 3)), l.zeros(2, 3)
			return nothing(func() error { return steps.SGD(tensors{x}, tensors{g}, nil, training.SGD{LR: 1}, guard{}) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaks(t)
			require.GreaterOrEqual(t, l.check(c.run(l)), c.places)
		})
	}
}

func (l *leaks) hostCopy(pinned bool) func() (func(), error) {
	x := l.zeros(2, 3)
	return func() (func(), error) { h, err := x.CopyToHost(pinned); return h.Release, err }
}

func (l *leaks) layer(gru bool) *tensor.Recurrent {
	return recurrentLayer(l.t, l.bench, gru, 3, 2, 4, 5, l.zeros)
}

func (l *leaks) recurrent(gru bool) func() (func(), error) {
	r := l.layer(gru)
	return func() (func(), error) { s, err := r.Forward(true); return s.Release, err }
}

func (l *leaks) recurrentGrad(gru bool) func() (func(), error) {
	r, grad := l.layer(gru), l.zeros(3, 2, 5)
	s, err := r.Forward(true)
	require.NoError(l.t, err)
	l.t.Cleanup(s.Release)
	wants := training.Wants{X: true, WeightIH: true, WeightHH: true, Bias: true}
	return func() (func(), error) {
		g, err := gradients.Recurrent(r, s, grad, r.H0, nil, wants, false)
		return g.Release, err
	}
}
