package memory

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// rig is a caching allocator on a simulated device whose streams finish when the test says so. Each step that goes through
// it is followed by check.
type rig struct {
	t     testing.TB
	dev   *sim.Device
	a     *Caching
	calls []sim.Call // since takeLog; only written while the device is locked, and the tests that read it use one goroutine
}

// cudaDriver is a simulated device that says it is the first GPU, for texts that must equal PyTorch's.
type cudaDriver struct{ *sim.Device }

func (cudaDriver) ID() device.ID { return device.ID{Kind: device.CUDA} }

// newRig makes an allocator with settings in text form. At the end of the test it is closed, with blocks in use or not, and
// the device must have everything back.
func newRig(t testing.TB, capacity uint64, conf string) *rig {
	return buildRig(t, capacity, conf, func(d *sim.Device) Driver { return d })
}

// newCUDARig is newRig with a device that calls itself cuda:0.
func newCUDARig(t testing.TB, capacity uint64, conf string) *rig {
	return buildRig(t, capacity, conf, func(d *sim.Device) Driver { return cudaDriver{d} })
}

func buildRig(t testing.TB, capacity uint64, conf string, driver func(*sim.Device) Driver) *rig {
	t.Helper()
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	r := &rig{t: t}
	r.dev = sim.New(capacity, sim.ManualStreams(), sim.OnCall(func(c sim.Call) { r.calls = append(r.calls, c) }))
	r.a, err = New(driver(r.dev), c)
	require.NoError(t, err)
	r.calls = nil // not those of New
	t.Cleanup(r.close)
	return r
}

// close closes the allocator and proves that the device has all memory and events back.
func (r *rig) close() {
	r.dev.Inject(nil)
	if err := r.a.Close(); !errors.Is(err, ErrLeak) {
		require.NoError(r.t, err)
	}
	live := r.dev.Live()
	live.Streams = 0 // they are the test's
	require.Equal(r.t, sim.Live{}, live)
}

func (r *rig) stream(id int) device.Stream { return r.dev.Stream(device.StreamID(id)) }

// alloc allocates on a stream; it must succeed.
func (r *rig) alloc(bytes uint64, stream int) Block {
	r.t.Helper()
	b, err := r.tryAlloc(bytes, stream)
	require.NoError(r.t, err)
	return b
}

func (r *rig) tryAlloc(bytes uint64, stream int) (Block, error) {
	r.t.Helper()
	b, err := r.a.Alloc(bytes, r.stream(stream))
	r.check()
	return b, err
}

func (r *rig) free(blocks ...Block) {
	r.t.Helper()
	for _, b := range blocks {
		require.NoError(r.t, r.a.Free(b))
		r.check()
	}
}

// record notes that work on a stream uses b.
func (r *rig) record(b Block, stream int) {
	r.t.Helper()
	require.NoError(r.t, r.a.RecordStream(b, r.stream(stream)))
}

func (r *rig) empty() {
	r.t.Helper()
	require.NoError(r.t, r.a.EmptyCache())
	r.check()
}

// conf changes the settings.
func (r *rig) conf(text string) {
	r.t.Helper()
	c, err := ParseConfig(text)
	require.NoError(r.t, err)
	require.NoError(r.t, r.a.SetConfig(c))
	r.check()
}

func (r *rig) complete(stream int) { r.dev.Complete(device.StreamID(stream)) }

func (r *rig) check() {
	r.t.Helper()
	if err := r.a.check(); err != nil {
		require.NoError(r.t, err, "\n%s", r.a.picture())
	}
}

// place is where a block lies: the number of the segment, in the order in which the device gave them, and the offset.
type place struct {
	segment int
	offset  uint64
}

func (r *rig) place(b Block) place {
	r.t.Helper()
	n, offset, ok := r.dev.Segment(b.Ptr())
	require.True(r.t, ok, "block at %#x is outside all segments", uintptr(b.Ptr()))
	return place{n, offset}
}

// reserved is what the allocator holds of the device now.
func (r *rig) reserved() uint64 { return uint64(r.a.Stats().ReservedBytes.All.Current) }

// requirePicture compares the segments with a drawing. Lines may be indented.
func (r *rig) requirePicture(lines ...string) {
	r.t.Helper()
	require.Equal(r.t, strings.Join(append(lines, ""), "\n"), r.a.picture())
}

// takeLog returns the lines of the driver log since the last call, as sim.Call.LogLine writes them: "M 0 2097152".
func (r *rig) takeLog() []string {
	var log []string
	for _, c := range r.calls {
		if line := string(c.LogLine(nil)); line != "" {
			log = append(log, strings.TrimSuffix(line, "\n"))
		}
	}
	r.calls = nil
	return log
}

// takeCalls returns how many calls of a kind there were since the last call of takeCalls or takeLog.
func (r *rig) takeCalls(kind sim.CallKind) int {
	n := 0
	for _, c := range r.calls {
		if c.Kind == kind {
			n++
		}
	}
	r.calls = nil
	return n
}

// requireOOM asserts an out-of-memory error for the reason given, ErrLimit or ErrDeviceFull, and returns it.
func requireOOM(t testing.TB, err, reason error) *OOMError {
	t.Helper()
	var oom *OOMError
	require.ErrorAs(t, err, &oom)
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.ErrorIs(t, err, reason)
	other := ErrLimit
	if reason == ErrLimit {
		other = ErrDeviceFull
	}
	require.NotErrorIs(t, err, other)
	return oom
}
