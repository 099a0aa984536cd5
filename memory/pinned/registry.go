package pinned

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/registry"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// For returns the allocator of pinned host memory of a device, made at the first call with the settings of the environment (see
// memory.EnvConfig). It fails with a *memory.ConfigError if those are wrong, and with device.ErrUnavailable if the device has no
// pinned memory. memory.Drop closes it.
func For(dev device.Device) (*Allocator, error) {
	if text.NoDevice(dev) {
		return nil, argumentErr("pinned.For", text.NilDevice)
	}
	driver, ok := dev.(Driver)
	if !ok {
		return nil, &device.Error{Device: dev.ID(), Call: "pinned.For", Detail: "it has no pinned host memory", Err: device.ErrUnavailable}
	}
	p, err := registry.PinnedOf.Get(dev, func() (registry.Pinned, error) {
		c, err := memory.EnvConfig()
		if err != nil {
			return nil, err
		}
		return newRegistered(driver, c)
	})
	if err != nil {
		return nil, err
	}
	return p.(*Allocator), nil // nobody else registers there
}

// newRegistered is New, without a nil pointer in an interface that is not nil.
func newRegistered(d Driver, c memory.Config) (registry.Pinned, error) {
	p, err := New(d, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Allocators returns the allocators that For has made and memory.Drop has not closed, by kind and index of their devices.
func Allocators() (list []*Allocator) {
	for _, p := range registry.PinnedOf.All() {
		list = append(list, p.(*Allocator))
	}
	return list
}
