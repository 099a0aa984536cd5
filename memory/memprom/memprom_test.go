package memprom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memprom"
)

const mib = device.MiB

// used is an allocator that holds 1 KiB and 3 MiB, has freed 30 MiB and has failed once.
func used(t *testing.T) (*memory.Caching, string) {
	t.Helper()
	dev := sim.New(100 * mib)
	a, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	for _, bytes := range []uint64{1000, 3 * mib, 30 * mib} {
		b, err := a.Alloc(bytes, dev.DefaultStream())
		require.NoError(t, err)
		if bytes == 30*mib {
			require.NoError(t, a.Free(b))
		}
		t.Cleanup(func() { _ = a.Close() })
	}
	_, err = a.Alloc(1<<40, dev.DefaultStream())
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	return a, dev.ID().String()
}

func TestNew_HasTheStatisticsUnderPrometheussNames(t *testing.T) {
	a, dev := used(t)
	_, err := a.NewPool().Alloc(30*mib, sim.New(mib).DefaultStream())
	require.Error(t, err, "a stream of another device")
	want := fmt.Sprintf(`
# HELP cistern_memory_allocated_bytes Memory that callers hold.
# TYPE cistern_memory_allocated_bytes gauge
cistern_memory_allocated_bytes{device="%[1]s",pool="large"} 3.145728e+06
cistern_memory_allocated_bytes{device="%[1]s",pool="small"} 1024
# HELP cistern_memory_allocations_total Blocks handed out.
# TYPE cistern_memory_allocations_total counter
cistern_memory_allocations_total{device="%[1]s",pool="large"} 2
cistern_memory_allocations_total{device="%[1]s",pool="small"} 1
# HELP cistern_memory_driver_frees_total Calls of the driver that gave memory back.
# TYPE cistern_memory_driver_frees_total counter
cistern_memory_driver_frees_total{device="%[1]s"} 1
# HELP cistern_memory_ooms_total Requests that failed for want of memory.
# TYPE cistern_memory_ooms_total counter
cistern_memory_ooms_total{device="%[1]s"} 1
# HELP cistern_memory_reserved_bytes Memory got from the driver.
# TYPE cistern_memory_reserved_bytes gauge
cistern_memory_reserved_bytes{device="%[1]s",pool="large"} 2.097152e+07
cistern_memory_reserved_bytes{device="%[1]s",pool="small"} 2.097152e+06
# HELP cistern_memory_retries_total Requests that first had the whole cache emptied.
# TYPE cistern_memory_retries_total counter
cistern_memory_retries_total{device="%[1]s"} 1
`, dev)
	require.NoError(t, testutil.CollectAndCompare(memprom.New(a), strings.NewReader(want), "cistern_memory_allocated_bytes",
		"cistern_memory_allocations_total", "cistern_memory_driver_frees_total", "cistern_memory_ooms_total",
		"cistern_memory_reserved_bytes", "cistern_memory_retries_total"))
}

func TestNew_FollowsPrometheussConventions(t *testing.T) {
	a, _ := used(t)
	problems, err := testutil.CollectAndLint(memprom.New(a))
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(memprom.New(a)))
}

func TestNew_HasPrivatePoolsWhileTheyHoldMemory(t *testing.T) {
	dev := sim.New(100 * mib)
	a, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	p := a.NewPool()
	b, err := p.Alloc(30*mib, dev.DefaultStream())
	require.NoError(t, err)
	const name = "cistern_memory_private_reserved_bytes"
	require.Equal(t, 1, testutil.CollectAndCount(memprom.New(a), name))
	want := fmt.Sprintf("# HELP %[1]s Memory got from the driver for a private pool.\n# TYPE %[1]s gauge\n%[1]s{device=%[2]q,pool=\"0_1\"} 3.145728e+07\n", name, dev.ID())
	require.NoError(t, testutil.CollectAndCompare(memprom.New(a), strings.NewReader(want), name))
	require.NoError(t, p.Free(b))
	require.NoError(t, p.Close())
	require.Zero(t, testutil.CollectAndCount(memprom.New(a), name))
	require.NoError(t, a.Close())
}

// Without allocators it is those of memory.For, also of devices that are opened later.
func TestNew_OfAllDevices(t *testing.T) {
	c := memprom.New()
	before := testutil.CollectAndCount(c)
	dev := sim.New(100 * mib)
	_, err := memory.For(dev)
	require.NoError(t, err)
	require.Greater(t, testutil.CollectAndCount(c), before)
	require.NoError(t, memory.Drop(dev))
	require.Equal(t, before, testutil.CollectAndCount(c))
}

func TestNew_LeavesNilAllocatorsOut(t *testing.T) {
	require.Zero(t, testutil.CollectAndCount(memprom.New(nil, (*memory.Caching)(nil), (*memory.Direct)(nil), (*memory.Async)(nil), (*memory.Pool)(nil))))
}

// ordered is a simulated device with what memory.NewAsync needs.
type ordered struct{ *sim.Device }

func (ordered) StreamOrdered() bool                                        { return true }
func (o ordered) AllocAsync(n uint64, _ device.Stream) (device.Ptr, error) { return o.Malloc(n) }
func (o ordered) FreeAsync(p device.Ptr, _ device.Stream) error            { return o.Free(p) }
func (ordered) TrimPool(uint64) error                                      { return nil }
func (ordered) PoolUsage() (u device.PoolUsage, err error)                 { return u, nil }
func (ordered) ResetPoolPeaks() error                                      { return nil }

// other is an allocator that is not this module's, and keeps no statistics by pool either.
type other struct{ *memory.Direct }

// What keeps its statistics undivided has them in one series, so that sums over the pools are right.
func TestNew_OfAllocatorsWithoutPools(t *testing.T) {
	dev := sim.New(100 * mib)
	async, err := memory.NewAsync(ordered{dev}, memory.Config{})
	require.NoError(t, err)
	for _, a := range []memory.Allocator{memory.NewDirect(dev), async, other{memory.NewDirect(dev)}} {
		b, err := a.Alloc(3*mib, dev.DefaultStream())
		require.NoError(t, err)
		want := fmt.Sprintf(`
# HELP cistern_memory_allocated_bytes Memory that callers hold.
# TYPE cistern_memory_allocated_bytes gauge
cistern_memory_allocated_bytes{device="%[1]s",pool="all"} 3.145728e+06
# HELP cistern_memory_allocated_peak_bytes The most memory that callers held at one time.
# TYPE cistern_memory_allocated_peak_bytes gauge
cistern_memory_allocated_peak_bytes{device="%[1]s"} 3.145728e+06
# HELP cistern_memory_allocations_total Blocks handed out.
# TYPE cistern_memory_allocations_total counter
cistern_memory_allocations_total{device="%[1]s",pool="all"} 1
`, dev.ID())
		require.NoError(t, testutil.CollectAndCompare(memprom.New(a), strings.NewReader(want), "cistern_memory_allocated_bytes",
			"cistern_memory_allocated_peak_bytes", "cistern_memory_allocations_total"), "%T", a)
		require.NoError(t, a.Free(b))
		require.NoError(t, a.Close())
	}
}
