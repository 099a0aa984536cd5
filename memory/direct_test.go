package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestDirect_AsksTheDriverForEveryBlock(t *testing.T) {
	dev := sim.New(gib)
	a := NewDirect(dev)
	s := dev.DefaultStream()
	x, err := a.Alloc(1000, s)
	require.NoError(t, err)
	require.EqualValues(t, 1000, x.Size(), "sizes are not rounded")
	y, err := a.Alloc(3*mib, s)
	require.NoError(t, err)
	st := a.Stats()
	for _, arr := range []StatArray{st.AllocatedBytes, st.ActiveBytes, st.ReservedBytes, st.RequestedBytes} {
		require.EqualValues(t, 1000+3*mib, arr.All.Current)
	}
	require.EqualValues(t, 2, st.Segment.All.Current)
	require.NoError(t, a.Free(x))
	require.NoError(t, a.Free(y))
	calls := dev.Calls()
	require.EqualValues(t, 2, calls.Count[sim.CallMalloc])
	require.EqualValues(t, 2, calls.Count[sim.CallFree])
	st = a.Stats()
	require.EqualValues(t, 2, st.NumDeviceAlloc)
	require.EqualValues(t, 2, st.NumDeviceFree)
	require.EqualValues(t, 1000+3*mib, st.AllocatedBytes.All.Peak)
	require.Zero(t, st.AllocatedBytes.All.Current)
	require.NoError(t, a.Close())
}

// The driver may have the memory only after all work that uses it.
func TestDirect_FreeWaitsForTheStreamsThatUseTheBlock(t *testing.T) {
	dev := sim.New(gib, sim.ManualStreams())
	a := NewDirect(dev)
	own, other := dev.Stream(1), dev.Stream(2)
	b, err := a.Alloc(mib, own)
	require.NoError(t, err)
	require.NoError(t, own.Fill(b.Ptr(), 0, b.Size()))
	require.NoError(t, other.Fill(b.Ptr(), 0, b.Size()))
	require.NoError(t, a.RecordStream(b, other))
	require.NoError(t, a.Free(b))
	for _, s := range []interface{ Done() (bool, error) }{own, other} {
		done, err := s.Done()
		require.NoError(t, err)
		require.True(t, done)
	}
	require.NoError(t, a.Close())
}

// A block that the driver does not take back stays the caller's.
func TestDirect_FreeThatFailsCanBeTriedAgain(t *testing.T) {
	dev := sim.New(gib)
	a := NewDirect(dev)
	b, err := a.Alloc(mib, dev.DefaultStream())
	require.NoError(t, err)
	dev.FailNext(sim.CallFree, 1, errInjected)
	require.ErrorIs(t, a.Free(b), errInjected)
	require.EqualValues(t, 1, a.Stats().Allocation.All.Current)
	require.NoError(t, a.Free(b))
	require.ErrorIs(t, a.Free(b), ErrDoubleFree)
	require.NoError(t, a.Close())
}

func TestDirect_OutOfMemoryHasNumbers(t *testing.T) {
	dev := sim.New(100 * mib)
	a := NewDirect(dev)
	b, err := a.Alloc(60*mib, dev.DefaultStream())
	require.NoError(t, err)
	_, err = a.Alloc(50*mib, dev.DefaultStream())
	oom := requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, OOMError{
		Device: dev.ID(), Requested: 50 * mib, Tried: 50 * mib, Allocated: 60 * mib, Reserved: 60 * mib, DeviceFree: 40 * mib,
		DeviceTotal: 100 * mib,
	}, *oom)
	_, err = a.Alloc(1<<60, dev.DefaultStream())
	require.ErrorContains(t, err, "more than 1EB")
	require.EqualValues(t, 2, a.Stats().NumOOMs)
	require.NoError(t, a.Free(b))
	require.NoError(t, a.Close())
}

// during is a device that does something while it is asked for memory.
type during struct {
	*sim.Device
	malloc func()
}

func (d during) Malloc(bytes uint64) (device.Ptr, error) {
	d.malloc()
	return d.Device.Malloc(bytes)
}

func TestDirect_ClosedWhileTheDriverIsAskedGivesTheMemoryBack(t *testing.T) {
	dev := sim.New(gib)
	var a *Direct
	a = NewDirect(during{dev, func() { require.NoError(t, a.Close()) }})
	_, err := a.Alloc(512, dev.DefaultStream())
	require.ErrorIs(t, err, device.ErrClosed)
	require.Equal(t, sim.Live{Streams: dev.Live().Streams}, dev.Live())
}
