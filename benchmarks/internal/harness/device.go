package harness

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/cuda" // devices that -device names
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// On opens a device, measures on it, and closes it.
func On(spec string, measure func(e tensor.Exec, spec device.Spec) error) (err error) {
	parsed, err := device.ParseSpec(spec)
	if err != nil {
		return err
	}
	dev, err := device.Open(spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Drop(dev), dev.Close()) }()
	e, err := tensor.On(dev)
	if err != nil {
		return err
	}
	return measure(e, parsed)
}
