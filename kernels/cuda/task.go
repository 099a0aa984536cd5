package cuda

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/kernels/op"
)

// threads is THREADS in src/base.h, and steps STEPS in src/elementwise.h.
const (
	threads = 256
	steps   = 4
)

// task is the memory for preparing one launch. A Func takes one from the pool and gives it back.
type task struct {
	loop, cut loop          // the iteration over the outputs, or all elements; and a second one: what is reduced, or groups of elements
	params    device.Params // 4 KiB, which is why tasks are pooled
	asked     blas.Product  // of the device's library, through an interface: on the stack it would be an allocation for each call
	next      op.Call       // of another kernel
	one       [1]op.View    // that next has
}

var tasks = sync.Pool{New: func() any { return new(task) }}

// takeTask takes one from the pool. Of what the last call left only the parameters are emptied: each Func sets the rest that it uses.
func takeTask() *task {
	t := tasks.Get().(*task)
	t.params.Reset()
	return t
}

// launch enqueues a kernel on the call's stream with the task's parameters, and empties them.
func (t *task) launch(c *op.Call, k *kernel, grid device.Dim3) error {
	return t.launchShape(c, k, device.LaunchShape{Grid: grid, Block: device.Dim3{X: threads}})
}

// launchShape is launch for kernels with blocks of their own. Launches of one call are on one stream, so that each finds what the one
// before wrote; none is waited for.
func (t *task) launchShape(c *op.Call, k *kernel, shape device.LaunchShape) error {
	h, err := k.on(c.Stream.Device())
	if err != nil {
		return err
	}
	err = launch(c, h, shape, &t.params)
	t.params.Reset() // the driver has its copy: the next launch of the same call begins with none
	return err
}

// launch enqueues a kernel on the call's stream, and lets devices know what for.
func launch(c *op.Call, h device.Kernel, shape device.LaunchShape, params *device.Params) error {
	if described, ok := h.(device.DescribedKernel); ok {
		return described.LaunchFor(c, c.Stream, shape, params)
	}
	return h.Launch(c.Stream, shape, params)
}

// blocks is the grid of one dimension for n pieces of work, so many to a block.
func blocks(n, each int) device.Dim3 { return device.Dim3{X: uint32(blocksOf(n, each))} }

// pair is a structure of two 32-bit numbers as it lies in memory: the first is the lower half.
func pair(a, b uint32) uint64 { return uint64(a) | uint64(b)<<32 }
