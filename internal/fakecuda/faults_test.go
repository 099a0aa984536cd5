//go:build linux && amd64

package fakecuda

import (
	"debug/elf"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFail_HitsTheNthCall(t *testing.T) {
	c := start(t)
	c.lib.Fail("cuMemAlloc_v2", 2, outOfMemory)
	var p uint64
	c.ok(c.MemAlloc(&p, 16))
	c.is(outOfMemory, c.MemAlloc(&p, 16))
	c.ok(c.MemAlloc(&p, 16))
	c.lib.Fail("cuMemFree_v2", 0, 999)
	c.is(999, c.MemFree(p))
	c.is(999, c.MemFree(p))
	c.lib.ClearFaults()
	c.ok(c.MemFree(p))
	require.Equal(t, 3, c.lib.Calls()["cuMemAlloc_v2"])
}

// A sticky code that is injected into a call breaks the context, as such an error does.
func TestFail_WithAStickyCodeBreaksTheContext(t *testing.T) {
	c := start(t)
	c.lib.Fail("cuStreamCreate", 1, launchFailed)
	var s uintptr
	c.is(launchFailed, c.StreamCreate(&s, nonBlocking))
	c.is(launchFailed, c.CtxSynchronize())
}

func TestFail_OfWorkSurfacesWhereItIsWaitedFor(t *testing.T) {
	c := start(t)
	p, s := c.alloc(1), c.stream()
	c.lib.Fail("work", 2, launchFailed)
	c.ok(c.Set8(p, 1, 1, s))
	c.ok(c.Set8(p, 2, 1, s))
	if code := c.Set8(p, 3, 1, s); code != success { // the second may have run by now
		c.is(launchFailed, code)
	}
	c.is(launchFailed, c.StreamSynchronize(s))
	c.is(launchFailed, c.StreamQuery(s))
}

// Every exported function of the driver can be made to fail, whatever it is given.
func TestFail_ReachesEveryFunction(t *testing.T) {
	c := start(t)
	names := exported(t, c.lib.Path())
	require.Greater(t, len(names), 120)
	for _, name := range names {
		c.lib.Fail(name, 0, 999)
		c.is(999, c.callWithZeros(name))
		c.lib.ClearFaults()
	}
}

// Without a fault, no function crashes on null arguments, before cuInit or after.
func TestFunctions_SurviveNullArguments(t *testing.T) {
	c := load(t)
	names := exported(t, c.lib.Path())
	for _, name := range names {
		c.callWithZeros(name)
	}
	c.lib.Reset()
	c.ok(c.Init(0))
	c.enter(0)
	for _, name := range names {
		if !strings.HasPrefix(name, "cuCtx") && !strings.HasPrefix(name, "cuDevicePrimaryCtx") { // these would end the context
			c.callWithZeros(name)
		}
	}
}

// exported are the functions of the driver in a library.
func exported(t *testing.T, path string) (names []string) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

// README.md lists what there is, and nothing else.
func TestReadme_ListsEveryFunction(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bcu(?:[A-Z]|blas)\w+`).FindAllString(string(text), -1) {
		listed[name] = true
	}
	names := exported(t, Build(t))
	for _, name := range names {
		require.True(t, listed[name], "%s is not in README.md", name)
	}
}

func TestReset_ForgetsEverything(t *testing.T) {
	c := start(t)
	c.alloc(100)
	p, s := c.alloc(10), c.stream()
	c.lib.Devices(3)
	c.lib.Hold()
	c.ok(c.Set8(p, 1, 10, s))
	c.lib.Reset()
	require.Empty(t, c.lib.Leaks())
	require.Empty(t, c.lib.Findings())
	require.Zero(t, c.lib.Total())
	c.is(notInitialized, c.CtxSynchronize())
	c.ok(c.Init(0))
	var n int32
	c.ok(c.DeviceGetCount(&n))
	require.Equal(t, int32(1), n)
	c.is(invalidContext, c.CtxSynchronize())
}
