package devicetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var concurrencyTests = []test{
	{"EightGoroutinesOnTheirOwnStreams", testGoroutines},
	{"EightGoroutinesOnOneStream", testSharedStream},
}

const goroutines = 8

// together runs f in eight goroutines and fails the test with the first error of each.
func together(t *testing.T, f func(worker int) error) {
	t.Helper()
	var group sync.WaitGroup
	errs := make([]error, goroutines)
	for worker := range goroutines {
		group.Go(func() { errs[worker] = f(worker) })
	}
	group.Wait()
	for worker, err := range errs {
		require.NoError(t, err, "goroutine %d", worker)
	}
}

func testGoroutines(s *suite, t *testing.T, dev device.Device) {
	before := freeBytes(t, dev)
	together(t, func(worker int) error {
		stream, err := dev.NewStream()
		if err != nil {
			return err
		}
		for round := range 20 {
			if err := s.visit(dev, stream, worker*100+round); err != nil {
				return err
			}
		}
		return stream.Close()
	})
	require.NoError(t, dev.Synchronize(context.Background()))
	s.requireFree(t, dev, before)
}

func testSharedStream(s *suite, t *testing.T, dev device.Device) {
	before := freeBytes(t, dev)
	for _, stream := range streams(t, dev) {
		together(t, func(worker int) error {
			for round := range 20 {
				if err := s.visit(dev, stream, worker*100+round); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.requireFree(t, dev, before)
}

// visit takes memory, passes a value through it, and gives it back.
func (s *suite) visit(dev device.Device, stream device.Stream, seed int) error {
	const n = 10_000
	p, err := dev.Malloc(2 * n)
	if err != nil {
		return err
	}
	event, err := dev.NewEvent()
	if err != nil {
		return err
	}
	in, out := pattern(seed, n), make([]byte, n)
	for _, step := range []func() error{
		func() error { return stream.CopyToDevice(p, in) },
		func() error { return stream.Copy(p.Add(n), p, n) },
		func() error { return stream.Record(event) },
		func() error { return stream.Wait(event) },
		func() error { return event.Synchronize(context.Background()) },
		func() error { _, err := event.Done(); return err },
		func() error { return stream.CopyToHost(out, p.Add(n)) },
		func() error { _, err := dev.MemInfo(); return err },
		func() error { return event.Close() },
		func() error { return dev.Free(p) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if s.storage && string(in) != string(out) {
		return fmt.Errorf("content of seed %d was lost", seed)
	}
	return nil
}
