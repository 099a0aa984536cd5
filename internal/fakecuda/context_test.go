//go:build linux && amd64

package fakecuda

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInit_ComesFirst(t *testing.T) {
	c := load(t)
	var n, version int32
	c.is(notInitialized, c.DeviceGetCount(&n))
	c.ok(c.DriverGetVersion(&version)) // the only question that is answered before
	require.Equal(t, int32(12080), version)
	c.ok(c.Init(0))
	c.ok(c.Init(0))
	c.ok(c.DeviceGetCount(&n))
	require.Equal(t, int32(1), n)
}

func TestInit_WithoutDevicesSaysSo(t *testing.T) {
	c := load(t)
	c.lib.Devices(0)
	c.is(noDevice, c.Init(0))
	var n int32
	c.is(notInitialized, c.DeviceGetCount(&n))
}

func TestDevices_HaveNamesCapacitiesAndAddresses(t *testing.T) {
	c := load(t)
	c.lib.Devices(3)
	c.lib.Capacity(1, 64*mib)
	c.lib.Set("compute", "90")
	c.lib.Set("name", "Test GPU")
	c.ok(c.Init(0))
	seen := map[string]bool{}
	for device := range int32(3) {
		var d, major, total32 int32
		var total uint64
		name, uuid, pci := make([]byte, 32), make([]byte, 16), make([]byte, 32)
		c.ok(c.DeviceGet(&d, device))
		c.ok(c.DeviceGetName(&name[0], 32, d))
		c.ok(c.DeviceGetUUID(&uuid[0], d))
		c.ok(c.DevicePCI(&pci[0], 32, d))
		c.ok(c.DeviceAttribute(&major, 75, d))
		c.ok(c.DeviceTotalMem(&total, d))
		require.Equal(t, "Test GPU", strings.TrimRight(string(name), "\x00"))
		require.Equal(t, int32(9), major)
		require.Equal(t, map[bool]uint64{false: 8 << 30, true: 64 * mib}[device == 1], total)
		c.ok(c.DeviceByPCI(&total32, &pci[0]))
		require.Equal(t, device, total32)
		require.False(t, seen[string(uuid)] || seen[string(pci)])
		seen[string(uuid)], seen[string(pci)] = true, true
	}
	var d int32
	c.is(invalidDevice, c.DeviceGet(&d, 3))
	c.is(invalidValue, c.DeviceAttribute(&d, 9999, 0))
}

func TestGetProcAddress_FindsTheNewestVersion(t *testing.T) {
	c := load(t)
	address := func(name string) (p uintptr) {
		var status int32
		c.ok(c.GetProcAddress(name, &p, 12080, 0, &status))
		require.Zero(t, status)
		return p
	}
	require.Equal(t, address("cuMemAlloc_v2"), address("cuMemAlloc"))
	require.Equal(t, address("cuGraphInstantiateWithFlags"), address("cuGraphInstantiate"))
	require.NotZero(t, address("cuInit"))
	p, status := uintptr(1), int32(0)
	c.is(notFound, c.GetProcAddress("cuNothing", &p, 12080, 0, &status))
	require.Zero(t, p)
	require.Equal(t, int32(1), status)
}

// A context is current to an OS thread. A goroutine that changes threads loses it.
func TestContext_IsCurrentToOneThread(t *testing.T) {
	c := start(t) // locks this goroutine to its thread
	var p uint64
	c.ok(c.MemAlloc(&p, 16))
	codes := make(chan int32)
	go func() {
		runtime.LockOSThread() // another thread
		defer runtime.UnlockOSThread()
		var q uint64
		codes <- c.MemAlloc(&q, 16)
	}()
	c.is(invalidContext, <-codes)
	var ctx uintptr
	c.ok(c.PopCurrent(&ctx))
	c.is(invalidContext, c.MemFree(p))
	c.ok(c.PushCurrent(ctx))
	c.ok(c.MemFree(p))
}

func TestContext_EndsWithItsLastRelease(t *testing.T) {
	c := start(t)
	var ctx uintptr
	c.ok(c.PrimaryRetain(&ctx, 0))
	c.ok(c.PrimaryRelease(0))
	p := c.alloc(100)
	s, e := c.stream(), c.event()
	c.ok(c.PrimaryRelease(0))
	c.is(contextDestroyed, c.MemFree(p))
	require.Len(t, c.lib.Leaks(), 3)
	for i, text := range []string{
		"stream made by cuStreamCreate, call 1, alive", "event made by cuEventCreate, call 1, alive", "100 bytes of device memory",
	} {
		require.Contains(t, c.lib.Leaks()[i], text)
	}
	c.is(invalidContext, c.SetCurrent(ctx))
	c.is(invalidContext, c.PrimaryRelease(0))
	_ = c.enter(0)
	c.is(invalidHandle, c.StreamSynchronize(s))
	c.is(invalidHandle, c.EventQuery(e))
	c.ok(c.PrimaryRelease(0))
}

func TestContext_BelongsToItsDevice(t *testing.T) {
	c := load(t)
	c.lib.Devices(2)
	c.ok(c.Init(0))
	c.enter(0)
	s := c.stream()
	p := c.alloc(64)
	c.enter(1)
	c.is(invalidHandle, c.Set8(p, 0, 64, s)) // a stream of the other context
	c.ok(c.StreamSynchronize(s))             // which may be waited for
	var free, total uint64
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, total, free)
}
