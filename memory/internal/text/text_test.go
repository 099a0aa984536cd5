package text

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestBytes_LimitsPrintInTheSmallerUnit(t *testing.T) {
	for n, want := range map[uint64]string{
		0:            "0 bytes",
		1:            "1 bytes",
		1024:         "1024 bytes",
		1025:         "1.00 KiB",
		1536:         "1.50 KiB",
		mib:          "1024.00 KiB",
		mib + 1:      "1.00 MiB",
		20 * mib:     "20.00 MiB",
		gib:          "1024.00 MiB",
		gib + 1:      "1.00 GiB",
		1 << 50:      "1048576.00 GiB",
		gib + gib/50: "1.02 GiB",
	} {
		require.Equal(t, want, Bytes(n), "%d", n)
	}
}

func TestNoDevice_KnowsNilPointersAndZeroValues(t *testing.T) {
	require.True(t, NoDevice(nil))
	require.True(t, NoDevice((*sim.Device)(nil)))
	require.True(t, NoDevice(new(sim.Device)))
	require.False(t, NoDevice(sim.New(1)))
}

func TestAllocator_SaysThatItIsClosed(t *testing.T) {
	var closed atomic.Bool
	late := errors.New("late")
	require.Equal(t, late, UsedLate(&closed, late))
	id := device.ID{Kind: device.CUDA, Index: 1}
	require.Equal(t, fmt.Sprintf("pool of %s", id), Allocator("pool", id, &closed))
	closed.Store(true)
	require.Equal(t, fmt.Sprintf("pool of %s, closed", id), Allocator("pool", id, &closed))
	require.ErrorIs(t, UsedLate(&closed, late), late)
	require.ErrorIs(t, UsedLate(&closed, late), device.ErrClosed)
}
