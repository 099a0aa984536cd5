package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

const useLess = "Nothing that is cached would serve it: smaller batches, half precision, checkpointed activations, and graphs that are released earlier " +
	"take less. With RecordHistory, before the first allocation, the error names the lines that hold the most, and a setting that would have served this request if one is found."

// test_out_of_memory: the beginning is PyTorch's to the letter, as programs search for it.
func TestOOMError_TextBeginsAsPyTorchs(t *testing.T) {
	r := newCUDARig(t, 80*gib, "")
	_, err := r.tryAlloc(800000000*gib, 0)
	requireOOM(t, err, ErrDeviceFull)
	require.ErrorContains(t, err, "CUDA out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity of 80.00 GiB "+
		"of which 80.00 GiB is free. ")
	_, err = r.tryAlloc(1<<60, 0)
	oom := requireOOM(t, err, ErrDeviceFull)
	require.EqualError(t, err, "CUDA out of memory. Tried to allocate more than 1EB memory.")
	require.Zero(t, oom.Tried)
	_, err = r.tryAlloc(^uint64(0), 0)
	require.EqualError(t, err, "CUDA out of memory. Tried to allocate more than 1EB memory.")
	require.EqualValues(t, 3, r.a.Stats().NumOOMs)
	r.alloc(gib, 0) // the allocator works on
}

// Every part of the text, with the numbers that it is made of.
func TestOOMError_HasAllTheNumbers(t *testing.T) {
	r := newCUDARig(t, 100*mib, "")
	r.dev.Occupy(10 * mib)
	r.alloc(30*mib, 0)
	r.alloc(16*mib, 0)
	hole := r.alloc(2*mib, 0) // a segment of 20 MiB: 18 MiB stay cached behind it
	other := r.alloc(4*mib, 1)
	r.free(r.alloc(3*mib, 1))
	_, err := r.tryAlloc(25*mib, 0)
	oom := requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, OOMError{
		Device: device.ID{Kind: device.CUDA}, Stream: 0, Requested: 25 * mib, Tried: 26 * mib,
		Allocated: 30*mib + 16*mib + 2*mib + 4*mib, Cached: 18*mib + 16*mib, CachedOthers: 16 * mib, LargestFree: 18 * mib,
		Reserved: 86 * mib, DeviceFree: 4 * mib, DeviceTotal: 100 * mib,
		Hint: useLess,
	}, *oom)
	require.EqualError(t, err, "CUDA out of memory. Tried to allocate 26.00 MiB. GPU 0 has a total capacity of 100.00 MiB of which "+
		"4.00 MiB is free. 10.00 MiB is in use outside this allocator. Of the allocated memory 52.00 MiB is allocated by Cistern, "+
		"and 34.00 MiB is reserved by Cistern but unallocated. The largest free block of stream 0 is 18.00 MiB; 16.00 MiB is cached "+
		"for other streams. "+useLess)
	r.free(hole, other)

	// Freed by another goroutine since the events were waited for.
	oom.Allocated, oom.Pending, oom.Hint = oom.Allocated-2*mib, 2*mib, ""
	require.ErrorContains(t, oom, "50.00 MiB is allocated by Cistern, and 36.00 MiB is reserved by Cistern but unallocated. ")
	require.ErrorContains(t, oom, "is cached for other streams; 2.00 MiB is freed but in use by other streams.")
}

func TestOOMError_TellsTheLimit(t *testing.T) {
	r := newCUDARig(t, 100*mib, "per_process_memory_fraction:0.5")
	r.alloc(40*mib, 0)
	_, err := r.tryAlloc(20*mib, 0)
	requireOOM(t, err, ErrLimit)
	require.EqualError(t, err, "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 100.00 MiB of which "+
		"60.00 MiB is free. 50.00 MiB allowed; Of the allocated memory 40.00 MiB is allocated by Cistern, and 0 bytes is reserved by "+
		"Cistern but unallocated. The largest free block of stream 0 is 0 bytes. The device has the memory: a limit of 60.00 MiB would "+
		"have been enough for this allocation (per_process_memory_fraction, SetMemoryFraction: 0.6). What follows may need more.")
}

// Memory that is just enough is enough: a limit is blamed where the device has what was tried, and not a byte less.
func TestOOMError_BlamesTheLimitWhereTheDeviceHasJustEnough(t *testing.T) {
	for outside, hint := range map[uint64]string{
		40 * mib:       "The device has the memory: a limit of 60.00 MiB would have been enough",
		40*mib + 1*kib: "The limit is not alone in the way: the device has not as much free. " + useLess,
	} {
		r := newCUDARig(t, 100*mib, "per_process_memory_fraction:0.5")
		r.dev.Occupy(outside)
		r.alloc(40*mib, 0)
		_, err := r.tryAlloc(20*mib, 0)
		oom := requireOOM(t, err, ErrLimit)
		require.EqualValues(t, 60*mib-outside, oom.DeviceFree)
		require.Contains(t, oom.Hint, hint)
	}
}

// A rejected request has PyTorch's other text, with the size that was asked for.
func TestOOMError_TextOfARejection(t *testing.T) {
	r := newCUDARig(t, 100*mib, "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True")
	_, err := r.tryAlloc(51*mib, 0)
	requireOOM(t, err, ErrLimit)
	require.EqualError(t, err, "CUDA out of memory. An allocation of 51.00 MiB on GPU 0 was pre-emptively rejected because it would "+
		"exceed the per_process_memory_fraction limit of 50.00 MiB. The device has the memory: a limit of 52.00 MiB would have been enough for this "+
		"allocation (per_process_memory_fraction, SetConfig: 0.52; SetMemoryFraction and SetMemoryLimit do not change what throw_on_cudamalloc_oom goes by). What follows may need more.")
}

// A rejected request has the numbers of the moment, too, and its advice is true.
func TestOOMError_NumbersOfARejection(t *testing.T) {
	r := newRig(t, 100*mib, "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True")
	r.alloc(10*mib, 0)
	waits := r.alloc(12*mib, 0)
	r.record(waits, 1)
	r.free(waits, r.alloc(20*mib, 2))
	_, err := r.tryAlloc(14*mib, 0)
	oom := requireOOM(t, err, ErrLimit)
	require.True(t, oom.Rejected)
	require.Equal(t, []uint64{10 * mib, 12 * mib, 20 * mib, 20 * mib, 0, 42 * mib},
		[]uint64{oom.Allocated, oom.Pending, oom.Cached, oom.CachedOthers, oom.LargestFree, oom.Reserved})
	require.Zero(t, oom.EnoughLimit)
	require.Contains(t, oom.Hint, "20.00 MiB is cached, and EmptyCache gives it back")
	r.empty()
	r.free(r.alloc(14*mib, 0))
	r.empty()

	_, err = r.tryAlloc(60*mib, 0)
	oom = requireOOM(t, err, ErrLimit)
	require.EqualValues(t, oom.Reserved+60*mib, oom.EnoughLimit)
	require.NoError(t, r.a.SetMemoryFraction(1))
	_, err = r.tryAlloc(60*mib, 0)
	require.True(t, requireOOM(t, err, ErrLimit).Rejected, "it goes by the settings")
	r.conf(fmt.Sprintf("per_process_memory_fraction:%v,throw_on_cudamalloc_oom:True", float64(oom.EnoughLimit)/float64(100*mib)))
	r.alloc(60*mib, 0)

	r = newRig(t, 100*mib, "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True")
	r.dev.Occupy(60 * mib)
	_, err = r.tryAlloc(60*mib, 0)
	oom = requireOOM(t, err, ErrLimit)
	require.Zero(t, oom.EnoughLimit)
	require.Empty(t, oom.Hint)
}

func TestOOMError_NamesOtherKindsOfDevices(t *testing.T) {
	for kind, want := range map[device.Kind]string{
		device.Host: "Host out of memory. Tried to allocate 2.00 MiB. Device host:1 has",
		device.Sim:  "Simulated device out of memory. Tried to allocate 2.00 MiB. Device sim:1 has",
		device.CUDA: "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 1 has",
	} {
		e := &OOMError{Device: device.ID{Kind: kind, Index: 1}, Tried: 2 * mib}
		require.Contains(t, e.Error(), want)
	}
}

// A driver that does not answer does not hide the error.
func TestOOMError_WithoutNumbersOfTheDriver(t *testing.T) {
	r := newRig(t, 10*mib, "")
	r.dev.FailNext(sim.CallMemInfo, 1, errInjected)
	_, err := r.tryAlloc(20*mib, 0)
	oom := requireOOM(t, err, ErrDeviceFull)
	require.Zero(t, oom.DeviceTotal)
	require.ErrorContains(t, err, "has a total capacity of 0 bytes of which 0 bytes is free. Of the allocated memory")
}

// test_out_of_memory_retry: with half of the memory in use a second such request fails; after the first is freed its
// segment is given back for it.
func TestOOM_SucceedsAfterSomethingIsFreed(t *testing.T) {
	r := newRig(t, 100*mib, "")
	a := r.alloc(60*mib, 0)
	_, err := r.tryAlloc(61*mib, 1)
	requireOOM(t, err, ErrDeviceFull)
	r.free(a)
	r.alloc(61*mib, 1)
}

// test_raises_oom, also with a max_split_size.
func TestOOM_LeavesBlocksInUseAlone(t *testing.T) {
	for _, conf := range []string{"", "max_split_size_mb:20", "expandable_segments:True"} {
		t.Run(conf, func(t *testing.T) {
			r := newRig(t, 200*mib, conf)
			a, b := r.alloc(30*mib, 0), r.alloc(512, 1)
			before := r.a.picture()
			_, err := r.tryAlloc(gib, 0)
			requireOOM(t, err, ErrDeviceFull)
			require.Equal(t, before, r.a.picture())
			r.free(a, b)
		})
	}
}

// test_notifies_oom: observers run on every out-of-memory error, and on nothing else. They may use the allocator.
func TestOnOOM_RunsExactlyOnOutOfMemory(t *testing.T) {
	r := newRig(t, 100*mib, "")
	var told []*OOMError
	r.a.OnOOM(func(e *OOMError) { told = append(told, e) })
	r.a.OnOOM(func(*OOMError) { require.NotEmpty(t, r.a.Snapshot().Segments) })
	b := r.alloc(60*mib, 0)
	r.free(b)
	r.alloc(60*mib, 0)
	require.Empty(t, told)
	for _, bytes := range []uint64{50 * mib, 1 << 60} {
		_, err := r.tryAlloc(bytes, 0)
		require.Same(t, err, told[len(told)-1])
	}
	require.Len(t, told, 2)
	r.dev.FailNext(sim.CallMalloc, 1, errInjected)
	_, err := r.tryAlloc(12*mib, 0)
	require.ErrorIs(t, err, errInjected)
	require.Len(t, told, 2, "other errors are none of theirs")
}
