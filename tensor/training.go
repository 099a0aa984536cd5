package tensor

import "github.com/cistern-ml/cistern/internal/training"

// Steps has what optimizers and gradient scalers do to many tensors at once, each in few launches and without waiting for the device. It is
// for packages of this module, which alone can write the key: programs use autograd/optim and amp.
func Steps(training.Key) steps { return steps{} }

type steps struct{}

// stepGuard is what a step takes from the device.
type stepGuard = training.Guard[*Tensor]
