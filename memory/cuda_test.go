package memory_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memtest"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// onCUDA runs a suite on the emulated driver. It poisons little of its memory, because that takes most of the time of tests
// that fill the device and look at no content.
func onCUDA() memtest.Option {
	return memtest.On("cuda", func(t testing.TB) device.Device {
		return cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("poison_bytes", "4096") }).Devices[0]
	})
}

// async makes an Async allocator where the device can have one.
func async(t testing.TB, dev device.Device) memory.Allocator {
	if _, ok := dev.(*cuda.Device); !ok {
		t.Skip("the device has no stream-ordered allocator")
	}
	a, err := memory.NewAsync(dev, memory.Config{})
	require.NoError(t, err)
	return a
}

func TestAsync_ConformanceOnCUDA(t *testing.T) {
	memtest.TestAllocator(t, async, onCUDA())
}

// As on a real GPU, where the driver needs memory for the streams' work too.
func TestAsync_ConformanceOnADriverThatTakesMemoryForItself(t *testing.T) {
	if testing.Short() {
		t.Skip("the driver takes memory, and the allocator does the same")
	}
	memtest.TestAllocator(t, async, memtest.OnReal("cuda", func(t testing.TB) device.Device {
		return cudatest.New(t, 1, func(l *fakecuda.Library) {
			l.Set("poison_bytes", "4096")
			l.Set("stream_bytes", "2097152")
		}).Devices[0]
	}))
}

// The memory of a closed stream, whose work is done, goes to the next one.
func TestCaching_AThousandStreamsOnCUDA(t *testing.T) {
	d := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("poison_bytes", "4096") }).Devices[0]
	a, err := memory.New(d, memory.Config{})
	require.NoError(t, err)
	for range 1000 {
		s, err := d.NewStream()
		require.NoError(t, err)
		b, err := a.Alloc(21<<20, s)
		require.NoError(t, err)
		require.NoError(t, s.Fill(b.Ptr(), 1, 4096))
		require.NoError(t, a.Free(b))
		require.NoError(t, s.Close())
	}
	require.EqualValues(t, 22<<20, a.Stats().ReservedBytes.All.Peak)
	require.EqualValues(t, 1000, a.Stats().Allocation.All.Allocated)
	require.NoError(t, a.Check())
	require.NoError(t, a.Close())
}

func TestFor_MakesTheBackendThatTheSettingsName(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "backend:cudaMallocAsync")
	var wrong *memory.ConfigError
	_, err := memory.For(sim.New(64 << 20))
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "backend", wrong.Key)
	require.ErrorContains(t, err, "device sim")
	d := cudatest.New(t, 1).Devices[0]
	a, err := memory.For(d)
	require.NoError(t, err)
	require.IsType(t, &memory.Async{}, a)
	require.NoError(t, memory.Drop(d))
}

// TestCaching_SeveralDevices has an allocator for each device, and goroutines that use all of them.
func TestCaching_SeveralDevices(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := cudatest.New(t, n)
			for _, d := range r.Devices {
				t.Cleanup(func() { require.NoError(t, memory.Drop(d)) })
			}
			var group sync.WaitGroup
			errs := make([]error, 16)
			for g := range errs {
				group.Go(func() { errs[g] = tour(r.Devices, g) })
			}
			group.Wait()
			require.NoError(t, errors.Join(errs...))
			for _, d := range r.Devices {
				a, err := memory.For(d)
				require.NoError(t, err)
				require.Zero(t, a.Stats().AllocatedBytes.All.Current)
				require.Positive(t, a.Stats().Allocation.All.Allocated)
			}
		})
	}
}

// tour passes a value through memory of each device and compares it.
func tour(devices []*cuda.Device, seed int) error {
	const n = 5000
	want, got := cudatest.Pattern(seed, n), make([]byte, n)
	for round := range 5 {
		from := devices[(seed+round)%len(devices)]
		to := devices[(seed+round+1)%len(devices)]
		if err := hop(from, to, want, got); err != nil {
			return err
		}
		if string(want) != string(got) {
			return fmt.Errorf("goroutine %d, round %d: content was lost", seed, round)
		}
	}
	return nil
}

// hop copies in to one device, from there to another, and out.
func hop(from, to *cuda.Device, in, out []byte) error {
	source, err := memory.For(from)
	if err != nil {
		return err
	}
	target, err := memory.For(to)
	if err != nil {
		return err
	}
	n := uint64(len(in))
	p, err := source.Alloc(n, from.DefaultStream())
	if err != nil {
		return err
	}
	q, err := target.Alloc(n, to.DefaultStream())
	if err != nil {
		return err
	}
	e, err := from.NewEvent()
	if err != nil {
		return err
	}
	return errors.Join(from.DefaultStream().CopyToDevice(p.Ptr(), in), from.DefaultStream().Record(e),
		to.DefaultStream().Wait(e), to.CopyPeer(to.DefaultStream(), q.Ptr(), from, p.Ptr(), n),
		to.DefaultStream().CopyToHost(out, q.Ptr()), source.Free(p), target.Free(q), e.Close())
}

// TestPinned_OnCUDA uses the pinned allocator with the driver's memory, and with memory registered by the caller.
func TestPinned_OnCUDA(t *testing.T) {
	for _, register := range []bool{false, true} {
		d := cudatest.New(t, 1).Devices[0]
		p, err := pinned.New(d, memory.Config{PinnedUseHostRegister: register})
		require.NoError(t, err)
		dst, err := d.Malloc(1 << 20)
		require.NoError(t, err)
		s := d.DefaultStream().(*cuda.Stream)
		for seed := range 3 {
			b, err := p.Alloc(1 << 20)
			require.NoError(t, err)
			want := cudatest.Pattern(seed, 1<<20)
			copy(b.Bytes(), want)
			require.NoError(t, s.CopyToDeviceAsync(dst, b.Bytes()))
			require.NoError(t, p.RecordStream(b, s))
			require.NoError(t, p.Free(b))
			got := make([]byte, 1<<20)
			require.NoError(t, s.CopyToHost(got, dst))
			require.Equal(t, want[:100], got[:100])
		}
		require.NoError(t, p.Close())
		require.NoError(t, d.Close())
	}
}

// Memory that was freed on other streams behind their work is waited for before a request fails.
func TestAsync_WaitsForFreesOfAllStreamsBeforeItFails(t *testing.T) {
	r := cudatest.New(t, 1, func(l *fakecuda.Library) {
		l.Set("pool_reuse", "0")
		l.Set("work_delay_us", "20000")
		l.Set("poison_bytes", "4096")
	})
	d := r.Devices[0]
	a := async(t, d)
	one, other := r.Stream(d), r.Stream(d)
	b, err := a.Alloc(cudatest.Capacity/4*3, one)
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	b, err = a.Alloc(cudatest.Capacity/4*3, other)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Stats().NumAllocRetries)
	require.NoError(t, a.Free(b))
	require.NoError(t, a.Close())
}

// While a stream is captured nobody may wait for the device: then only frees of the own stream are waited for.
func TestAsync_WaitsForItsOwnStreamWhileAnotherIsCaptured(t *testing.T) {
	r := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Set("poison_bytes", "4096") })
	d := r.Devices[0]
	a := async(t, d)
	one, captured := r.Stream(d), r.Stream(d)
	require.NoError(t, captured.BeginCapture())
	_, err := a.Alloc(cudatest.Capacity*2, one)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	g, err := captured.EndCapture()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, a.Close())
}
