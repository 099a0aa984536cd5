package host

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

func init() { device.Register(device.Host, opener{}) }

// opener gives package device this kind of device.
type opener struct{}

// Open returns the process-wide device, or a new one if a capacity is given.
func (opener) Open(spec device.Spec) (device.Device, error) {
	if spec.Capacity > 0 {
		return New(Capacity(spec.Capacity)), nil
	}
	return Default(), nil
}

// Count is 1: there is always a processor.
func (opener) Count() int { return 1 }

// Shutdown implements device.Shutdowner. There is no driver to give anything back to.
func (opener) Shutdown() error { return Default().Synchronize(context.Background()) }
