package tensor

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
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
	l.call.Out = append(l.call.Out, op.View{})
	t.view(&l.call.Out[len(l.call.Out)-1], as)
	l.held = append(l.held, t)
}

// in adds an input.
func (l *launch) in(t *Tensor, as *layout) {
	l.call.In = append(l.call.In, op.View{})
	t.view(&l.call.In[len(l.call.In)-1], as)
	l.held = append(l.held, t)
}

// run puts the call on the stream and gives l back to the pool. Storage from another stream is recorded first, so that its
// memory is not reused before this call has run. The workspace is freed at once: that, too, is stream ordered.
func (l *launch) run(name string) error {
	defer l.recycle()
	if err := l.record(); err != nil {
		return wrap(name, err)
	}
	bytes := kernels.Workspace(&l.call)
	if bytes == 0 {
		return wrap(name, kernels.Launch(&l.call))
	}
	work, err := l.exec.alloc.Alloc(bytes, l.exec.stream)
	if err != nil {
		return wrap(name, err)
	}
	l.call.Work = op.View{Ptr: work.Ptr(), DType: Uint8, NDim: 1}
	l.call.Work.Shape[0], l.call.Work.Strides[0] = int(bytes), 1
	err = kernels.Launch(&l.call)
	if freed := l.exec.alloc.Free(work); err == nil {
		err = freed
	}
	return wrap(name, err)
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

func (l *launch) recycle() {
	out, in, held := l.call.Out[:0], l.call.In[:0], l.held[:0]
	clear(l.held)
	*l = launch{held: held}
	l.call.Out, l.call.In = out, in
	launches.Put(l)
}

// usedOn records that work on e's stream, whose number is id, uses the storage. The stream that it was allocated on needs
// no record.
func (s *storage) usedOn(id device.StreamID, e Exec) error {
	if s.home == id || s.block.IsZero() {
		return nil
	}
	return s.alloc.RecordStream(s.block, e.stream)
}
