package pinned

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/pages"
)

// registrar is a simulated device that can register host memory.
type registrar struct {
	*sim.Device
	mu                     sync.Mutex
	registered             map[*byte]int
	failNext, failNextBack error
}

func (d *registrar) RegisterPinned(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failNext; err != nil {
		d.failNext = nil
		return err
	}
	d.registered[&b[0]] = len(b)
	return nil
}

func (d *registrar) UnregisterPinned(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failNextBack; err != nil {
		d.failNextBack = nil
		return err
	}
	if d.registered[&b[0]] != len(b) {
		return errors.New("not registered")
	}
	delete(d.registered, &b[0])
	return nil
}

func newRegistrarRig(t *testing.T, conf string) (*rig, *registrar) {
	t.Helper()
	if !pages.Supported {
		t.Skip("this system has no memory to register")
	}
	reg := &registrar{registered: map[*byte]int{}}
	r := buildRig(t, conf, func(d *sim.Device) Driver { reg.Device = d; return reg })
	t.Cleanup(func() {
		require.ErrorIs(t, errors.Join(r.p.Close(), memory.ErrLeak), memory.ErrLeak)
		require.Empty(t, reg.registered)
		require.Zero(t, pages.Live())
	})
	return r, reg
}

func TestPinned_RegistersOrdinaryMemory(t *testing.T) {
	for _, threads := range []string{"1", "2", "8", "128"} {
		t.Run(threads+" goroutines", func(t *testing.T) {
			r, reg := newRegistrarRig(t, "pinned_use_cuda_host_register:True,pinned_num_register_threads:"+threads)
			for _, n := range []uint64{1, 4096, 5 * 4096, mib} {
				b := r.alloc(n)
				require.EqualValues(t, b.Size(), reg.registered[&b.Bytes()[0]])
				require.Equal(t, make([]byte, n), b.Bytes())
				fill(b.Bytes(), 7)
				r.free(b)
				r.requireSame(b, r.alloc(n))
			}
			require.Zero(t, r.calls(sim.CallAllocPinned))
			require.EqualValues(t, 4, r.p.Stats().NumHostAlloc)
		})
	}
}

func TestTouch_WritesEachPageOnce(t *testing.T) {
	for _, n := range []int{1, pageStep - 1, pageStep, 7*pageStep + 5, 64 * pageStep} {
		for _, threads := range []int{1, 2, 4, 128} {
			mem, want := make([]byte, n), make([]byte, n)
			fill(mem, 1)
			fill(want, 1)
			for i := 0; i < n; i += pageStep {
				want[i] = 0
			}
			touch(mem, threads)
			require.True(t, bytes.Equal(want, mem), "%d bytes, %d threads", n, threads)
		}
	}
}

func TestPinned_EmptyCacheDeregisters(t *testing.T) {
	r, reg := newRegistrarRig(t, "pinned_use_cuda_host_register:True")
	a := r.alloc(4096)
	r.conf("")
	b := r.alloc(8192)
	r.free(a, b)
	require.Len(t, reg.registered, 1)
	r.empty()
	require.Empty(t, reg.registered, "each block goes back the way it came")
	require.Zero(t, r.dev.Live().Pinned)
	require.EqualValues(t, 2, r.p.Stats().NumHostFree)
}

func TestPinned_RegisteringGoroutinesShareTheAllocator(t *testing.T) {
	r, reg := newRegistrarRig(t, "pinned_use_cuda_host_register:True,pinned_num_register_threads:4")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20 {
				b, err := r.p.Alloc(uint64(1+i%3) << 21)
				if err == nil {
					fill(b.Bytes()[:10], byte(g))
					err = r.p.Free(b)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.empty()
	require.Empty(t, reg.registered)
}

func TestPinned_DevicesThatRegisterNothingPinAsUsual(t *testing.T) {
	r := newRig(t, "pinned_use_cuda_host_register:True")
	r.free(r.alloc(4096))
	require.Equal(t, 1, r.calls(sim.CallAllocPinned))
}

func TestPinned_FailedRegistrationLosesNothing(t *testing.T) {
	r, reg := newRegistrarRig(t, "pinned_use_cuda_host_register:True")
	refused := errors.New("refused")
	reg.failNext = refused
	_, err := r.p.Alloc(4096)
	require.ErrorIs(t, err, refused)
	require.Zero(t, pages.Live())
	require.Equal(t, Stats{}, r.p.Stats())

	reg.failNext = &device.Error{Device: r.dev.ID(), Call: "RegisterPinned", Err: device.ErrOutOfMemory}
	r.free(r.alloc(4096)) // the second attempt is made after the cache was emptied

	reg.failNextBack = errors.New("still mapped")
	require.ErrorContains(t, r.p.EmptyCache(), "still mapped")
	r.check()
	require.Equal(t, 4096, r.allocated())
	r.empty()
	require.Zero(t, r.allocated())
}

func TestPinned_MemoryThatTheSystemRefusesToRegisterIsOutOfMemory(t *testing.T) {
	r, _ := newRegistrarRig(t, "pinned_use_cuda_host_register:True")
	_, err := r.p.Alloc(1 << 59)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "refused by the operating system")
	r.check()
}

func TestPinned_CutsBlocksOffTheReserveSegment(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:1")
	require.Zero(t, r.calls(sim.CallAllocPinned), "it is taken at the first allocation")
	a, b, c := r.alloc(1), r.alloc(4097), r.alloc(100)
	require.EqualValues(t, 1, a.Size())
	require.EqualValues(t, 8192, b.Size())
	base := r.p.reserve.segment
	require.Len(t, base, mib)
	require.Same(t, &base[0], &a.Bytes()[0])
	require.Same(t, &base[4096], &b.Bytes()[0], "in steps of 4096")
	require.Same(t, &base[4096+8192], &c.Bytes()[0])
	require.Equal(t, 1, r.calls(sim.CallAllocPinned))
	s := r.p.Stats()
	require.EqualValues(t, 1, s.NumHostAlloc)
	require.EqualValues(t, 3, s.Allocations.Current)
	require.EqualValues(t, 1+8192+128, s.AllocatedBytes.Current)
}

func TestPinned_AsksTheDriverWhenTheReserveSegmentIsUsedUp(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:1")
	r.alloc(2 * mib)
	require.Equal(t, 2, r.calls(sim.CallAllocPinned), "too large for it")
	for range 256 {
		r.alloc(4096)
	}
	require.Equal(t, 2, r.calls(sim.CallAllocPinned))
	r.alloc(1)
	require.Equal(t, 3, r.calls(sim.CallAllocPinned))
}

func TestPinned_ReserveSegmentIsFixedByTheFirstAllocation(t *testing.T) {
	r := newRig(t, "")
	r.alloc(4096)
	r.conf("pinned_reserve_segment_size_mb:1")
	r.alloc(4096)
	require.Equal(t, 2, r.calls(sim.CallAllocPinned))
	require.Nil(t, r.p.reserve.segment)
}

func TestPinned_BlocksOfTheReserveSegmentStayCached(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:4,pinned_max_cached_size_mb:1")
	a, large := r.alloc(4096), r.alloc(2*mib)
	r.free(a, large)
	r.empty()
	require.Zero(t, r.calls(sim.CallFreePinned))
	r.requireSame(a, r.alloc(4096))
	r.requireSame(large, r.alloc(2*mib))
}

func TestPinned_ReserveSegmentThatCannotBeHadIsAskedForAgain(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:1")
	broken := errors.New("broken")
	r.dev.FailNext(sim.CallAllocPinned, 1, broken)
	_, err := r.p.Alloc(4096)
	require.ErrorIs(t, err, broken)
	r.check()
	r.alloc(4096)
	require.Len(t, r.p.reserve.segment, mib)
}

func TestPinned_TakesNoReserveSegmentAfterClose(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:1")
	require.NoError(t, r.p.Close())
	_, err := r.p.obtain(r.p.policy.Load(), 4096) // an Alloc that was on its way
	require.ErrorIs(t, err, device.ErrClosed)
	require.Zero(t, r.dev.Live().Pinned)
}
