//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const autoFree = 1 // CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH

// used is how many bytes of the device are in use.
func (c *cu) used() uint64 {
	c.t.Helper()
	var free, total uint64
	c.ok(c.MemGetInfo(&free, &total))
	return total - free
}

func TestGraphMemory_IsThereFromItsAllocationToItsFree(t *testing.T) {
	c := start(t)
	s, out := c.stream(), c.alloc(4096)
	var inside uint64
	graph := c.captured(s, func() {
		inside = c.allocAsync(4096, s)
		c.ok(c.Set8(inside, 9, 4096, s))
		c.ok(c.DtoDAsync(out, inside, 4096, s))
		c.ok(c.FreeAsync(inside, s))
		c.is(invalidValue, c.FreeAsync(inside, s))
		c.is(invalidValue, c.Set8(inside, 1, 1, s)) // it is freed
	})
	before := c.used()
	var exec uintptr
	c.ok(c.Instantiate(&exec, graph, 0))
	for range 3 {
		c.ok(c.GraphLaunch(exec, s))
	}
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, byte(9), c.read(out, 4096)[4095])
	require.Equal(t, before+4096, c.used(), "it is kept")
	c.ok(c.GraphTrim(0))
	require.Equal(t, before, c.used())
	c.ok(c.ExecDestroy(exec))
	c.ok(c.GraphDestroy(graph))
}

func TestGraphMemory_ThatIsLeftIsFreedOutsideOrByTheNextLaunch(t *testing.T) {
	c := start(t)
	s := c.stream()
	for _, flags := range []uint64{0, autoFree} {
		var inside uint64
		graph := c.captured(s, func() {
			inside = c.allocAsync(4096, s)
			c.ok(c.Set8(inside, 9, 4096, s))
		})
		before := c.used()
		var exec, second uintptr
		c.ok(c.Instantiate(&exec, graph, flags))
		c.is(notSupported, c.Instantiate(&second, graph, flags))
		c.is(invalidValue, c.FreeAsync(inside, s)) // it was not launched
		c.ok(c.GraphLaunch(exec, s))
		if flags == 0 {
			c.is(invalidValue, c.GraphLaunch(exec, s))
		} else {
			c.ok(c.GraphLaunch(exec, s))
		}
		c.ok(c.StreamSynchronize(s))
		require.Equal(t, before+4096, c.used())
		require.Equal(t, byte(9), c.read(inside, 1)[0])
		c.ok(c.FreeAsync(inside, s))
		c.ok(c.GraphLaunch(exec, s)) // freed, so that it may
		c.ok(c.GraphDestroy(graph))
		c.ok(c.ExecDestroy(exec))
		require.Equal(t, before+4096, c.used(), "that frees nothing")
		c.ok(c.MemFree(inside))
		c.ok(c.StreamSynchronize(0))
		c.ok(c.GraphTrim(0))
		require.Equal(t, before, c.used())
		c.is(invalidValue, c.MemFree(inside))
		require.NotContains(t, c.lib.Leaks(), "pool memory")
	}
}
