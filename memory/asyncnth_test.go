package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/memory"
)

// Whatever call of the driver fails while a block is freed, Free says so, the block stays allocated, and a second Free gives it back.
func TestAsync_FreeReturnsEveryErrorOfTheDriverAndKeepsTheBlock(t *testing.T) {
	path := fakecuda.Build(t)
	driver := fakecuda.Open(t, path)
	for _, recorded := range []bool{false, true} {
		for nth, more := 1, true; more; nth++ {
			what := fmt.Sprintf("call %d fails; recorded on another stream: %v", nth, recorded)
			driver.Reset()
			devices, err := cuda.OpenLibrary(path)
			require.NoError(t, err)
			d := devices[0]
			a, err := memory.NewAsync(d, memory.Config{})
			require.NoError(t, err)
			one, err := d.NewStream()
			require.NoError(t, err)
			other, err := d.NewStream()
			require.NoError(t, err)
			b, err := a.Alloc(3*device.MiB, one)
			require.NoError(t, err)
			if recorded {
				require.NoError(t, a.RecordStream(b, other))
			}
			live := a.Stats().AllocatedBytes.All.Current // asks the driver, too
			before := driver.Total()
			driver.Fail("*", nth, 999)
			err = a.Free(b)
			more = driver.Total()-before >= nth
			driver.ClearFaults()
			if more {
				var failed *device.Error
				require.ErrorAs(t, err, &failed, what)
				require.Equal(t, live, a.Stats().AllocatedBytes.All.Current, what)
				err = a.Free(b)
			}
			require.NoError(t, err, what)
			require.Zero(t, a.Stats().AllocatedBytes.All.Current, what)
			require.NoError(t, a.Close(), what)
			require.NoError(t, d.Close(), what)
			require.Empty(t, driver.Leaks(), what)
		}
	}
}

// ResetPeakStats is for what comes: the peaks of the pool, which the driver keeps, begin anew with those of the blocks.
func TestAsync_ResetPeakStatsAlsoThatOfThePool(t *testing.T) {
	path := fakecuda.Build(t)
	driver := fakecuda.Open(t, path)
	driver.Reset()
	devices, err := cuda.OpenLibrary(path)
	require.NoError(t, err)
	d := devices[0]
	a, err := memory.NewAsync(d, memory.Config{})
	require.NoError(t, err)
	b, err := a.Alloc(64*device.MiB, d.DefaultStream())
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	require.NoError(t, a.EmptyCache())
	require.GreaterOrEqual(t, a.Stats().ReservedBytes.All.Peak, int64(64*device.MiB))

	driver.Fail("*", 1, 999)
	var failed *device.Error
	require.ErrorAs(t, a.ResetPeakStats(), &failed)
	driver.ClearFaults()
	require.EqualValues(t, 64*device.MiB, a.Stats().AllocatedBytes.All.Peak, "nothing is changed")

	require.NoError(t, a.ResetPeakStats())
	s := a.Stats()
	require.Zero(t, s.AllocatedBytes.All.Peak)
	require.Less(t, s.ReservedBytes.All.Peak, int64(64*device.MiB))
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.ResetPeakStats(), device.ErrClosed)
	require.NoError(t, d.Close())
	require.Empty(t, driver.Leaks())
}
