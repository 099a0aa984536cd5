package memory

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// registry keeps the allocator of each device in use.
var registry struct {
	mu   sync.Mutex
	byID map[device.Device]Allocator
}

// For returns the allocator of a device, made at the first call: a Caching one with the settings of the environment (see
// EnvConfig), an Async one if they say backend:cudaMallocAsync, or a Direct one if CISTERN_NO_MEMORY_CACHING or
// PYTORCH_NO_CUDA_MEMORY_CACHING is "1". It fails if the settings in the environment are wrong, or ask for a backend that the
// device does not have, with a *ConfigError, and if there is no device, with an *ArgumentError.
func For(dev device.Device) (Allocator, error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if a := registry.byID[dev]; a != nil {
		return a, nil
	}
	a, err := newFor(dev)
	if err != nil {
		return nil, err
	}
	if registry.byID == nil {
		registry.byID = map[device.Device]Allocator{}
	}
	registry.byID[dev] = a
	return a, nil
}

func newFor(dev device.Device) (Allocator, error) {
	if noDriver(dev) {
		return nil, argumentErr("For", nilDevice)
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
func Allocators() []Allocator {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return slices.SortedFunc(maps.Values(registry.byID), func(a, b Allocator) int {
		x, y := a.Device(), b.Device()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Index, y.Index))
	})
}

func lookup(dev device.Device) Allocator {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return registry.byID[dev]
}

// Drop closes the allocators of a device, also that of pinned memory, if it has them, and forgets them; For and PinnedFor then
// make new ones. Close devices after it. Like Close it frees blocks in use too, whose users then fail (device.ErrClosed) or, where work is
// still to run, read and write memory that is nobody's: release tensors, graphs and models before. It returns a *LeakError if there were
// such blocks, joined with the errors of the driver.
func Drop(dev device.Device) error {
	registry.mu.Lock()
	a := registry.byID[dev]
	delete(registry.byID, dev)
	registry.mu.Unlock()
	err := dropPinned(dev)
	if a == nil {
		return err
	}
	return errors.Join(a.Close(), err)
}
