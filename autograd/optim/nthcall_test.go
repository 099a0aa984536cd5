package optim_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// place is a simulated device whose allocator has no cache, so that each allocation is a call too.
type place struct {
	dev   *sim.Device
	alloc memory.Allocator
	exec  tensor.Exec
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{dev: sim.New(1 << 30)}
	p.alloc = memory.NewDirect(p.dev)
	e, err := tensor.On(p.dev, tensor.WithAllocator(p.alloc))
	require.NoError(t, err)
	p.exec = e
	t.Cleanup(func() { require.NoError(t, p.dev.Close()) })
	return p
}

func (p place) allocated() int64 { return p.alloc.Stats().AllocatedBytes.All.Current }

// silent are the kinds of calls that only frees make, whose failure has nobody to tell: the allocator tries again.
var silent = []sim.CallKind{sim.CallFree, sim.CallStreamSync, sim.CallEventQuery, sim.CallEventSync}

// failEach has each driver call that f makes on some place fail once. f starts anew each time, and undo takes away what it is to leave where
// it succeeds; where it fails it is to leave nothing.
func failEach(t *testing.T, places []place, f func() error, undo func()) (failures int) {
	t.Helper()
	injected := errors.New("injected")
	for nth := 1; ; nth++ {
		var base, kept []int64
		calls, kind := 0, sim.CallKind(0)
		for _, p := range places {
			base = append(base, p.allocated())
			p.dev.Inject(func(c sim.Call) error {
				if calls++; calls == nth {
					kind = c.Kind
					return injected
				}
				return nil
			})
		}
		err := f()
		for _, p := range places {
			p.dev.Inject(nil)
			require.NoError(t, p.alloc.EmptyCache())
			kept = append(kept, p.allocated())
		}
		if calls < nth {
			require.NoError(t, err)
			undo()
			return nth - 1
		}
		if slices.Contains(silent, kind) {
			require.NoError(t, err)
			undo()
			continue
		}
		require.ErrorIs(t, err, injected, "call %d, %s", nth, kind)
		require.Equal(t, base, kept, "call %d, %s", nth, kind)
	}
}

// The decision about a step is copied to each device that has parameters; the half of it that is there goes when the rest does not come.
func TestStepScaled_FailsAtEveryCallOnSeveralDevices(t *testing.T) {
	here, there := newPlace(t), newPlace(t)
	scale, err := tensor.Ones(here.exec, tensor.Float32)
	require.NoError(t, err)
	defer scale.Release()
	found, err := tensor.Zeros(here.exec, tensor.Float32)
	require.NoError(t, err)
	defer found.Release()
	p := param(t, there.exec, 0, 3, tensor.Float32)
	setGradient(t, there.exec, p, 1, 0)
	opt := optim.SGD([]*autograd.Parameter{p})
	defer opt.Release()
	failures := failEach(t, []place{here, there}, func() error { return opt.StepScaled(scale, found) }, func() {})
	require.Greater(t, failures, 4)
}

// A state that cannot be copied wholly is not loaded at all.
func TestLoadStateDict_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	here, there := newPlace(t), newPlace(t)
	from := optim.AdamW([]*autograd.Parameter{param(t, here.exec, 0, 3, tensor.Float32), param(t, here.exec, 1, 2, tensor.Float32)})
	defer from.Release()
	for i, p := range from.Parameters() {
		setGradient(t, here.exec, p, 1, i)
	}
	require.NoError(t, from.Step())
	d := dictOf(t, from)
	for _, at := range []place{here, there} {
		to := optim.AdamW([]*autograd.Parameter{param(t, at.exec, 0, 3, tensor.Float32), param(t, at.exec, 1, 2, tensor.Float32)})
		require.Greater(t, failEach(t, []place{here, there}, func() error { return to.LoadStateDict(d) }, to.Release), 4)
	}
}
