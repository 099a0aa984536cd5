package memtest

import (
	"context"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var contentTests = []test{
	{"LiveBlocksKeepTheirContent", testContent},
	{"WorkUnderWayMayUseAFreedBlock", testWorkUnderWay},
	{"AnotherStreamReadsWhatWasThereWhenItWasRecorded", testRecordedReader},
}

// testContent looks at the ends of blocks before they are freed, while the cache is given back now and then (PyTorch's
// test_allocator_fuzz).
func testContent(f *fixture) {
	if !f.storage {
		f.t.Skip("the device stores nothing")
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for range 1500 {
		switch n := len(f.live); {
		case n == 0 || n < 60 && rng.IntN(10) < 5:
			_, err := f.try(randomSize(rng), f.streams[rng.IntN(numStreams)])
			if err != nil {
				require.ErrorIs(f.t, err, memory.ErrOutOfMemory)
			}
		case rng.IntN(100) == 0:
			require.NoError(f.t, f.alloc.EmptyCache())
		default:
			f.give(f.live[rng.IntN(n)])
		}
	}
	f.giveAll()
}

// gated enqueues work on a stream that waits for the returned function to be called, and then copies the ends of a block.
func (f *fixture) gated(s device.Executor, h *held) (open func(), read func() []byte) {
	gate, got := make(chan struct{}), make([]byte, 0, 2*edge)
	dev := f.streams[0] // inline: may be used from the work of another stream
	require.NoError(f.t, s.Submit("gated read", func() error {
		<-gate
		part := make([]byte, min(edge, h.bytes))
		for _, p := range []device.Ptr{h.block.Ptr(), h.last()} {
			if err := dev.CopyToHost(part, p); err != nil {
				return err
			}
			got = append(got, part...)
		}
		return nil
	}))
	return func() { close(gate) }, func() []byte {
		require.NoError(f.t, s.Synchronize(context.Background()))
		return got
	}
}

// queuedStream returns one of the streams that run their work later, or skips the test.
func (f *fixture) queuedStream(i int) device.Executor {
	s, ok := f.streams[i].(device.Executor)
	if !ok || s.Mode() != device.ExecQueued || !f.storage {
		f.t.Skip("the device has no streams that run Go functions later")
	}
	return s
}

// testWorkUnderWay frees a block while work that reads it is still on its stream, and takes its memory again: what is then
// written comes after the read, as it is on the same stream.
func testWorkUnderWay(f *fixture) {
	s := f.queuedStream(1)
	h := f.take(3*device.MiB, s)
	open, read := f.gated(s, h)
	replace := func() *held {
		f.forget(h) // not give: a look at the content would wait for the gate
		require.NoError(f.t, f.alloc.Free(h.block))
		return f.take(3*device.MiB, s)
	}
	next := f.across(open, replace)
	require.Equal(f.t, append(h.pattern(), h.pattern()...), read())
	f.give(next)
}

// testRecordedReader does the same with a reader on another stream, which was recorded.
func testRecordedReader(f *fixture) {
	own, other := f.queuedStream(1), f.queuedStream(2)
	h := f.take(3*device.MiB, own)
	require.NoError(f.t, own.Synchronize(context.Background())) // the pattern is there before the other stream looks
	open, read := f.gated(other, h)
	require.NoError(f.t, f.alloc.RecordStream(h.block, other))
	replace := func() *held {
		f.forget(h)
		require.NoError(f.t, f.alloc.Free(h.block))
		next := f.take(3*device.MiB, own)
		require.NoError(f.t, own.Synchronize(context.Background())) // its pattern is written, wherever it is
		return next
	}
	next := f.across(open, replace)
	require.Equal(f.t, append(h.pattern(), h.pattern()...), read())
	f.give(next)
}

// across opens a gate behind replace, or, if a free may wait for the work behind the gate, before it.
func (f *fixture) across(open func(), replace func() *held) *held {
	if !f.caches {
		open()
		return replace()
	}
	next := replace()
	open()
	return next
}
