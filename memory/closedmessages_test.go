package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// What Close and Drop free under their users is told as that, of all allocators.
func TestRecordStream_AfterClose_SaysThatTheAllocatorWasClosed(t *testing.T) {
	dev := sim.New(gib)
	other, err := dev.NewStream()
	require.NoError(t, err)
	caching, err := New(dev, Config{})
	require.NoError(t, err)
	async, err := NewAsync(ordered{dev}, Config{})
	require.NoError(t, err)
	for _, a := range []Allocator{caching, async, NewDirect(dev)} {
		h, err := a.Alloc(512, dev.DefaultStream())
		require.NoError(t, err)
		err = a.Close()
		require.ErrorIs(t, err, ErrLeak)
		require.NotContains(t, err.Error(), "Close on")
		err = a.RecordStream(h, other)
		require.ErrorIs(t, err, device.ErrClosed, "%T", a)
		require.ErrorIs(t, err, ErrUseAfterFree)
		require.ErrorContains(t, err, "its allocator was closed (Close or Drop)")
	}
	require.NoError(t, other.Close())
	require.NoError(t, dev.Close())
}

// A hint names what has set the limit.
func TestOOM_HintNamesTheSettingOfTheLimit(t *testing.T) {
	r := newRig(t, gib, "")
	r.a.SetMemoryLimit(50 * mib)
	_, err := r.tryAlloc(60*mib, 0)
	require.Equal(t, "The device has the memory: a limit of 60.00 MiB would have been enough for this allocation (SetMemoryLimit). What follows may need more.", requireOOM(t, err, ErrLimit).Hint)
	require.NoError(t, r.a.SetMemoryFraction(0.03125))
	_, err = r.tryAlloc(60*mib, 0)
	require.Contains(t, requireOOM(t, err, ErrLimit).Hint, "for this allocation (per_process_memory_fraction, SetMemoryFraction: ")
}
