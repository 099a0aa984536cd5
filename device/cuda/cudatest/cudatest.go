// Package cudatest gives tests CUDA devices without a GPU: package cuda on the emulated driver of internal/fakecuda. Where
// that cannot be built, the tests are skipped.
//
//	rig := cudatest.New(t, 2)
//	a, b := rig.Devices[0], rig.Devices[1]
//	rig.Fail("cuMemAlloc_v2", 1, 2) // the next allocation finds no memory
//
// The emulated driver's state is that of the process, so tests with a Rig do not run in parallel.
package cudatest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// Capacity is the memory of each emulated device in bytes, unless a setting says otherwise.
const Capacity = 256 << 20

// Rig is the emulated driver, with its knobs, and its devices.
type Rig struct {
	*fakecuda.Library
	Devices []*cuda.Device

	t        testing.TB
	expected []string
}

// Expect says that the driver will find something wrong that contains text.
func (r *Rig) Expect(text string) { r.expected = append(r.expected, text) }

// New starts the emulated driver with a number of devices. settings turn knobs before that. At the end of the test the
// devices are closed, and the test fails if the driver then has anything left or has found anything wrong, except on a
// device that was lost to a sticky error.
func New(t testing.TB, devices int, settings ...func(*fakecuda.Library)) *Rig {
	t.Helper()
	return start(t, devices, fakecuda.Build(t), nil, settings)
}

// NewCUBLAS is New with the emulated cuBLAS and cuBLASLt, which New's devices do without.
func NewCUBLAS(t testing.TB, devices int, settings ...func(*fakecuda.Library)) *Rig {
	t.Helper()
	path := fakecuda.Build(t)
	return start(t, devices, path, []cuda.LibraryOption{cuda.WithCUBLAS(path)}, settings)
}

func start(t testing.TB, devices int, path string, options []cuda.LibraryOption, settings []func(*fakecuda.Library)) *Rig {
	t.Helper()
	r := &Rig{Library: fakecuda.Open(t, path), t: t}
	r.Library.Devices(devices)
	for i := range devices {
		r.Library.Capacity(i, Capacity)
	}
	for _, set := range settings {
		if set != nil {
			set(r.Library)
		}
	}
	var err error
	r.Devices, err = cuda.OpenLibrary(path, options...)
	require.NoError(t, err)
	require.Len(t, r.Devices, devices)
	t.Cleanup(r.finish)
	return r
}

// finish closes the devices and asserts that nothing is left.
func (r *Rig) finish() {
	r.ClearFaults()
	r.Release()
	lost := false
	for _, d := range r.Devices {
		err := d.Close()
		if d.Err() == nil {
			require.NoError(r.t, err)
		} else {
			lost = true
		}
	}
	if r.t.Failed() {
		for _, finding := range r.Findings() {
			r.t.Log("the driver found: " + finding)
		}
		return
	}
	if lost {
		return
	}
	require.Empty(r.t, r.Leaks(), "left in the driver")
	for _, finding := range r.Findings() {
		known := func(text string) bool { return strings.Contains(finding, text) }
		require.True(r.t, slices.ContainsFunc(r.expected, known), "the driver found: %s", finding)
	}
}

// Stream returns a new stream of a device, which is closed at the end of the test.
func (r *Rig) Stream(d *cuda.Device) *cuda.Stream {
	r.t.Helper()
	s, err := d.NewStream()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { r.done(d, s.Close()) })
	return s.(*cuda.Stream)
}

// Event returns a new event of a device, which is closed at the end of the test.
func (r *Rig) Event(d *cuda.Device) *cuda.Event {
	r.t.Helper()
	e, err := d.NewEvent()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { r.done(d, e.Close()) })
	return e.(*cuda.Event)
}

func (r *Rig) done(d *cuda.Device, err error) {
	if d.Err() == nil {
		require.NoError(r.t, err)
	}
}

// Malloc returns memory of a device. What the test does not free, closing the device does.
func (r *Rig) Malloc(d *cuda.Device, bytes uint64) device.Ptr {
	r.t.Helper()
	p, err := d.Malloc(bytes)
	require.NoError(r.t, err)
	return p
}

// Pattern is n bytes that look like no other seed's.
func Pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*37 + i*11 + i>>8)
	}
	return b
}
