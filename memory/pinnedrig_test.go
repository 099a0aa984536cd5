package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// pinnedRig is a pinned allocator on a simulated device whose streams finish when the test says so. Each step that goes
// through it is followed by check.
type pinnedRig struct {
	t   testing.TB
	dev *sim.Device
	p   *Pinned
}

// newPinnedRig makes an allocator with settings in text form. At the end of the test it is closed, and the device must have
// everything back.
func newPinnedRig(t testing.TB, conf string) *pinnedRig {
	return buildPinnedRig(t, conf, func(d *sim.Device) PinnedDriver { return d })
}

func buildPinnedRig(t testing.TB, conf string, driver func(*sim.Device) PinnedDriver) *pinnedRig {
	t.Helper()
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	dev := sim.New(mib, sim.ManualStreams())
	p, err := NewPinned(driver(dev), c)
	require.NoError(t, err)
	r := &pinnedRig{t, dev, p}
	t.Cleanup(r.close)
	return r
}

func (r *pinnedRig) close() {
	r.dev.Inject(nil)
	if err := r.p.Close(); err != nil {
		require.ErrorIs(r.t, err, ErrLeak)
	}
	live := r.dev.Live()
	live.Streams = 0 // they are the test's
	require.Equal(r.t, sim.Live{}, live)
	require.NoError(r.t, r.p.check())
}

func (r *pinnedRig) stream(id int) device.Stream { return r.dev.Stream(device.StreamID(id)) }
func (r *pinnedRig) complete(id int)             { r.dev.Complete(device.StreamID(id)) }

func (r *pinnedRig) check() {
	r.t.Helper()
	require.NoError(r.t, r.p.check())
}

// alloc allocates; it must succeed.
func (r *pinnedRig) alloc(bytes uint64) PinnedBlock {
	r.t.Helper()
	b, err := r.p.Alloc(bytes)
	require.NoError(r.t, err)
	require.Len(r.t, b.Bytes(), int(bytes))
	r.check()
	return b
}

func (r *pinnedRig) free(blocks ...PinnedBlock) {
	r.t.Helper()
	for _, b := range blocks {
		require.NoError(r.t, r.p.Free(b))
		r.check()
	}
}

// record notes that work on streams uses b.
func (r *pinnedRig) record(b PinnedBlock, streams ...int) {
	r.t.Helper()
	for _, id := range streams {
		require.NoError(r.t, r.p.RecordStream(b, r.stream(id)))
		r.check()
	}
}

// beginCapture begins a capture; it must succeed.
func (r *pinnedRig) beginCapture(capturing func(device.Stream) bool) *PinnedCapture {
	r.t.Helper()
	c, err := r.p.BeginCapture(capturing)
	require.NoError(r.t, err)
	return c
}

func (r *pinnedRig) empty() {
	r.t.Helper()
	require.NoError(r.t, r.p.EmptyCache())
	r.check()
}

func (r *pinnedRig) conf(text string) {
	r.t.Helper()
	c, err := ParseConfig(text)
	require.NoError(r.t, err)
	require.NoError(r.t, r.p.SetConfig(c))
}

// calls counts the driver calls of a kind so far.
func (r *pinnedRig) calls(kind sim.CallKind) int { return int(r.dev.Calls().Count[kind]) }

// allocated and active are the present bytes of the statistics.
func (r *pinnedRig) allocated() int { return int(r.p.Stats().AllocatedBytes.Current) }
func (r *pinnedRig) active() int    { return int(r.p.Stats().ActiveBytes.Current) }

// same reports whether two blocks are the same memory.
func (r *pinnedRig) same(a, b PinnedBlock) bool { return &a.Bytes()[0] == &b.Bytes()[0] }

func (r *pinnedRig) requireSame(want, got PinnedBlock) {
	r.t.Helper()
	require.True(r.t, r.same(want, got), "the block is other memory")
}

func (r *pinnedRig) requireOther(a, b PinnedBlock) {
	r.t.Helper()
	require.False(r.t, r.same(a, b), "the block is the same memory")
}
