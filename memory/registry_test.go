package memory

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// clearEnv unsets what the package reads from the environment, until the end of the test.
func clearEnv(t *testing.T) {
	for _, name := range append(configVariables, noCachingVariables...) {
		t.Setenv(name, "") // so that it comes back
		require.NoError(t, os.Unsetenv(name))
	}
}

// droppedDevice is a device whose allocator is dropped at the end of the test.
func droppedDevice(t *testing.T) *sim.Device {
	dev := sim.New(64 * mib)
	t.Cleanup(func() { require.NoError(t, Drop(dev)) })
	return dev
}

func TestFor_KeepsOneAllocatorForEachDevice(t *testing.T) {
	clearEnv(t)
	x, y := droppedDevice(t), droppedDevice(t)
	a, err := For(x)
	require.NoError(t, err)
	require.IsType(t, &Caching{}, a)
	require.Equal(t, x.ID(), a.Device())
	again, err := For(x)
	require.NoError(t, err)
	require.Same(t, a, again)
	other, err := For(y)
	require.NoError(t, err)
	require.NotSame(t, a, other)
}

func TestFor_ReadsTheEnvironment(t *testing.T) {
	clearEnv(t)
	dev := droppedDevice(t)
	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:2")
	var ce *ConfigError
	_, err := For(dev)
	require.ErrorAs(t, err, &ce)
	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:64")
	a, err := For(dev)
	require.NoError(t, err, "a failed attempt is not remembered")
	require.EqualValues(t, 64*mib, a.(*Caching).Config().MaxSplitBytes)
}

func TestFor_CachingCanBeSwitchedOff(t *testing.T) {
	for _, name := range []string{"CISTERN_NO_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"} {
		t.Run(name, func(t *testing.T) {
			clearEnv(t)
			t.Setenv(name, "1")
			a, err := For(droppedDevice(t))
			require.NoError(t, err)
			require.IsType(t, &Direct{}, a)
			t.Setenv(name, "0")
			a, err = For(droppedDevice(t))
			require.NoError(t, err)
			require.IsType(t, &Caching{}, a)
		})
	}
}

func TestDrop_ClosesTheAllocatorAndForReturnsANewOne(t *testing.T) {
	clearEnv(t)
	dev := droppedDevice(t)
	require.NoError(t, Drop(dev), "there is none")
	a, err := For(dev)
	require.NoError(t, err)
	_, err = a.Alloc(mib, dev.DefaultStream())
	require.NoError(t, err)
	require.ErrorIs(t, Drop(dev), ErrLeak)
	require.Zero(t, dev.Live().Bytes)
	again, err := For(dev)
	require.NoError(t, err)
	require.NotSame(t, a, again)
	_, err = a.Alloc(mib, dev.DefaultStream())
	require.ErrorIs(t, err, device.ErrClosed)
}

func TestSummary_OfADeviceWithoutAllocatorIsEmpty(t *testing.T) {
	clearEnv(t)
	dev := droppedDevice(t)
	require.Empty(t, Summary(dev))
	a, err := For(dev)
	require.NoError(t, err)
	require.Equal(t, a.Stats().Summary(dev.ID(), false), Summary(dev))
}
