package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The scalars of Adam, RMSprop, Adagrad and Lion, as the structures in src/optim.cu have them.

// adamStep makes the Func of AdamStep: AMSGrad has a kernel of its own, with one more group.
func adamStep(d dtype.DType) op.Func {
	plain := stepFunc(optimKernel(op.AdamStep, d), 4, stepGroups, adamScalars)
	largest := stepFunc(named("optim", "amsgrad_step_"+suffixes[d]), 5, stepGroups, adamScalars)
	return func(c *op.Call) error {
		if c.I[3] != 0 {
			return largest(c)
		}
		return plain(c)
	}
}

// adamScalars folds what is the same for all elements: the bias corrections, and one of the two kinds of weight decay.
func adamScalars(p *device.Params, c *op.Call) {
	lr, beta1, beta2, eps, decay, step := c.F[0], c.F[1], c.F[2], c.F[3], c.F[4], c.F[5]
	// In float64, once for all elements: of 1-0.999, the correction of a first step, float32 has four digits.
	size := lr / (1 - math.Pow(beta1, step))
	root := math.Sqrt(1 - math.Pow(beta2, step))
	shrink := 1.0
	if decoupled := c.I[1] != 0; decoupled {
		shrink, decay = 1-float64(lr*decay), 0 // rounded twice on every processor, as the kernel does with settings from device memory
	}
	numbers(p, c.Out[0].DType, size, root, shrink, decay, beta1, 1-beta1, beta2, 1-beta2, eps)
	p.Int32(flags(c, flagFirst, flagMaximize, 0)) // first stands for decoupled
}

// rmspropGroups are parameters, square averages, momentum buffers, gradient averages and gradients: the places of buffers and
// averages in the call depend on each other.
func rmspropGroups(c *op.Call, g, i int) *op.View {
	n, momentum, centered := int(c.I[0]), c.F[4] != 0, c.I[1] != 0
	switch {
	case g == 4:
		return &c.In[i]
	case g == 2 && !momentum, g == 3 && !centered:
		return nil
	case g == 3 && !momentum:
		g = 2
	}
	return &c.Out[g*n+i]
}

// rmspropScalars: the numbers of RMSProp in src/optim.cu, in its order.
func rmspropScalars(p *device.Params, c *op.Call) {
	numbers(p, c.Out[0].DType, c.F[0], c.F[1], 1-c.F[1], c.F[2], c.F[3], c.F[4])
	p.Int32(flags(c, flagFirst, flagMaximize)) // first stands for centered
}

// adagradScalars decays the rate by the steps so far, F[4]: the kernel has one number for all elements. With counters in device memory it takes theirs
// instead (step.go).
func adagradScalars(p *device.Params, c *op.Call) {
	numbers(p, c.Out[0].DType, c.F[0]/(1+(c.F[4]-1)*c.F[1]), c.F[2], c.F[3])
	p.Int32(flags(c, flagMaximize))
}

// lionScalars: what is multiplied with 1-beta there is computed here, in float64.
func lionScalars(p *device.Params, c *op.Call) {
	numbers(p, c.Out[0].DType, c.F[0], 1-float64(c.F[0]*c.F[3]), c.F[1], 1-c.F[1], c.F[2], 1-c.F[2])
	p.Int32(flags(c, flagMaximize))
}
