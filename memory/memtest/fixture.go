package memtest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// alignment is what every block's address is a multiple of, in bytes.
const alignment = 512

// fixture is an allocator on a device, with a model of the blocks in use.
type fixture struct {
	*suite
	t       *testing.T
	dev     device.Device
	sim     *sim.Device // the device if it is a simulated one that the suite made, else nil
	storage bool
	whole   bool
	slack   uint64 // of the device's free memory
	alloc   memory.Allocator
	streams []device.Stream // four; the first is the default stream
	live    []*held
	seed    byte // of the next block's pattern
}

// held is a block in use.
type held struct {
	block  memory.Block
	bytes  uint64 // as requested
	stream device.Stream
	seed   byte
}

// numStreams is how many streams a fixture has.
const numStreams = 4

// fixture opens a device and an allocator; both are closed at the end of the test, where nothing may be left.
func (s *suite) fixture(t *testing.T, place devicePlace) *fixture {
	f := &fixture{suite: s, t: t, dev: place.open(t), storage: place.storage, whole: place.whole, slack: place.slack}
	if dev, ok := f.dev.(*sim.Device); ok {
		f.sim = dev
	}
	f.streams = []device.Stream{f.dev.DefaultStream()}
	for len(f.streams) < numStreams {
		stream, err := f.dev.NewStream()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, stream.Close()) })
		f.streams = append(f.streams, stream)
	}
	before := f.freeBytes()
	f.alloc = s.open(t, f.dev)
	require.Equal(t, f.dev.ID(), f.alloc.Device())
	t.Cleanup(func() {
		if err := f.alloc.Close(); !errors.Is(err, memory.ErrLeak) {
			require.NoError(t, err)
		}
		f.requireFree(before)
	})
	return f
}

// freeBytes is what the device has left.
func (f *fixture) freeBytes() uint64 {
	info, err := f.dev.MemInfo()
	require.NoError(f.t, err)
	return info.Free
}

// requireFree asserts what the device has left.
func (f *fixture) requireFree(want uint64) {
	f.t.Helper()
	got := f.freeBytes()
	require.LessOrEqual(f.t, max(got, want)-min(got, want), f.slack, "%d bytes are free, want %d", got, want)
}

// take allocates; it must succeed.
func (f *fixture) take(bytes uint64, s device.Stream) *held {
	f.t.Helper()
	h, err := f.try(bytes, s)
	require.NoError(f.t, err)
	return h
}

// try allocates, enters the block into the model and writes to both of its ends.
func (f *fixture) try(bytes uint64, s device.Stream) (*held, error) {
	f.t.Helper()
	b, err := f.alloc.Alloc(bytes, s)
	if err != nil {
		require.True(f.t, b.IsZero(), "a block beside an error")
		f.verify()
		return nil, err
	}
	f.seed++
	h := &held{block: b, bytes: bytes, stream: s, seed: f.seed}
	f.requireSound(h)
	f.live = append(f.live, h)
	f.mark(h)
	f.verify()
	return h, nil
}

// requireSound asserts what every new block must be.
func (f *fixture) requireSound(h *held) {
	f.t.Helper()
	b := h.block
	require.False(f.t, b.IsZero())
	require.NotZero(f.t, b.Ptr())
	require.Zero(f.t, uint64(b.Ptr())%alignment, "address %#x", uintptr(b.Ptr()))
	require.GreaterOrEqual(f.t, b.Size(), h.bytes)
	for _, other := range f.live {
		o := other.block
		if o.Ptr() < b.Ptr().Add(b.Size()) && b.Ptr() < o.Ptr().Add(o.Size()) {
			require.Fail(f.t, "blocks overlap", "%d bytes at %#x, and %d at %#x, which are in use",
				b.Size(), uintptr(b.Ptr()), o.Size(), uintptr(o.Ptr()))
		}
	}
}

// edge is how many bytes at each end of a block carry its pattern.
const edge = 64

// pattern is what the block's ends hold.
func (h *held) pattern() []byte {
	p := make([]byte, min(edge, h.bytes))
	for i := range p {
		p[i] = h.seed*31 + byte(i)
	}
	return p
}

// mark writes the pattern to both ends, as work on the block's stream. Where nothing is stored, and where a test brings the device, that
// device still checks that the whole block is memory. On the host that would touch all of its pages.
func (f *fixture) mark(h *held) {
	f.t.Helper()
	if !f.storage || f.whole {
		require.NoError(f.t, h.stream.Fill(h.block.Ptr(), 0, h.block.Size()))
	}
	if !f.storage {
		return
	}
	p := h.pattern()
	require.NoError(f.t, h.stream.CopyToDevice(h.block.Ptr(), p))
	require.NoError(f.t, h.stream.CopyToDevice(h.last(), p))
}

// last is where the pattern at the end begins.
func (h *held) last() device.Ptr { return h.block.Ptr().Add(h.bytes - min(edge, h.bytes)) }

// requireContent asserts that nobody wrote to the block.
func (f *fixture) requireContent(h *held) {
	f.t.Helper()
	if !f.storage {
		return
	}
	want := h.pattern()
	got := make([]byte, len(want))
	for _, p := range []device.Ptr{h.last(), h.block.Ptr()} {
		require.NoError(f.t, h.stream.CopyToHost(got, p))
		if h.bytes >= 2*edge || p == h.last() { // the ends of a tiny block overlap: the last write counts
			require.True(f.t, bytes.Equal(want, got), "block of %d bytes: want %x, got %x", h.bytes, want, got)
		}
	}
}

// give frees a block after a look at its content.
func (f *fixture) give(h *held) {
	f.t.Helper()
	f.requireContent(h)
	f.forget(h)
	require.NoError(f.t, f.alloc.Free(h.block))
	f.verify()
}

// forget takes a block out of the model.
func (f *fixture) forget(h *held) {
	for i, other := range f.live {
		if other == h {
			f.live[i] = f.live[len(f.live)-1]
			f.live = f.live[:len(f.live)-1]
			return
		}
	}
	require.Fail(f.t, "the block is not in use")
}

// giveAll frees everything.
func (f *fixture) giveAll() {
	f.t.Helper()
	for len(f.live) > 0 {
		f.give(f.live[len(f.live)-1])
	}
}

// verify compares the statistics with the model and calls the allocator's own proof.
func (f *fixture) verify() {
	f.t.Helper()
	s := f.alloc.Stats()
	var size uint64
	for _, h := range f.live {
		size += h.block.Size()
	}
	got := holdings{s.Allocation.All.Current, s.AllocatedBytes.All.Current}
	require.Equal(f.t, holdings{int64(len(f.live)), int64(size)}, got, "what the statistics say is in use")
	require.Empty(f.t, contradiction(s))
	f.prove()
}

func (f *fixture) prove() {
	f.t.Helper()
	if f.check != nil {
		require.NoError(f.t, f.check(f.alloc))
	}
}
