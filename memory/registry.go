package memory

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/registry"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// allocators keeps the allocator of each device in use.
var allocators registry.Of[Allocator]

// For returns the allocator of a device, made at the first call: a Caching one with the settings of the environment (see
// EnvConfig), an Async one if they say backend:cudaMallocAsync, or a Direct one if CISTERN_NO_MEMORY_CACHING or
// PYTORCH_NO_CUDA_MEMORY_CACHING is "1". It fails if the settings in the environment are wrong, or ask for a backend that the
// device does not have, with a *ConfigError, and if there is no device, with an *ArgumentError.
func For(dev device.Device) (Allocator, error) {
	return allocators.Get(dev, func() (Allocator, error) { return newFor(dev) })
}

func newFor(dev device.Device) (Allocator, error) {
	if text.NoDevice(dev) {
		return nil, argumentErr("For", text.NilDevice)
	}
	if cachingOff() {
		return NewDirect(dev), nil
	}
	c, err := EnvConfig()
	if err != nil {
		return nil, err
	}
	if c.Backend == BackendAsync {
		return NewAsync(dev, c)
	}
	return New(dev, c)
}

// Allocators returns the allocators that For has made and Drop has not closed, by kind and index of their devices.
func Allocators() []Allocator { return allocators.All() }

func lookup(dev device.Device) Allocator {
	a, _ := allocators.Lookup(dev)
	return a
}

// Drop closes the allocators of a device, also that of pinned memory, if it has them, and forgets them; For and pinned.For then
// make new ones. Close devices after it. Like Close it frees blocks in use too, whose users then fail (device.ErrClosed) or, where work is
// still to run, read and write memory that is nobody's: release tensors, graphs and models before. It returns a *LeakError if there were
// such blocks, joined with the errors of the driver.
func Drop(dev device.Device) error {
	a, ok := allocators.Remove(dev)
	var pinnedErr error
	if p, ok := registry.PinnedOf.Remove(dev); ok {
		pinnedErr = p.Close()
	}
	if !ok {
		return pinnedErr
	}
	return errors.Join(a.Close(), pinnedErr)
}
