//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// captured runs f between begin and end of a capture of s and returns the graph.
func (c *cu) captured(s uintptr, f func()) (graph uintptr) {
	c.t.Helper()
	c.ok(c.BeginCapture(s, captureGlobal))
	f()
	c.ok(c.EndCapture(s, &graph))
	return graph
}

func (c *cu) status(s uintptr) (status int32) {
	c.t.Helper()
	c.ok(c.IsCapturing(s, &status))
	return status
}

func TestGraph_RecordsAndRunsAsOftenAsLaunched(t *testing.T) {
	schedules(t, func(t *testing.T, c *cu) {
		c.demo("")
		a, out, s := upload(c, []int32{1}), upload(c, make([]int32, 3)), c.stream()
		_ = a
		f := c.function("atomics")
		u, w := upload(c, make([]uint32, 3)), upload(c, make([]uint64, 3))
		rest := upload(c, make([]uint64, 4))
		graph := c.captured(s, func() {
			c.ok(c.try(f, dim{1, 1, 1}, dim{32, 1, 1}, 0, s, out, u, w, rest, rest+8, rest+16, rest+24))
			require.Equal(t, int32(statusActive), c.status(s))
		})
		require.Equal(t, int32(statusNone), c.status(s))
		require.Equal(t, int32(0), download[int32](c, out, 1)[0]) // nothing has run
		var nodes uint64
		c.ok(c.GraphNodes(graph, nil, &nodes))
		require.Equal(t, uint64(1), nodes)
		var exec uintptr
		c.ok(c.Instantiate(&exec, graph, 0))
		c.ok(c.GraphDestroy(graph))
		for range 3 {
			c.ok(c.GraphLaunch(exec, s))
		}
		c.ok(c.StreamSynchronize(s))
		require.Equal(t, int32(96), download[int32](c, out, 1)[0])
		c.ok(c.ExecDestroy(exec))
		c.is(invalidValue, c.GraphLaunch(exec, s))
	})
}

// A capture forks to a second stream by an event and joins by another. Work that only the fork orders runs in that order.
func TestCapture_ForksAndJoinsOverStreams(t *testing.T) {
	schedules(t, func(t *testing.T, c *cu) {
		a, b, fork, join := c.stream(), c.stream(), c.event(), c.event()
		p := c.alloc(3)
		graph := c.captured(a, func() {
			c.ok(c.Set8(p, 1, 3, a))
			c.ok(c.EventRecord(fork, a))
			c.ok(c.StreamWait(b, fork, 0))
			require.Equal(t, int32(statusActive), c.status(b))
			c.ok(c.Set8(p, 2, 1, b))
			c.ok(c.Set8(p+1, 3, 1, a))
			c.ok(c.EventRecord(join, b))
			c.ok(c.StreamWait(a, join, 0))
			c.ok(c.Set8(p+2, 4, 1, a))
		})
		require.Equal(t, int32(statusNone), c.status(b))
		var exec uintptr
		c.ok(c.Instantiate(&exec, graph, 0))
		c.ok(c.GraphLaunch(exec, b))
		c.ok(c.StreamSynchronize(b))
		require.Equal(t, []byte{2, 3, 4}, c.read(p, 3))
	})
}

// Copies with pageable memory become nodes that read it when the graph runs.
func TestCapture_KeepsAddressesNotContents(t *testing.T) {
	c := start(t)
	s, p, b := c.stream(), c.alloc(2), []byte{1, 2}
	graph := c.captured(s, func() { c.ok(c.HtoDAsync(p, &b[0], 2, s)) })
	b[0] = 9
	var exec uintptr
	c.ok(c.Instantiate(&exec, graph, 0))
	c.ok(c.GraphLaunch(exec, s))
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, []byte{9, 2}, c.read(p, 2))
}

func TestCapture_EndReportsWhatWasWrong(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		run  func(c *cu, s, other uintptr)
	}{
		"unjoined": {captureUnjoined, func(c *cu, s, other uintptr) {
			e, p := c.forkEvent, c.forkMemory
			c.ok(c.EventRecord(e, s))
			c.ok(c.StreamWait(other, e, 0))
			c.ok(c.Set8(p, 1, 1, other))
		}},
		"invalidated by a wait for the stream": {captureInvalidated, func(c *cu, s, _ uintptr) {
			c.is(captureUnsupported, c.StreamSynchronize(s))
			require.Equal(c.t, int32(statusInvalidated), c.status(s))
		}},
		"invalidated by a question about the stream": {captureInvalidated, func(c *cu, s, _ uintptr) {
			c.is(captureUnsupported, c.StreamQuery(s))
		}},
		"invalidated by an allocation": {captureInvalidated, func(c *cu, s, _ uintptr) {
			var p uint64
			c.is(captureUnsupported, c.MemAlloc(&p, 1))
		}},
		"invalidated by a wait for the context": {captureInvalidated, func(c *cu, s, _ uintptr) {
			c.is(captureUnsupported, c.CtxSynchronize())
		}},
		"invalidated by the NULL stream": {captureInvalidated, func(c *cu, s, _ uintptr) {
			p, q := c.forkMemory, c.forkMemory+8
			c.is(captureImplicit, c.DtoDAsync(p, q, 1, 0))
		}},
		"invalidated by an event of outside": {captureInvalidated, func(c *cu, s, other uintptr) {
			c.ok(c.EventRecord(c.forkEvent, other))
			c.is(captureIsolation, c.StreamWait(s, c.forkEvent, 0))
		}},
		"invalidated by a wait for an event of inside": {captureInvalidated, func(c *cu, s, _ uintptr) {
			c.ok(c.EventRecord(c.forkEvent, s))
			c.is(capturedEvent, c.EventSynchronize(c.forkEvent))
		}},
		"invalidated by the free of memory of outside": {captureInvalidated, func(c *cu, s, other uintptr) {
			c.is(invalidValue, c.FreeAsync(c.allocAsync(1, other), s))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			c.forkEvent, c.forkMemory = c.event(), c.alloc(16)
			var s uintptr
			c.ok(c.StreamCreate(&s, 0)) // a blocking one, for the NULL stream's sake
			other := c.stream()
			c.ok(c.BeginCapture(s, captureGlobal))
			c.is(illegalState, c.BeginCapture(s, captureGlobal))
			test.run(c, s, other)
			graph := uintptr(1)
			c.is(test.code, c.EndCapture(s, &graph))
			require.Zero(t, graph)
			require.Equal(t, int32(statusNone), c.status(s))
			c.ok(c.CtxSynchronize()) // all is as before
			c.captured(s, func() { c.ok(c.Set8(c.forkMemory, 1, 1, s)) })
		})
	}
}

func TestCapture_OfTwoCannotMerge(t *testing.T) {
	c := start(t)
	a, b, e := c.stream(), c.stream(), c.event()
	c.ok(c.BeginCapture(a, captureGlobal))
	c.ok(c.BeginCapture(b, captureGlobal))
	c.ok(c.EventRecord(e, a))
	c.is(captureMerge, c.StreamWait(b, e, 0))
	var graph uintptr
	c.is(captureInvalidated, c.EndCapture(a, &graph))
	c.is(captureInvalidated, c.EndCapture(b, &graph))
}

func TestCapture_EndsWhereItBegan(t *testing.T) {
	c := start(t)
	a, b, e := c.stream(), c.stream(), c.event()
	var graph uintptr
	c.is(captureUnsupported, c.BeginCapture(0, captureGlobal))
	c.is(illegalState, c.EndCapture(a, &graph))
	c.ok(c.BeginCapture(a, captureGlobal))
	c.ok(c.EventRecord(e, a))
	c.ok(c.StreamWait(b, e, 0))
	c.is(captureUnmatched, c.EndCapture(b, &graph))
	c.is(captureInvalidated, c.EndCapture(a, &graph))

	c.ok(c.BeginCapture(a, captureThreadLocal))
	c.is(captureWrongThread, <-c.elsewhere(func() int32 { return c.EndCapture(a, &graph) }))
	c.is(illegalState, c.EndCapture(a, &graph)) // it has ended all the same
}

func TestCapture_ModesSayWhoseCallsAreForbidden(t *testing.T) {
	c := start(t)
	s := c.stream()
	allocate := func() int32 {
		var p uint64
		if code := c.MemAlloc(&p, 16); code != success {
			return code
		}
		return c.MemFree(p)
	}
	var graph uintptr
	c.ok(c.BeginCapture(s, captureThreadLocal))
	c.ok(<-c.elsewhere(allocate))
	c.ok(c.EndCapture(s, &graph))

	c.ok(c.BeginCapture(s, captureGlobal))
	c.is(captureUnsupported, <-c.elsewhere(allocate))
	c.is(captureInvalidated, c.EndCapture(s, &graph))

	var p uint64
	mode := int32(captureRelaxed)
	c.ok(c.BeginCapture(s, captureGlobal))
	c.ok(c.ExchangeMode(&mode))
	require.Equal(t, int32(captureGlobal), mode)
	c.ok(c.MemAlloc(&p, 16))
	c.ok(c.ExchangeMode(&mode))
	c.ok(c.EndCapture(s, &graph))

	c.ok(c.BeginCapture(s, captureRelaxed))
	c.ok(c.MemFree(p))
	c.ok(c.EndCapture(s, &graph))
}

func TestGraph_UpdateTakesTheSameShapeOnly(t *testing.T) {
	c := start(t)
	s, p := c.stream(), c.alloc(4)
	first := c.captured(s, func() { c.ok(c.Set8(p, 1, 4, s)) })
	second := c.captured(s, func() { c.ok(c.Set8(p, 2, 4, s)) })
	longer := c.captured(s, func() { c.ok(c.Set8(p, 3, 4, s)); c.ok(c.Set8(p, 4, 4, s)) })
	var exec uintptr
	var info updateInfo
	c.ok(c.Instantiate(&exec, first, 0))
	c.lib.HoldStream(s)
	c.ok(c.GraphLaunch(exec, s)) // as it is now
	c.ok(c.ExecUpdate(exec, second, &info))
	c.is(graphUpdateFailure, c.ExecUpdate(exec, longer, &info))
	require.NotZero(t, info.Result)
	c.lib.ReleaseStream(s)
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, byte(1), c.read(p, 1)[0])
	c.ok(c.GraphLaunch(exec, s))
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, byte(2), c.read(p, 1)[0])
}
