package memory

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// fakeDriver hands out addresses and nothing else, so that benchmarks time the allocator alone.
type fakeDriver struct{ next device.Ptr }

func (d *fakeDriver) ID() device.ID { return device.ID{Kind: device.Sim} }
func (d *fakeDriver) Malloc(n uint64) (device.Ptr, error) {
	d.next = d.next.Add(1 << 21)
	p := d.next
	d.next = d.next.Add(n)
	return p, nil
}
func (d *fakeDriver) Free(device.Ptr) error { return nil }
func (d *fakeDriver) MemInfo() (device.MemInfo, error) {
	return device.MemInfo{Free: 80 << 30, Total: 80 << 30}, nil
}
func (d *fakeDriver) NewEvent() (device.Event, error) { return fakeEvent{}, nil }

type fakeEvent struct{}

func (fakeEvent) Done() (bool, error)               { return true, nil }
func (fakeEvent) Synchronize(context.Context) error { return nil }
func (fakeEvent) Close() error                      { return nil }

// fakeStream is a stream in name only.
type fakeStream struct {
	device.Stream
	id device.StreamID
}

func (s *fakeStream) ID() device.StreamID       { return s.id }
func (s *fakeStream) Device() device.Device     { return fakeDevice{} }
func (s *fakeStream) Record(device.Event) error { return nil }

// fakeDevice is whose streams those are.
type fakeDevice struct{ device.Device }

func (fakeDevice) ID() device.ID { return device.ID{Kind: device.Sim} }

func benchAllocator(b testing.TB) *Caching {
	a, err := New(&fakeDriver{}, Config{})
	require.NoError(b, err)
	return a
}

func BenchmarkCaching_Fixed4KiB(b *testing.B) {
	a := benchAllocator(b)
	s := &fakeStream{}
	b.ReportAllocs()
	for b.Loop() {
		h, _ := a.Alloc(4096, s)
		_ = a.Free(h)
	}
}

// With 65,536 cached holes of different sizes the search must not become a walk.
func BenchmarkCaching_Holes65536(b *testing.B) {
	a := benchAllocator(b)
	s := &fakeStream{}
	const n = 65536
	var holes, fences []Block
	for i := range n {
		h, err := a.Alloc(uint64(i+2050)*512, s)
		require.NoError(b, err)
		f, err := a.Alloc(smallLimit+512, s)
		require.NoError(b, err)
		holes, fences = append(holes, h), append(fences, f)
	}
	for _, h := range holes {
		require.NoError(b, a.Free(h))
	}
	b.ReportAllocs()
	x := uint64(1)
	for b.Loop() {
		x = x*6364136223846793005 + 1442695040888963407
		h, _ := a.Alloc((x>>40%n+2050)*512, s)
		_ = a.Free(h)
	}
	_ = fences
}

func BenchmarkCaching_Fixed4KiB_TwoStreams(b *testing.B) {
	a := benchAllocator(b)
	done := make(chan struct{})
	loop := func(s *fakeStream) {
		for range b.N {
			h, _ := a.Alloc(4096, s)
			_ = a.Free(h)
		}
		done <- struct{}{}
	}
	b.ResetTimer()
	go loop(&fakeStream{id: 1})
	go loop(&fakeStream{id: 2})
	<-done
	<-done
}
