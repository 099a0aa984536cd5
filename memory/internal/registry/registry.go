// Package registry keeps one allocator for each device in use.
//
// It also is how package memory closes and describes the allocators of pinned host memory of a device without knowing them: those
// import package memory, for the forms of snapshots, statistics and errors, and register here.
package registry

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// Registered is what is kept.
type Registered interface {
	comparable
	Device() device.ID
}

// Of keeps an allocator for each device. The zero Of is empty.
type Of[A Registered] struct {
	mu       sync.Mutex
	byDevice map[device.Device]A
}

// Get returns the allocator of a device; if there is none, it is made. The lock is held meanwhile, so that only one is.
func (r *Of[A]) Get(dev device.Device, build func() (A, error)) (A, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.byDevice[dev]; ok {
		return a, nil
	}
	a, err := build()
	if err != nil {
		return a, err
	}
	if r.byDevice == nil {
		r.byDevice = map[device.Device]A{}
	}
	r.byDevice[dev] = a
	return a, nil
}

// Lookup returns the allocator of a device, if there is one.
func (r *Of[A]) Lookup(dev device.Device) (A, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byDevice[dev]
	return a, ok
}

// Remove forgets the allocator of a device and returns it, if there is one.
func (r *Of[A]) Remove(dev device.Device) (A, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byDevice[dev]
	delete(r.byDevice, dev)
	return a, ok
}

// All returns the allocators by kind and index of their devices.
func (r *Of[A]) All() []A {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.byDevice), func(a, b A) int {
		x, y := a.Device(), b.Device()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Index, y.Index))
	})
}

// Pinned is an allocator of pinned host memory.
type Pinned interface {
	Device() device.ID
	Close() error
}

// PinnedOf has the allocators of pinned host memory.
var PinnedOf Of[Pinned]
