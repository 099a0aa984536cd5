package memtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// Opener makes the allocator under test for a device. The suite closes it.
type Opener func(t testing.TB, dev device.Device) memory.Allocator

// Option says what the suite may expect, or where it runs.
type Option func(*suite)

// Caches is for allocators that keep freed memory for later requests: the suite then expects reuse on the same stream
// without a driver call, and Free not to wait for anything.
func Caches() Option { return func(s *suite) { s.caches = true } }

// Checked adds a proof of the allocator's own invariants, which runs after each step. No call of the allocator is under way
// in this goroutine; in the tests of concurrency there may be others.
func Checked(check func(memory.Allocator) error) Option { return func(s *suite) { s.check = check } }

// On adds a device to run on. open returns a device that nobody else uses, of which the suite closes nothing but what it
// opened itself. Its memory has content. The tests that command a simulated device are not run on it.
func On(name string, open func(t testing.TB) device.Device) Option {
	return func(s *suite) {
		s.places = append(s.places, devicePlace{name: name, open: open, storage: true, whole: true})
	}
}

// OnReal is On for a device whose free memory also moves without the test's doing: the driver takes some for itself, with the first
// work of a stream for one, or other processes do. Differences of that size are not looked at.
func OnReal(name string, open func(t testing.TB) device.Device) Option {
	return func(s *suite) {
		s.places = append(s.places, devicePlace{name: name, open: open, storage: true, whole: true, slack: realSlack})
	}
}

// suite is what the tests know.
type suite struct {
	open   Opener
	caches bool
	check  func(memory.Allocator) error
	places []devicePlace
}

// devicePlace is a device on which the suite runs.
type devicePlace struct {
	name    string
	open    func(t testing.TB) device.Device
	storage bool // blocks have content
	whole   bool // and are written from end to end, which shows that all of a block is memory
	slack   uint64
}

// realSlack is how far the free memory of a real device may be from what it should be.
const realSlack = 64 * device.MiB

// simCapacity is large enough for blocks of several GiB, hostCapacity small enough to be filled.
const (
	simCapacity  = 16 * device.GiB
	hostCapacity = 256 * device.MiB
)

func simulated(t testing.TB) device.Device {
	dev := sim.New(simCapacity, sim.ManualStreams())
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

func onHost(t testing.TB) device.Device {
	dev := host.New(host.Capacity(hostCapacity), host.CheckBounds())
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// test is one test. Its name says what it shows.
type test struct {
	name string
	run  func(*fixture)
}

// groups are all tests, in the order of what they build on.
var groups = []struct {
	name  string
	tests []test
}{
	{"Sizes", sizeTests}, {"Content", contentTests}, {"Handles", handleTests}, {"Streams", streamTests}, {"Later", laterTests},
	{"Cache", cacheTests}, {"OutOfMemory", oomTests}, {"Stats", statsTests}, {"Close", closeTests}, {"Concurrency", concurrencyTests},
}

// TestAllocator runs the suite. Tests of faults, on simulated devices of their own, come last.
func TestAllocator(t *testing.T, open Opener, options ...Option) {
	s := &suite{open: open, places: []devicePlace{{name: "sim", open: simulated}, {name: "host", open: onHost, storage: true}}}
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	for _, place := range s.places {
		t.Run(place.name, func(t *testing.T) {
			for _, group := range groups {
				t.Run(group.name, func(t *testing.T) {
					for _, test := range group.tests {
						t.Run(test.name, func(t *testing.T) { test.run(s.fixture(t, place)) })
					}
				})
			}
		})
	}
	t.Run("Faults", func(t *testing.T) { s.testFaults(t) })
}
