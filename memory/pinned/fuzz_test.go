package pinned

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// FuzzPinned reads a script of operations from bytes, runs it on Allocator and on the model, and compares everything after each
// step: which memory was handed out, errors, statistics, and the content of all blocks that somebody may still use. The
// first byte chooses the settings; then each operation is a byte for what and one for which.
func FuzzPinned(f *testing.F) {
	f.Add([]byte{0, 0, 20, 0, 20, 2, 1, 1, 0, 3, 1, 0, 20})
	f.Add([]byte{1, 0, 60, 0, 61, 1, 0, 1, 0, 0, 61, 5, 0, 0, 60})
	f.Add([]byte{2, 7, 1, 0, 40, 2, 0, 2, 17, 7, 3, 1, 0, 4, 0, 0, 40, 3, 0, 3, 1, 0, 40, 0, 40})
	f.Add([]byte{3, 0, 30, 8, 1, 2, 16, 1, 0, 0, 30, 9, 0, 9, 1, 0, 30, 6, 2, 0, 70, 1, 0})
	f.Add([]byte{0, 0, 50, 2, 0, 1, 0, 7, 2, 0, 51, 7, 4, 0, 70, 7, 5, 5, 0, 5, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 400 {
			return
		}
		z := newPinnedFuzzer(t, script[0])
		for i := 1; i+1 < len(script); i += 2 {
			z.step(script[i], script[i+1])
			z.compare()
		}
		z.finish()
	})
}

type pinnedFuzzer struct {
	t        *testing.T
	dev      *sim.Device
	p        *Allocator
	m        *pinnedModel
	held     []*modelBlock
	captures map[*modelCapture]*Capture
	stale    []Block
	mark     byte
}

// pinnedFuzzConfigs are the settings that scripts switch between.
var pinnedFuzzConfigs = []memory.Config{
	{},
	{PinnedMaxRoundThresholdBytes: 64 * kib},
	{PinnedMaxCachedBytes: 64 * kib, PinnedFreeCatchAll: true},
	{PinnedMaxRoundThresholdBytes: 16 * kib, PinnedMaxCachedBytes: 128 * kib, PinnedReserveSegmentBytes: 256 * kib},
}

// pinnedFuzzFaults are the driver calls that scripts make fail, and how.
var pinnedFuzzFaults = []struct {
	kind sim.CallKind
	err  error
}{
	{sim.CallAllocPinned, errDriver}, {sim.CallAllocPinned, device.ErrOutOfMemory}, {sim.CallFreePinned, errDriver},
	{sim.CallEventCreate, errDriver}, {sim.CallEventRecord, errDriver}, {sim.CallEventQuery, errDriver},
}

func newPinnedFuzzer(t *testing.T, conf byte) *pinnedFuzzer {
	c := pinnedFuzzConfigs[int(conf)%len(pinnedFuzzConfigs)]
	dev := sim.New(1, sim.ManualStreams())
	p, err := New(dev, c)
	require.NoError(t, err)
	require.NoError(t, p.RecordHistory(memory.HistoryOptions{Context: memory.HistoryContext(conf / 16 % 4)}))
	return &pinnedFuzzer{t: t, dev: dev, p: p, m: &pinnedModel{config: c, faults: map[sim.CallKind]error{}},
		captures: map[*modelCapture]*Capture{}}
}

func (z *pinnedFuzzer) stream(i int) device.Stream { return z.dev.Stream(device.StreamID(i)) }

func (z *pinnedFuzzer) step(what, which byte) {
	stream := int(which) % modelStreams
	switch what % 10 {
	case 0:
		z.alloc(pinnedFuzzSize(which))
	case 1:
		z.free(int(which))
	case 2:
		if len(z.held) > 0 {
			b := z.held[int(which/modelStreams)%len(z.held)]
			z.m.record(b, stream)
			require.NoError(z.t, z.p.RecordStream(b.handle, z.stream(stream)))
		}
	case 3:
		z.m.streams[stream].done = z.m.streams[stream].put
		z.dev.Complete(device.StreamID(stream))
	case 4:
		z.m.streams[stream].put++
		require.NoError(z.t, z.stream(stream).(device.Executor).Submit("work", nil))
	case 5:
		z.m.poll()
		z.requireError(z.m.releaseCached(), z.p.EmptyCache())
	case 6:
		z.m.config = pinnedFuzzConfigs[int(which)%len(pinnedFuzzConfigs)]
		require.NoError(z.t, z.p.SetConfig(z.m.config))
	case 7:
		f := pinnedFuzzFaults[int(which)%len(pinnedFuzzFaults)]
		if z.m.faults[f.kind] == nil {
			z.m.faults[f.kind] = f.err
			z.dev.FailNext(f.kind, 1, f.err)
		}
	case 8:
		z.capture(stream)
	case 9:
		z.uncapture(which)
	}
}

// pinnedFuzzSize turns a byte into a size: mostly around powers of two, from 1 byte to 512 KiB.
func pinnedFuzzSize(b byte) uint64 {
	return uint64(max(1, 1<<(b%20)+int(b/20)-6))
}

func (z *pinnedFuzzer) alloc(bytes uint64) {
	if len(z.m.blocks) > 60 {
		return
	}
	b, fresh, wantErr := z.m.alloc(bytes)
	h, err := z.p.Alloc(bytes)
	z.requireError(wantErr, err)
	if wantErr != nil {
		require.True(z.t, h.IsZero())
		return
	}
	require.Len(z.t, h.Bytes(), int(bytes))
	require.Equal(z.t, b.size, h.Size())
	if !fresh {
		require.Same(z.t, &b.handle.Bytes()[0], &h.Bytes()[0], "not the block that the model reuses")
	}
	for _, other := range z.m.blocks {
		require.False(z.t, fresh && other != b && &other.handle.Bytes()[0] == &h.Bytes()[0], "new memory that is in use")
	}
	z.mark++
	b.handle, b.mark = h, z.mark
	fill(pinnedEnds(h)[0], b.mark)
	fill(pinnedEnds(h)[1], b.mark)
	z.held = append(z.held, b)
}

// pinnedEnds are the first and the last bytes of a block.
func pinnedEnds(h Block) [2][]byte {
	mem := h.Bytes()
	n := min(len(mem), 32)
	return [2][]byte{mem[:n], mem[len(mem)-n:]}
}

func (z *pinnedFuzzer) free(which int) {
	if len(z.stale) > 0 {
		h := z.stale[which%len(z.stale)]
		require.ErrorIs(z.t, z.p.Free(h), memory.ErrDoubleFree)
		require.ErrorIs(z.t, z.p.RecordStream(h, z.stream(0)), memory.ErrUseAfterFree)
	}
	if len(z.held) == 0 {
		return
	}
	i := which % len(z.held)
	b := z.held[i]
	z.held = append(z.held[:i], z.held[i+1:]...)
	want := z.m.free(b)
	if z.m.config.PinnedFreeCatchAll {
		want = nil
	}
	z.requireError(want, z.p.Free(b.handle))
	z.stale = append(z.stale, b.handle)
}

func (z *pinnedFuzzer) capture(stream int) {
	if len(z.m.captures) >= 3 {
		return
	}
	c := &modelCapture{stream: stream}
	z.m.captures = append(z.m.captures, c)
	begun, err := z.p.BeginCapture(capturingStream(stream))
	require.NoError(z.t, err)
	z.captures[c] = begun
}

// uncapture ends a capture, or releases one.
func (z *pinnedFuzzer) uncapture(which byte) {
	if len(z.m.captures) == 0 {
		return
	}
	c := z.m.captures[int(which/2)%len(z.m.captures)]
	if which%2 == 0 {
		c.ended = true
		z.captures[c].End()
		return
	}
	want := z.m.letGo(c)
	if z.m.config.PinnedFreeCatchAll {
		want = nil
	}
	z.requireError(want, z.captures[c].Release())
}

func (z *pinnedFuzzer) requireError(want, got error) {
	z.t.Helper()
	if want == nil {
		require.NoError(z.t, got)
	} else {
		require.ErrorIs(z.t, got, want)
	}
}

// compare holds Allocator against the model.
func (z *pinnedFuzzer) compare() {
	require.NoError(z.t, z.p.check())
	s, m := z.p.Stats(), z.m
	total := int64(0)
	for _, b := range m.blocks {
		total += int64(b.size)
		if b.state == modelCached {
			continue
		}
		for _, end := range pinnedEnds(b.handle) {
			require.Empty(z.t, bytes.Trim(end, string([]byte{b.mark})), "the content of a block in use changed")
		}
	}
	require.Equal(z.t, [...]int64{int64(len(m.blocks)), total, m.active, m.activeBytes, m.peak, m.peakBytes, m.pins, m.unpins, m.freeErrors},
		[...]int64{s.Allocations.Current, s.AllocatedBytes.Current, s.ActiveRequests.Current, s.ActiveBytes.Current,
			s.ActiveRequests.Peak, s.ActiveBytes.Peak, s.NumHostAlloc, s.NumHostFree, s.NumFreeErrors})
	require.Equal(z.t, m.pins-m.unpins, int64(z.dev.Live().Pinned))
	require.Equal(z.t, s.ActiveBytes.Allocated-s.ActiveBytes.Freed, s.ActiveBytes.Current)
	for _, seg := range z.p.Snapshot().Segments {
		s.ActiveBytes.Current -= int64(seg.ActiveSize)
		s.AllocatedBytes.Current -= int64(seg.TotalSize)
	}
	require.Equal(z.t, [2]int64{}, [2]int64{s.ActiveBytes.Current, s.AllocatedBytes.Current}, "the snapshot has the same bytes")
}

// finish frees everything: nothing may be left, in the allocator or on the device.
func (z *pinnedFuzzer) finish() {
	for len(z.held) > 0 {
		z.free(0)
	}
	for len(z.m.captures) > 0 {
		z.uncapture(1)
	}
	for range 8 { // each round can meet one ordered fault
		for i := range modelStreams {
			z.step(3, byte(i))
		}
		z.step(5, 0)
	}
	z.compare()
	require.Zero(z.t, z.p.Stats().ActiveBytes.Current)
	err := z.p.Close()
	if errors.Is(err, errDriver) { // a fault was left: of freeing the reserve segment
		err = nil
		require.NoError(z.t, z.dev.Close())
	}
	require.NoError(z.t, err)
	require.Zero(z.t, z.dev.Live().Pinned)
	require.Zero(z.t, z.dev.Live().Events)
	requireHostUndo(z.t, z.p.Snapshot(), nil, nil)
}
