package memory

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// gateDriver is a device whose first Malloc waits for the gate.
type gateDriver struct {
	*sim.Device
	first   atomic.Bool
	entered chan struct{}
	gate    chan struct{}
}

func (d *gateDriver) Malloc(n uint64) (device.Ptr, error) {
	if d.first.Swap(false) {
		close(d.entered)
		<-d.gate
	}
	return d.Device.Malloc(n)
}

// gatedAlloc starts an allocation of 30 MiB on stream 0 that hangs in the driver. finish lets it go on and returns its block.
func gatedAlloc(t *testing.T, conf string) (r *rig, finish func() Block) {
	d := &gateDriver{entered: make(chan struct{}), gate: make(chan struct{})}
	d.first.Store(true)
	r = buildRig(t, gib, conf, func(dev *sim.Device) Driver { d.Device = dev; return d })
	result := make(chan Block)
	go func() {
		b, _ := r.a.Alloc(30*mib, d.DefaultStream())
		result <- b
	}()
	<-d.entered
	return r, func() Block {
		close(d.gate)
		return <-result
	}
}

func TestReleaseLock_OthersMayAskTheDriverMeanwhile(t *testing.T) {
	r, finish := gatedAlloc(t, "release_lock_on_cudamalloc:True")
	other := r.alloc(40*mib, 1)
	require.EqualValues(t, 40*mib, r.reserved())
	r.free(other)
	r.empty()
	require.False(t, finish().IsZero())
	r.check()
	require.EqualValues(t, 30*mib, r.reserved())
}

// What is under way counts against the limit, or two requests would pass it together.
func TestReleaseLock_BytesUnderWayCountAgainstTheLimit(t *testing.T) {
	r, finish := gatedAlloc(t, "release_lock_on_cudamalloc:True")
	r.a.SetMemoryLimit(50 * mib)
	_, err := r.tryAlloc(30*mib, 1)
	requireOOM(t, err, ErrLimit)
	require.False(t, finish().IsZero())
	r.alloc(20*mib, 1)
	require.EqualValues(t, 50*mib, r.reserved())
}

// Without the setting, streams that find memory cached do not wait for a driver call of another stream either.
func TestAlloc_FromCacheDoesNotWaitForTheDriver(t *testing.T) {
	dev := sim.New(gib)
	d := &gateDriver{Device: dev, entered: make(chan struct{}), gate: make(chan struct{})}
	a, err := New(d, Config{})
	require.NoError(t, err)
	b, err := a.Alloc(5*mib, dev.Stream(1))
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	d.first.Store(true)
	result := make(chan error)
	go func() {
		_, err := a.Alloc(30*mib, dev.DefaultStream())
		result <- err
	}()
	<-d.entered
	again, err := a.Alloc(5*mib, dev.Stream(1))
	require.NoError(t, err)
	require.Equal(t, b.Ptr(), again.Ptr())
	require.NoError(t, a.Free(again))
	close(d.gate)
	require.NoError(t, <-result)
	require.ErrorIs(t, a.Close(), ErrLeak)
}

// What comes from the driver when the pool is released, or the allocator closed, has nowhere to go but back.
func TestReleaseLock_MemoryThatComesTooLateGoesBack(t *testing.T) {
	for name, end := range map[string]func(r *rig, p *Pool) error{
		"Release": func(_ *rig, p *Pool) error { return p.Close() },
		"Forget":  func(r *rig, p *Pool) error { return errors.Join(p.Release(), r.a.EmptyCache()) },
		"Close":   func(r *rig, _ *Pool) error { return r.a.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			d := &gateDriver{entered: make(chan struct{}), gate: make(chan struct{})}
			r := buildRig(t, gib, "release_lock_on_cudamalloc:True", func(dev *sim.Device) Driver { d.Device = dev; return d })
			d.first.Store(true)
			p := r.a.NewPool(PoolLimit(50 * mib))
			result := make(chan error)
			go func() {
				_, err := p.Alloc(30*mib, d.DefaultStream())
				result <- err
			}()
			<-d.entered
			if name != "Close" {
				_, err := p.Alloc(30*mib, r.stream(1))
				requireOOM(t, err, ErrLimit)
			}
			require.NoError(t, end(r, p))
			close(d.gate)
			require.Error(t, <-result)
			require.Zero(t, r.dev.Live().Bytes)
			r.check()
		})
	}
}
