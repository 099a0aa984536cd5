package tensor

import "github.com/cistern-ml/cistern/internal/training"

// Gradients has the gradients of this package's operations, each by the operation's name and beside it in the sources, and the operations
// that also return what their gradients need. Errors of a gradient have Grad in the name: MSELossGrad. It is for packages of this module,
// which alone can write the key: programs use autograd.
func Gradients(training.Key) gradients { return gradients{} }

type gradients struct {
	format MemoryFormat // of gradients of images and of kernels of convolutions: see In
}

// In is Gradients with another memory format of gradients of images and of kernels of convolutions, of those that have its dimensions.
func (gradients) In(f MemoryFormat) gradients { return gradients{f} }

// layout is that of a gradient of so many elements.
func (g gradients) layout(name string, shape Shape) (layout, error) {
	l, err := newLayout(name, shape)
	if err == nil && l.ndim == g.format.dims() {
		l.packIn(g.format)
	}
	return l, err
}

// attentionGrads and recurrentGrads are what those of several operands at once return.
type (
	attentionGrads = training.Attention[*Tensor]
	recurrentGrads = training.Recurrent[*Tensor]
)

// Steps has what optimizers and gradient scalers do to many tensors at once, each in few launches and without waiting for the device. It is
// for packages of this module, which alone can write the key: programs use autograd/optim and amp.
func Steps(training.Key) steps { return steps{} }

type steps struct{}

// stepGuard is what a step takes from the device.
type stepGuard = training.Guard[*Tensor]
