package amp_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// silent are the kinds of calls that only frees make, whose failure has nobody to tell: the allocator tries again.
var silent = []sim.CallKind{sim.CallFree, sim.CallStreamSync, sim.CallEventQuery, sim.CallEventSync}

// The nth call of the driver fails, whatever its kind, in an iteration with autocast, scaling, a step and all changes of the scale: the
// error comes out, and nothing is kept.
func TestScaling_FailsAtEveryCallAndLosesNothing(t *testing.T) {
	for name, fused := range map[string]bool{"fused": true, "not fused": false} {
		t.Run(name, func(t *testing.T) {
			r := newFaultRig(t, fused)
			base, nth := r.allocated(), 1
			for r.failNth(nth, base) {
				nth++
			}
			require.Greater(t, nth, 50)
		})
	}
}

// held is the bytes of the gradients and of the scaler.
func (r *faultRig) held() (bytes int64) {
	all := r.scaler.Held()
	for _, p := range r.params {
		all = append(all, p.Grad())
	}
	for _, x := range all {
		bytes += int64(x.StorageBytes())
	}
	return bytes
}

// failNth runs one iteration, and reports whether it made as many calls.
func (r *faultRig) failNth(nth int, base int64) bool {
	injected, calls, kind := errors.New("injected"), 0, sim.CallKind(0)
	r.dev.Inject(func(c sim.Call) error {
		if calls++; calls == nth {
			kind = c.Kind
			return injected
		}
		return nil
	})
	err := r.iteration()
	r.dev.Inject(nil)
	require.NoError(r.t, r.alloc.EmptyCache(), "what could not be freed then is freed now")
	held := base + r.held()
	const state = 2 * (2*8*8*4 + 8) // of AdamW: two buffers for each parameter, and a counter in float64 if it is fused
	require.LessOrEqual(r.t, r.allocated(), held+state, "call %d, %s: what is in use, and no more", nth, kind)
	r.opt.Release()
	require.Equal(r.t, held, r.allocated(), "call %d, %s: gradients and the scaler are left", nth, kind)
	r.opt.ZeroGrad()
	r.scaler.Release()
	require.NoError(r.t, r.alloc.EmptyCache())
	require.Equal(r.t, base, r.allocated(), "call %d, %s: the parameters are left", nth, kind)
	if calls >= nth && !slices.Contains(silent, kind) {
		require.ErrorIs(r.t, err, injected, "call %d, %s", nth, kind)
	} else {
		require.NoError(r.t, err, "call %d, %s", nth, kind)
	}
	return calls >= nth
}
