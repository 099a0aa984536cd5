package sim

import "github.com/cistern-ml/cistern/device"

func init() { device.Register(device.Sim, opener{}) }

// opener gives package device this kind of device.
type opener struct{}

// Open returns a new device.
func (opener) Open(spec device.Spec) (device.Device, error) {
	if spec.Capacity == 0 {
		return New(DefaultCapacity), nil
	}
	return New(spec.Capacity), nil
}

// Count is 1: there are as many as one asks for.
func (opener) Count() int { return 1 }
