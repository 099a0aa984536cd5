package pinned

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

func benchPinned(b *testing.B) (*Allocator, *sim.Device) {
	dev := sim.New(mib)
	p, err := New(dev, memory.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = p.Close() })
	b.ReportAllocs()
	return p, dev
}

func BenchmarkPinned_Cached64KiB(b *testing.B) {
	p, _ := benchPinned(b)
	for b.Loop() {
		h, _ := p.Alloc(64 * kib)
		_ = p.Free(h)
	}
}

// The time of the simulated device's events is included.
func BenchmarkPinned_Cached64KiB_OneStreamRecorded(b *testing.B) {
	p, dev := benchPinned(b)
	s := dev.DefaultStream()
	for b.Loop() {
		h, _ := p.Alloc(64 * kib)
		_ = p.RecordStream(h, s)
		_ = p.Free(h)
	}
}

// While 8 streams run for long and have 1000 blocks each waiting, other sizes are served from cache.
func BenchmarkPinned_Cached64KiB_8000Outstanding(b *testing.B) {
	dev := sim.New(mib, sim.ManualStreams())
	p, err := New(dev, memory.Config{PinnedReserveSegmentBytes: 64 * mib})
	require.NoError(b, err)
	for i := range 8000 {
		h, err := p.Alloc(1)
		require.NoError(b, err)
		require.NoError(b, p.RecordStream(h, dev.Stream(device.StreamID(i%8))))
		require.NoError(b, p.Free(h))
	}
	b.ReportAllocs()
	for b.Loop() {
		h, _ := p.Alloc(64 * kib)
		_ = p.Free(h)
	}
	b.StopTimer()
	require.NoError(b, p.Close())
}

func BenchmarkPinned_Cached_TwoGoroutinesTwoBuckets(b *testing.B) {
	p, _ := benchPinned(b)
	done := make(chan struct{})
	loop := func(bytes uint64) {
		for range b.N {
			h, _ := p.Alloc(bytes)
			_ = p.Free(h)
		}
		done <- struct{}{}
	}
	b.ResetTimer()
	go loop(4096)
	go loop(64 * kib)
	<-done
	<-done
}
