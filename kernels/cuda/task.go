package cuda

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// threads is THREADS in src/base.h, and steps STEPS in src/elementwise.h.
const (
	threads = 256
	steps   = 4
)

// task is the memory for preparing one launch. A Func takes one from the pool and gives it back.
type task struct {
	loop, cut loop
	params    device.Params
}

var tasks = sync.Pool{New: func() any { return new(task) }}

func takeTask() *task {
	t := tasks.Get().(*task)
	t.params.Reset()
	return t
}

// launch puts a kernel on the call's stream with the task's parameters, and empties them.
func (t *task) launch(c *op.Call, k *kernel, grid device.Dim3) error {
	h, err := k.on(c.Stream.Device())
	if err != nil {
		return err
	}
	err = h.Launch(c.Stream, device.LaunchShape{Grid: grid, Block: device.Dim3{X: threads}}, &t.params)
	t.params.Reset()
	return err
}

// blocks is the grid of one dimension for n pieces of work, so many to a block.
func blocks(n, each int) device.Dim3 { return device.Dim3{X: uint32((n + each - 1) / each)} }

// pair appends a structure of two 32-bit numbers.
func pair(a, b uint32) uint64 { return uint64(a) | uint64(b)<<32 }

// noteBytes is the size of the note that kernels leave of an index out of range: whether, the index, and where.
const noteBytes = 24

func noteSpace(*op.Call) uint64 { return noteBytes }

// clearNote empties the note at p.
func clearNote(c *op.Call, p device.Ptr) error { return c.Stream.Fill(p, 0, noteBytes) }

// readNote waits for the call and returns the error that its kernels noted, if any; see the package comment.
func readNote(c *op.Call, p device.Ptr, what string, size int) error {
	if s, ok := c.Stream.(device.Capturer); ok && s.CaptureID() != 0 {
		return nil
	}
	var raw [noteBytes]byte
	if err := c.Stream.CopyToHost(raw[:], p); err != nil {
		return err
	}
	note := decodeNote(raw)
	if note.set {
		return op.Errorf(c.Op, op.ErrIndex, "%s %d at %d is not in 0..%d", what, note.index, note.place, size-1)
	}
	return nil
}
