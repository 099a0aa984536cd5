package pinned

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

var errInjected = errors.New("injected failure")

// rig is a pinned allocator on a simulated device whose streams finish when the test says so. Each step that goes
// through it is followed by check.
type rig struct {
	t   testing.TB
	dev *sim.Device
	p   *Allocator
}

// newRig makes an allocator with settings in text form. At the end of the test it is closed, and the device must have
// everything back.
func newRig(t testing.TB, conf string) *rig {
	return buildRig(t, conf, func(d *sim.Device) Driver { return d })
}

func buildRig(t testing.TB, conf string, driver func(*sim.Device) Driver) *rig {
	t.Helper()
	c, err := memory.ParseConfig(conf)
	require.NoError(t, err)
	dev := sim.New(mib, sim.ManualStreams())
	p, err := New(driver(dev), c)
	require.NoError(t, err)
	r := &rig{t, dev, p}
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	r.dev.Inject(nil)
	if err := r.p.Close(); err != nil {
		require.ErrorIs(r.t, err, memory.ErrLeak)
	}
	live := r.dev.Live()
	live.Streams = 0 // they are the test's
	require.Equal(r.t, sim.Live{}, live)
	require.NoError(r.t, r.p.check())
}

func (r *rig) stream(id int) device.Stream { return r.dev.Stream(device.StreamID(id)) }
func (r *rig) complete(id int)             { r.dev.Complete(device.StreamID(id)) }

func (r *rig) check() {
	r.t.Helper()
	require.NoError(r.t, r.p.check())
}

// alloc allocates; it must succeed.
func (r *rig) alloc(bytes uint64) Block {
	r.t.Helper()
	b, err := r.p.Alloc(bytes)
	require.NoError(r.t, err)
	require.Len(r.t, b.Bytes(), int(bytes))
	r.check()
	return b
}

func (r *rig) free(blocks ...Block) {
	r.t.Helper()
	for _, b := range blocks {
		require.NoError(r.t, r.p.Free(b))
		r.check()
	}
}

// record notes that work on streams uses b.
func (r *rig) record(b Block, streams ...int) {
	r.t.Helper()
	for _, id := range streams {
		require.NoError(r.t, r.p.RecordStream(b, r.stream(id)))
		r.check()
	}
}

// beginCapture begins a capture; it must succeed.
func (r *rig) beginCapture(capturing func(device.Stream) bool) *Capture {
	r.t.Helper()
	c, err := r.p.BeginCapture(capturing)
	require.NoError(r.t, err)
	return c
}

func (r *rig) empty() {
	r.t.Helper()
	require.NoError(r.t, r.p.EmptyCache())
	r.check()
}

func (r *rig) conf(text string) {
	r.t.Helper()
	c, err := memory.ParseConfig(text)
	require.NoError(r.t, err)
	require.NoError(r.t, r.p.SetConfig(c))
}

// calls counts the driver calls of a kind so far.
func (r *rig) calls(kind sim.CallKind) int { return int(r.dev.Calls().Count[kind]) }

// allocated and active are the present bytes of the statistics.
func (r *rig) allocated() int { return int(r.p.Stats().AllocatedBytes.Current) }
func (r *rig) active() int    { return int(r.p.Stats().ActiveBytes.Current) }

// same reports whether two blocks are the same memory.
func (r *rig) same(a, b Block) bool { return &a.Bytes()[0] == &b.Bytes()[0] }

func (r *rig) requireSame(want, got Block) {
	r.t.Helper()
	require.True(r.t, r.same(want, got), "the block is other memory")
}

func (r *rig) requireOther(a, b Block) {
	r.t.Helper()
	require.False(r.t, r.same(a, b), "the block is the same memory")
}
