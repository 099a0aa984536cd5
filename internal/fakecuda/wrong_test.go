//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// breaks launches a kernel that must break the context with a code, and requires the last findings to have the texts.
func (c *cu) breaks(want int, kernel string, grid, block uint32, args []any, texts ...string) {
	c.t.Helper()
	c.ok(c.try(c.function(kernel), dim{grid, 1, 1}, dim{block, 1, 1}, 0, 0, args...))
	c.is(want, c.CtxSynchronize())
	found := c.lib.Findings()
	require.Len(c.t, found, 2, "%v", found)
	for _, text := range append(texts, kernel) {
		require.Contains(c.t, found[0], text)
	}
	require.Contains(c.t, found[1], "is broken")
	var p uint64
	c.is(want, c.MemAlloc(&p, 16)) // the error stays
	c.ok(c.PrimaryReset(0))
	require.Equal(c.t, []string{"context of device 0, retained 1 times"}, c.afterReset())
}

// afterReset makes the primary context again, which must work after it was broken.
func (c *cu) afterReset() []string {
	c.t.Helper()
	var ctx uintptr
	c.ok(c.PrimaryRetain(&ctx, 0))
	c.ok(c.SetCurrent(ctx))
	c.ok(c.CtxSynchronize())
	return c.lib.Leaks()
}

func TestKernel_OutOfBoundsIsStickyAndNamesTheAllocation(t *testing.T) {
	for name, test := range map[string]struct {
		offset int64
		text   string
	}{
		"far past the end":    {5000, "900 bytes of device memory"},
		"at the guard":        {1024, "byte 1024 of 1024 bytes"},
		"before the page":     {-8192, "illegal write"},
		"far before the page": {-1 << 29, "illegal write"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			c.demo("")
			p := c.alloc(900)
			if name == "at the guard" {
				p = c.alloc(1024)
			}
			c.breaks(illegalAddress, "write_at", 3, 64, []any{p, test.offset}, "block (2,0,0), thread (63,0,0)", "illegal write", test.text)
		})
	}
}

// A few bytes past the end lie on the allocation's page: they are found when it is freed.
func TestKernel_OutOfBoundsByLittleIsFoundByTheFree(t *testing.T) {
	for _, offset := range []int64{900, 1023, -1, -100} {
		c := start(t)
		c.demo("")
		p := c.alloc(900)
		c.launch("write_at", 1, 1, p, offset)
		c.is(invalidValue, c.MemFree(p))
		c.found("written", "900 bytes of device memory")
		c.ok(c.PrimaryRelease(0))
		require.Empty(t, c.lib.Leaks())
	}
}

func TestKernel_UseAfterFreeNamesWhoFreed(t *testing.T) {
	c := start(t)
	c.demo("")
	p := c.alloc(4096)
	c.ok(c.MemFree(p))
	c.breaks(illegalAddress, "write_at", 1, 1, []any{p, int64(7)}, "byte 7 of 4096 bytes", "freed by cuMemFree_v2, call 1")
}

func TestKernel_SharedMemoryOutOfBoundsIsFound(t *testing.T) {
	for at, texts := range map[int32][]string{
		32:     {"byte 128 of shared array b of 128 bytes"}, // the next page
		10000:  {"byte 40000 of shared array b of 128 bytes"},
		-1:     {"byte -4 of shared array b of 128 bytes"}, // found when the block ends
		-900:   {"byte -3600 of shared array b"},
		-10000: {"byte -40000 of shared array b"},
	} {
		schedules(t, func(t *testing.T, c *cu) {
			c.demo("")
			c.breaks(illegalAddress, "past_shared", 1, 64, []any{c.alloc(4), at}, texts...)
		})
	}
}

func TestKernel_DivergentBarriersAndDeadlocksAreErrors(t *testing.T) {
	schedules(t, func(t *testing.T, c *cu) {
		c.demo("")
		c.breaks(launchFailed, "two_barriers", 1, 64, []any{c.alloc(256)}, "wait at two barriers", "demo.cu:")
	})
	schedules(t, func(t *testing.T, c *cu) {
		c.demo("")
		c.breaks(launchFailed, "never_meets", 1, 64, []any{c.alloc(256)}, "deadlock", "wait at the barrier in", "demo.cu:")
	})
}

func TestKernel_TrapsAndFaultsOfArithmeticAreErrors(t *testing.T) {
	for kernel, test := range map[string]struct {
		code int
		text string
	}{
		"traps":   {launchFailed, "trap at"},
		"divides": {launchFailed, "integer division by zero"},
	} {
		c := start(t)
		c.demo("")
		a := make([]int32, 32)
		a[5] = 7
		c.breaks(test.code, kernel, 1, 32, []any{upload(c, a), c.alloc(128)}, test.text)
	}
}

func TestKernel_MisalignedAsyncCopyIsAnError(t *testing.T) {
	c := start(t)
	c.demo("")
	c.breaks(716, "off_alignment", 1, 32, []any{c.alloc(256)}, "not a multiple of 16")
}

func TestKernel_StackOverflowIsAnError(t *testing.T) {
	c := start(t)
	c.demo("")
	p := c.alloc(4)
	c.launch("overflows", 1, 1, p, int32(100)) // fits
	c.breaks(illegalAddress, "overflows", 1, 1, []any{p, int32(1000000)}, "stack overflow")
}

func TestGo_NilDereferencesStillPanic(t *testing.T) {
	c := start(t)
	c.demo("")
	c.launch("add_f32", 1, 32, c.alloc(128), c.alloc(128), c.alloc(128), int64(32)) // the signal handler is installed
	var nothing *int
	require.Panics(t, func() { *nothing = 1 })
}
