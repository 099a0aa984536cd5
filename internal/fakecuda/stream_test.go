//go:build linux && amd64

package fakecuda

import (
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

func lock()   { runtime.LockOSThread() }
func unlock() { runtime.UnlockOSThread() }

func TestStream_RunsBehindTheCallerInOrder(t *testing.T) {
	c := start(t)
	p, s := c.alloc(100), c.stream()
	c.lib.HoldStream(s)
	for v := range uint8(5) {
		c.ok(c.Set8(p, v, 100, s))
	}
	c.is(notReady, c.StreamQuery(s))
	c.lib.ReleaseStream(s)
	c.ok(c.StreamSynchronize(s))
	c.ok(c.StreamQuery(s))
	require.Equal(t, byte(4), c.read(p, 1)[0])
}

func TestStreams_AreOrderedByEventsOnly(t *testing.T) {
	c := start(t)
	p, a, b, e := c.alloc(1), c.stream(), c.stream(), c.event()
	c.ok(c.EventQuery(e)) // never recorded: complete
	c.ok(c.StreamWait(b, e, 0))
	c.lib.HoldStream(a)
	c.ok(c.Set8(p, 1, 1, a))
	c.ok(c.EventRecord(e, a))
	c.is(notReady, c.EventQuery(e))
	c.ok(c.Set8(p, 2, 1, b))
	c.ok(c.StreamSynchronize(b)) // does not wait for a
	require.Equal(t, byte(2), c.read(p, 1)[0])
	c.ok(c.StreamWait(b, e, 0))
	c.ok(c.Set8(p, 3, 1, b))
	c.is(notReady, c.StreamQuery(b))
	c.lib.ReleaseStream(a)
	c.ok(c.StreamSynchronize(b))
	require.Equal(t, byte(3), c.read(p, 1)[0])
	c.ok(c.EventQuery(e))
}

// Waiting is for what the event stood for at that moment.
func TestEvent_RecordedAgainMovesOnlyForLaterWaits(t *testing.T) {
	c := start(t)
	p, a, b, e := c.alloc(1), c.stream(), c.stream(), c.event()
	c.ok(c.EventRecord(e, a))
	c.ok(c.EventSynchronize(e))
	c.lib.HoldStream(a)
	c.ok(c.StreamWait(b, e, 0))
	c.ok(c.Set8(p, 1, 1, a))
	c.ok(c.EventRecord(e, a))
	c.ok(c.StreamSynchronize(b))
	c.is(notReady, c.EventQuery(e))
	c.lib.ReleaseStream(a)
	c.ok(c.EventSynchronize(e))
}

func TestNullStream_IsOrderedWithBlockingStreamsOnly(t *testing.T) {
	c := start(t)
	var blocking uintptr
	c.ok(c.StreamCreate(&blocking, 0))
	free := c.stream()
	p := c.alloc(1)
	c.lib.HoldStream(blocking)
	c.ok(c.Set8(p, 1, 1, blocking))
	c.ok(c.Set8Null(p, 2, 1)) // waits for the blocking stream, and does not block the caller
	c.is(notReady, c.StreamQuery(0))
	c.ok(c.Set8(p, 3, 1, free))
	c.ok(c.StreamSynchronize(free))
	c.lib.ReleaseStream(blocking)
	c.ok(c.StreamSynchronize(0))
	require.Equal(t, byte(2), c.read(p, 1)[0])

	c.lib.Hold()
	c.ok(c.Set8Null(p, 4, 1))
	c.ok(c.Set8(p, 5, 1, blocking)) // waits for the NULL stream
	c.lib.Release()
	c.ok(c.StreamSynchronize(blocking))
	require.Equal(t, byte(5), c.read(p, 1)[0])
}

func TestStream_HasAPriority(t *testing.T) {
	c := start(t)
	for want, given := range map[int32]int32{0: 3, -1: -1, -5: -100} {
		var s uintptr
		var got int32
		c.ok(c.StreamPriority(&s, nonBlocking, given))
		c.ok(c.StreamGetPriority(s, &got))
		require.Equal(t, want, got)
	}
}

func TestStream_StaleHandlesAreErrors(t *testing.T) {
	c := start(t)
	p, s, e := c.alloc(1), c.stream(), c.event()
	c.ok(c.Set8(p, 1, 1, s))
	c.ok(c.StreamDestroy(s)) // its work goes on
	c.is(invalidHandle, c.StreamDestroy(s))
	c.found("does not exist (any more)")
	c.is(invalidHandle, c.Set8(p, 1, 1, s))
	c.ok(c.CtxSynchronize())
	require.Equal(t, byte(1), c.read(p, 1)[0])
	c.ok(c.EventDestroy(e))
	c.is(invalidHandle, c.EventRecord(e, 0))
	c.is(notSupported, c.StreamSynchronize(2)) // CU_STREAM_PER_THREAD
}

func TestEvent_MeasuresTime(t *testing.T) {
	c := start(t)
	s, a, b := c.stream(), c.event(), c.event()
	var ms float32
	c.is(invalidHandle, c.EventElapsed(&ms, a, b)) // not recorded
	c.ok(c.EventRecord(a, s))
	c.lib.HoldStream(s)
	c.ok(c.EventRecord(b, s))
	c.is(notReady, c.EventElapsed(&ms, a, b))
	c.lib.ReleaseStream(s)
	c.ok(c.EventSynchronize(b))
	c.ok(c.EventElapsed(&ms, a, b))
	require.GreaterOrEqual(t, ms, float32(0))
	var untimed uintptr
	c.ok(c.EventCreate(&untimed, disableTiming))
	c.ok(c.EventRecord(untimed, s))
	c.is(invalidHandle, c.EventElapsed(&ms, a, untimed))
}

func TestHostFunction_RunsInOrderAndMustNotCallTheDriver(t *testing.T) {
	c := start(t)
	p, s := c.alloc(1), c.stream()
	codes := make(chan int32, 1)
	inside := purego.NewCallback(func(data uintptr) uintptr {
		var q uint64
		codes <- c.MemAlloc(&q, uint64(data))
		return 0
	})
	c.lib.HoldStream(s)
	c.ok(c.Set8(p, 1, 1, s))
	c.ok(c.LaunchHostFunc(s, inside, 16))
	require.Empty(t, codes)
	c.lib.ReleaseStream(s)
	c.ok(c.StreamSynchronize(s))
	c.is(notPermitted, <-codes)
}
