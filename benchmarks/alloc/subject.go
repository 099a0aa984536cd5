package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
)

// subject is an allocator that is measured.
type subject struct {
	name string
	open func(w workload) (instance, error) // makes one, and runs the workload once
}

var subjects = []subject{
	{"caching", openCaching},
	{"planned", openPlanned},
	{"with history", openRecording},
	{"mutex+map", openMap},
	{"naive (mmap)", openNaive},
}

// openCaching makes Cistern's caching allocator on a driver that costs nothing.
func openCaching(w workload) (instance, error) {
	d := &freeDriver{}
	a, err := memory.New(d, memory.Config{})
	if err != nil {
		return nil, err
	}
	return start(w, &bench[memory.Block]{pool: a, streams: freeStreams(w.threads), reserved: d.bytes, closePool: a.Close})
}

// openPlanned is openCaching with a plan, to which each time that the first thread does the workload is a step.
func openPlanned(w workload) (instance, error) {
	d := &freeDriver{}
	a, err := memory.New(d, memory.Config{})
	if err != nil {
		return nil, err
	}
	plan, err := a.NewPlan()
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	b := &bench[memory.Block]{pool: a, streams: freeStreams(w.threads), reserved: d.bytes, closePool: func() error { return errors.Join(plan.Close(), a.Close()) }}
	if _, err := start(w, b); err != nil {
		return nil, err
	}
	b.workers[0].begin = plan.Step
	for range stepsToLearn {
		if _, err := b.run(1); err != nil {
			return nil, errors.Join(err, b.close())
		}
		if err := plan.Wait(context.Background()); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// stepsToLearn is after how many steps a plan knows one that repeats.
const stepsToLearn = 4

// openRecording is openCaching with the allocation history on, everything in it: each allocation and free, with Go call stacks.
func openRecording(w workload) (instance, error) {
	d := &freeDriver{}
	a, err := memory.New(d, memory.Config{})
	if err != nil {
		return nil, err
	}
	if err := a.RecordHistory(memory.HistoryOptions{}); err != nil {
		return nil, err
	}
	return start(w, &bench[memory.Block]{pool: a, streams: freeStreams(w.threads), reserved: d.bytes, closePool: a.Close})
}

// openMap makes the baseline on the same driver.
func openMap(w workload) (instance, error) {
	d := &freeDriver{}
	nothing := func() error { return nil }
	return start(w, &bench[mapBlock]{pool: newExactMap(d), streams: freeStreams(w.threads), reserved: d.bytes, closePool: nothing})
}

// openNaive makes the allocator without a cache, on real memory. It has no holes to make: what is freed is gone.
func openNaive(w workload) (instance, error) {
	dev := host.New()
	a := memory.NewDirect(dev)
	b := &bench[memory.Block]{pool: a, streams: []device.Stream{dev.DefaultStream()}}
	b.reserved = func() uint64 { return 0 }
	b.closePool = func() error {
		if err := a.Close(); err != nil {
			return err
		}
		return dev.Close()
	}
	for len(b.streams) < w.threads {
		s, err := dev.NewStream()
		if err != nil {
			return nil, err
		}
		b.streams = append(b.streams, s)
	}
	w.holes = nil
	return start(w, b)
}

// freeDriver hands out addresses and nothing else, so that an allocator on it is timed alone.
type freeDriver struct {
	next  atomic.Uint64
	taken atomic.Uint64
}

func (d *freeDriver) ID() device.ID { return device.ID{Kind: device.Sim} }

// Malloc returns an address aligned to 2 MiB, higher than all before.
func (d *freeDriver) Malloc(n uint64) (device.Ptr, error) {
	d.taken.Add(n)
	size := (n + 2*device.MiB - 1) &^ (2*device.MiB - 1)
	return device.Ptr(d.next.Add(size+2*device.MiB) - size), nil
}

func (d *freeDriver) Free(device.Ptr) error { return nil }

func (d *freeDriver) MemInfo() (device.MemInfo, error) {
	return device.MemInfo{Free: device.TiB, Total: device.TiB}, nil
}

func (d *freeDriver) NewEvent() (device.Event, error) { return doneEvent{}, nil }

// bytes is what has been taken in all.
func (d *freeDriver) bytes() uint64 { return d.taken.Load() }

// doneEvent is always complete.
type doneEvent struct{}

func (doneEvent) Done() (bool, error)               { return true, nil }
func (doneEvent) Synchronize(context.Context) error { return nil }
func (doneEvent) Close() error                      { return nil }

// idleStream is a stream in name only: nothing is ever enqueued on it.
type idleStream struct {
	device.Stream // nil: the rest of the methods is not used by allocators
	id            device.StreamID
}

// idleDevice is the device of such streams, a freeDriver's.
type idleDevice struct{ device.Device }

func (idleDevice) ID() device.ID { return (*freeDriver)(nil).ID() }

func (s *idleStream) ID() device.StreamID               { return s.id }
func (s *idleStream) Device() device.Device             { return idleDevice{} }
func (s *idleStream) Record(device.Event) error         { return nil }
func (s *idleStream) Done() (bool, error)               { return true, nil }
func (s *idleStream) Synchronize(context.Context) error { return nil }

func freeStreams(n int) []device.Stream {
	var streams []device.Stream
	for i := range n {
		streams = append(streams, &idleStream{id: device.StreamID(i)})
	}
	return streams
}
