// Package devicetest is the conformance suite of device.Device: what each device must do, as tests. A device runs it in a few
// lines:
//
//	func TestConformance(t *testing.T) {
//		devicetest.TestDevice(t, func(*testing.T) device.Device { return host.New(host.Capacity(64 << 20)) })
//	}
//
// What only some devices have is tested when the device has it: device.VirtualMemory, device.PinnedMemory, and streams that
// are device.Executor.
package devicetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// Option says what the suite may expect.
type Option func(*suite)

// NoStorage is for devices that keep no content: copies are made and their content is not looked at.
func NoStorage() Option { return func(s *suite) { s.storage = false } }

// Shared is for devices that open gives to every test anew and that must not be closed: the suite leaves them open and skips
// the tests of Close.
func Shared() Option { return func(s *suite) { s.shared = true } }

// Inexact is for devices whose free memory also moves without the test's doing: other processes use it, or the driver does
// for itself. The suite then does not look at how far MemInfo moves.
func Inexact() Option { return func(s *suite) { s.exact = false } }

// suite is what the tests know.
type suite struct {
	open    func(*testing.T) device.Device
	storage bool
	shared  bool
	exact   bool
}

// TestDevice runs the suite. open returns a device that nobody else uses; the suite closes it. Its capacity is best small
// (at least 32 MiB), since one test takes all of it.
func TestDevice(t *testing.T, open func(t *testing.T) device.Device, options ...Option) {
	s := &suite{open: open, storage: true, exact: true}
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Memory", memoryTests}, {"Copies", copyTests}, {"Streams", streamTests}, {"Events", eventTests},
		{"Executor", executorTests}, {"Queue", queueTests}, {"VirtualMemory", virtualTests}, {"PinnedMemory", pinnedTests},
		{"Concurrency", concurrencyTests}, {"Close", closeTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(s, t, s.device(t)) })
			}
		})
	}
}

// test is one test. Its name says what it shows.
type test struct {
	name string
	run  func(*suite, *testing.T, device.Device)
}

// device opens a device that is closed at the end of the test.
func (s *suite) device(t *testing.T) device.Device {
	dev := s.open(t)
	require.NotNil(t, dev)
	if !s.shared {
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
	}
	return dev
}

// malloc takes memory that the test does not free by hand.
func malloc(t *testing.T, dev device.Device, bytes uint64) device.Ptr {
	t.Helper()
	p, err := dev.Malloc(bytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := dev.Free(p); !errors.Is(err, device.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return p
}

func newStream(t *testing.T, dev device.Device) device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newEvent(t *testing.T, dev device.Device) device.Event {
	t.Helper()
	e, err := dev.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// requireError asserts that err is what every error of a device must be: an *device.Error of this device that matches target.
func requireError(t *testing.T, dev device.Device, err, target error) {
	t.Helper()
	require.ErrorIs(t, err, target)
	var failed *device.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, dev.ID(), failed.Device)
	require.NotEmpty(t, failed.Call)
}

// requireBytes asserts the content of device memory, as seen on a stream.
func (s *suite) requireBytes(t *testing.T, stream device.Stream, p device.Ptr, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	require.NoError(t, stream.CopyToHost(got, p))
	if s.storage {
		require.Equal(t, want, got)
	}
}

// requireFree asserts how much memory MemInfo says is free.
func (s *suite) requireFree(t *testing.T, dev device.Device, want uint64) {
	t.Helper()
	got := freeBytes(t, dev)
	if s.exact {
		require.Equal(t, want, got)
	}
}

func freeBytes(t *testing.T, dev device.Device) uint64 {
	t.Helper()
	info, err := dev.MemInfo()
	require.NoError(t, err)
	require.LessOrEqual(t, info.Free, info.Total)
	require.Equal(t, dev.Properties().TotalMemory, info.Total)
	return info.Free
}

// pattern is n bytes that look like no other seed's.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*37 + i*11 + i>>8)
	}
	return b
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
