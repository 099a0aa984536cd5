package safetensors

import (
	"errors"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Home is host memory for what is read, which keeps nothing: what is released goes back to the system.
func Home() (e tensor.Exec, end func() error, err error) {
	dev := host.New()
	alloc := memory.NewDirect(dev)
	end = func() error { return errors.Join(alloc.Close(), dev.Close()) }
	e, err = tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		return e, nil, errors.Join(err, end())
	}
	return e, end, nil
}
