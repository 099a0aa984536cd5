package tensor

import (
	"fmt"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/memory"
)

// scalars are the numbers that go with an operation; op.ID says what each means.
type scalars struct {
	f [2]float64
	i [2]int64
}

// launch is one call of a kernel in the making. It comes from a pool, because a call is large and lives for microseconds.
//
// It holds on to its tensors until the work is on the stream. Before that, an operand that nobody else refers to could be
// found unreachable, and its memory be freed by the safety net and given to somebody else; afterwards, freeing it is safe,
// because memory is reused in stream order.
type launch struct {
	call op.Call
	exec Exec
	held []*Tensor
}

var launches = sync.Pool{New: func() any { return new(launch) }}

// begin starts a call that will run on e's stream.
func begin(id op.ID, e Exec) *launch {
	l := launches.Get().(*launch)
	l.call.Op, l.call.Stream, l.exec = id, e.stream, e
	return l
}

func (l *launch) scalars(s scalars) {
	copy(l.call.F[:], s.f[:])
	copy(l.call.I[:], s.i[:])
}

// out adds an output, under a layout of its storage that may differ from the handle's.
func (l *launch) out(t *Tensor, as *layout) {
	if invariants.Enabled {
		t.mustHold(as)
	}
	l.call.Out = append(l.call.Out, op.View{})
	t.view(&l.call.Out[len(l.call.Out)-1], as)
	l.held = append(l.held, t)
}

// in adds an input.
func (l *launch) in(t *Tensor, as *layout) {
	if invariants.Enabled {
		t.mustHold(as)
	}
	l.call.In = append(l.call.In, op.View{})
	t.view(&l.call.In[len(l.call.In)-1], as)
	l.held = append(l.held, t)
}

// workspace is kernels.Workspace, but for tests: kernels for the processor need none.
var workspace = kernels.Workspace

// run enqueues the call on the stream and gives l back to the pool. Storage from another stream is recorded first, so that its
// memory is not reused before this call has run. The workspace is freed at once: that, too, is stream ordered.
func (l *launch) run(name string) error {
	defer l.recycle()
	if err := l.record(); err != nil {
		return wrap(name, err)
	}
	bytes := workspace(&l.call)
	if bytes == 0 {
		return wrap(name, kernels.Launch(&l.call))
	}
	work, err := l.kernelWorkspace(bytes)
	if err != nil {
		return wrap(name, err)
	}
	l.call.Work = op.View{Ptr: work.Ptr(), DType: Uint8, NDim: 1}
	l.call.Work.Shape[0], l.call.Work.Strides[0] = int(bytes), 1
	err = kernels.Launch(&l.call)
	if freed := freeBlock(l.exec.alloc, work); err == nil {
		err = freed
	}
	return wrap(name, err)
}

// kernelWorkspace takes the workspace, cuBLAS's too. In the stacks of a memory history it is this name that tells such blocks from
// tensors.
//
//go:noinline
func (l *launch) kernelWorkspace(bytes uint64) (memory.Block, error) {
	return l.exec.alloc.Alloc(bytes, l.exec.stream)
}

func (l *launch) record() error {
	id := l.exec.stream.ID()
	for _, t := range l.held {
		if err := t.storage.usedOn(id, l.exec); err != nil {
			return err
		}
	}
	return nil
}

// recycle forgets everything but the memory of the slices.
func (l *launch) recycle() {
	clear(l.held)
	l.held, l.exec = l.held[:0], Exec{}
	c := &l.call
	c.Out, c.In, c.Stream = c.Out[:0], c.In[:0], nil
	c.F, c.I, c.Work = [8]float64{}, [8]int64{}, op.View{}
	launches.Put(l)
}

// usedOn records that work on e's stream, whose number is id, uses the storage. The stream that it was allocated on needs
// no record. It is a *memory.BlockError if the allocator was closed, which takes back the blocks that are in use.
func (s *storage) usedOn(id device.StreamID, e Exec) error {
	if s.block.IsZero() || s.home == id && !s.abandoned() {
		return nil
	}
	return s.alloc.RecordStream(s.block, e.stream)
}

// abandoned reports whether the allocator says that it was closed.
func (s *storage) abandoned() bool {
	c, ok := s.alloc.(memory.CloseReporter)
	return ok && c.Closed()
}

// mustHold panics if a layout reaches outside t's storage, or if the storage is not ours any more. It is the check of
// invariants builds before each launch.
func (t *Tensor) mustHold(l *layout) {
	first, end := l.extent()
	size := t.dtype.Size()
	if first < 0 || end*size > int(t.storage.block.Size()) && end > first {
		// invariant: views stay inside their storage
		panic(fmt.Sprintf("tensor: elements %d..%d of %s are outside %d bytes", first, end, t.dtype, t.storage.block.Size()))
	}
	if t.storage.refs.Load() <= 0 {
		// invariant: launch.held keeps a reference until the call is on the stream
		panic("tensor: a kernel was given a storage that has been freed")
	}
}
