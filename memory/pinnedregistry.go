package memory

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// pinnedRegistry keeps the pinned allocator of each device in use.
var pinnedRegistry struct {
	mu       sync.Mutex
	byDevice map[device.Device]*Pinned
}

// PinnedFor returns the allocator of pinned host memory of a device, made at the first call with the settings of the
// environment (see EnvConfig). It fails with a *ConfigError if those are wrong, and with device.ErrUnavailable if the device
// has no pinned memory. Drop closes it.
func PinnedFor(dev device.Device) (*Pinned, error) {
	if noDriver(dev) {
		return nil, argumentErr("PinnedFor", nilDevice)
	}
	driver, ok := dev.(PinnedDriver)
	if !ok {
		return nil, &device.Error{Device: dev.ID(), Call: "memory.PinnedFor", Detail: "it has no pinned host memory",
			Err: device.ErrUnavailable}
	}
	pinnedRegistry.mu.Lock()
	defer pinnedRegistry.mu.Unlock()
	if p := pinnedRegistry.byDevice[dev]; p != nil {
		return p, nil
	}
	c, err := EnvConfig()
	if err != nil {
		return nil, err
	}
	p, err := NewPinned(driver, c)
	if err != nil {
		return nil, err
	}
	if pinnedRegistry.byDevice == nil {
		pinnedRegistry.byDevice = map[device.Device]*Pinned{}
	}
	pinnedRegistry.byDevice[dev] = p
	return p, nil
}

// PinnedAllocators returns the allocators that PinnedFor has made and Drop has not closed, by kind and index of their devices.
func PinnedAllocators() []*Pinned {
	pinnedRegistry.mu.Lock()
	defer pinnedRegistry.mu.Unlock()
	return slices.SortedFunc(maps.Values(pinnedRegistry.byDevice), func(p, q *Pinned) int {
		return cmp.Or(cmp.Compare(p.id.Kind, q.id.Kind), cmp.Compare(p.id.Index, q.id.Index))
	})
}

// lookupPinned returns the pinned allocator of a device, or nil.
func lookupPinned(dev device.Device) *Pinned {
	pinnedRegistry.mu.Lock()
	defer pinnedRegistry.mu.Unlock()
	return pinnedRegistry.byDevice[dev]
}

// dropPinned closes the pinned allocator of a device, if it has one, and forgets it.
func dropPinned(dev device.Device) error {
	pinnedRegistry.mu.Lock()
	p := pinnedRegistry.byDevice[dev]
	delete(pinnedRegistry.byDevice, dev)
	pinnedRegistry.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Close()
}
