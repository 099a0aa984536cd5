package tensor

// Every program that uses tensors can open all kinds of devices; each registers itself with package device.
import (
	_ "github.com/cistern-ml/cistern/device/cuda"
	_ "github.com/cistern-ml/cistern/device/host"
	_ "github.com/cistern-ml/cistern/device/sim"
)
