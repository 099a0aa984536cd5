package dense

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Engine is a gorgonia.Engine whose memory comes from the allocator of an Exec, so that the tensors of a gorgonia program are counted,
// limited and profiled by package memory:
//
//	x := tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float32), tensor.WithEngine(engine))
//
// On the host gorgonia's standard operations work, and their results are the Engine's too. On other devices memory is not accessible to
// Go: it is allocated, freed and copied, and operations are errors of gorgonia.
//
// Gorgonia does not tell an Engine which of its tensors are still in use: call Free when the last one that shares the memory is not
// needed any more, end a Scope, or Close for all at once. A tensor that is used after that reads and writes what may be another's memory.
// The memory of new tensors is zero.
//
// Errors of operations are an *OperationError. Gorgonia's constructors have no error for memory that cannot be had: they panic with what
// Alloc returned, as in a *memory.OOMError.
//
// An Engine may be used by several goroutines at once; its tensors are as gorgonia's are. The zero Engine has no memory.
type Engine struct {
	exec   tensor.Exec
	blocks blocks
}

// NewEngine returns an Engine with memory of e. The zero Exec is a *tensor.DeviceError.
func NewEngine(e tensor.Exec) (*Engine, error) {
	if e.Device() == nil {
		return nil, &tensor.DeviceError{Op: "dense.NewEngine", Detail: "no device"}
	}
	return &Engine{exec: e}, nil
}

// usable is an error for engines that NewEngine did not make.
func (e *Engine) usable(op string) error {
	if e == nil || e.exec.Device() == nil {
		return &tensor.ValueError{Op: op, Detail: "the Engine is nil or a zero value"}
	}
	return nil
}

// NonStdAlloc tells gorgonia that Alloc, not the garbage collector, has the memory.
func (e *Engine) NonStdAlloc() {}

// AllocAccessible reports whether Go code can use the memory: on the host.
func (e *Engine) AllocAccessible() bool {
	return e.usable("") == nil && e.exec.Device().ID().Kind == device.Host
}

// WorksWith reports that every order of elements is fine.
func (e *Engine) WorksWith(gorgonia.DataOrder) bool { return true }

// Alloc returns size bytes, which are zero. Its errors are the allocator's.
func (e *Engine) Alloc(size int64) (gorgonia.Memory, error) {
	const op = "dense.Engine.Alloc"
	if err := e.usable(op); err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, &tensor.ValueError{Op: op, Detail: fmt.Sprintf("%d bytes", size)}
	}
	b, err := e.exec.Allocator().Alloc(uint64(max(size, 1)), e.exec.Stream())
	if err != nil {
		return nil, err
	}
	err = e.clear(b.Ptr(), b.Size())
	if err == nil {
		err = e.blocks.add(b)
	}
	if err != nil {
		e.exec.Allocator().Free(b)
		return nil, err
	}
	return span{b.Ptr(), uint64(size)}, nil
}

// clear fills memory with zeros, and waits where Go is about to use it: what had it before may still be at work on the stream.
func (e *Engine) clear(p device.Ptr, n uint64) error {
	if err := e.exec.Stream().Fill(p, 0, n); err != nil || !e.AllocAccessible() {
		return err
	}
	return e.exec.Stream().Synchronize(context.Background())
}

// Free takes back the memory of mem, a tensor that was made with this Engine or what Alloc returned; the second argument says nothing
// that is not known. Views have no memory of their own: free the tensor that they are of. Memory that is not the Engine's, or is free
// already, is a *tensor.ValueError.
func (e *Engine) Free(mem gorgonia.Memory, _ int64) error {
	const op = "dense.Engine.Free"
	if err := e.usable(op); err != nil {
		return err
	}
	s, err := spanOf(op, mem)
	if err != nil {
		return err
	}
	if d, ok := mem.(*gorgonia.Dense); ok && d.IsView() {
		return &tensor.ValueError{Op: op, Detail: "a view has no memory of its own"}
	}
	b, err := e.blocks.take(op, s)
	if err != nil {
		return err
	}
	return e.exec.Allocator().Free(b)
}

// Close frees all memory that the Engine still has. Alloc fails after that.
func (e *Engine) Close() error {
	if err := e.usable("dense.Engine.Close"); err != nil {
		return err
	}
	return e.free(e.blocks.close())
}

// Scope begins a part of the program whose memory is freed together: end frees all that the Engine's tensors were given since, by any
// goroutine, but for those of keep. That has what gorgonia's operations make and drop on their way, too, and what operations that failed
// have made. A second call of end does nothing, so that it can be deferred.
//
//	end := engine.Scope()
//	loss := step(x)
//	err := end(loss)
func (e *Engine) Scope() (end func(keep ...gorgonia.Memory) error) {
	const op = "dense.Engine.Scope"
	if err := e.usable(op); err != nil {
		return func(...gorgonia.Memory) error { return err }
	}
	mark := e.blocks.mark()
	var ended atomic.Bool
	return func(keep ...gorgonia.Memory) error {
		if ended.Load() {
			return nil
		}
		var kept []span
		for _, k := range keep {
			s, err := spanOf(op, k)
			if err != nil {
				return err
			}
			kept = append(kept, s)
		}
		if ended.Swap(true) {
			return nil
		}
		return e.free(e.blocks.takeSince(mark, kept))
	}
}

// free returns the first error.
func (e *Engine) free(blocks []memory.Block) error {
	var first error
	for _, b := range blocks {
		if err := e.exec.Allocator().Free(b); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Live is how many pieces of memory the Engine has, and their bytes.
func (e *Engine) Live() (count int, bytes uint64) {
	if e == nil {
		return 0, 0
	}
	return e.blocks.live()
}

// Accessible returns memory that Go can use: mem itself on the host, else a copy of its bytes, a
// Dense of uint8. It waits for that.
func (e *Engine) Accessible(mem gorgonia.Memory) (gorgonia.Memory, error) {
	const op = "dense.Engine.Accessible"
	if err := e.usable(op); err != nil {
		return nil, err
	}
	s, err := spanOf(op, mem)
	if err != nil || e.AllocAccessible() || !e.blocks.contain(s) {
		return mem, err
	}
	content := make([]byte, s.bytes)
	if err := e.exec.Stream().CopyToHost(content, s.at); err != nil {
		return nil, err
	}
	return gorgonia.New(gorgonia.WithBacking(content)), nil
}

// Memcpy copies the bytes of src to dst, as many as both have; each is the Engine's or accessible to Go.
func (e *Engine) Memcpy(dst, src gorgonia.Memory) error {
	const op = "dense.Engine.Memcpy"
	if err := e.usable(op); err != nil {
		return err
	}
	to, err := spanOf(op, dst)
	if err != nil {
		return err
	}
	from, err := spanOf(op, src)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(src)
	defer runtime.KeepAlive(dst)
	n := min(to.bytes, from.bytes)
	stream, toOwn, fromOwn := e.exec.Stream(), e.owns(to), e.owns(from)
	switch {
	case n == 0:
		return nil
	case !toOwn && !accessible(dst), !fromOwn && !accessible(src):
		return outOfReach(op)
	case toOwn && fromOwn:
		return stream.Copy(to.at, from.at, n)
	case toOwn:
		return stream.CopyToDevice(to.at, from.goBytes()[:n])
	case fromOwn:
		return stream.CopyToHost(to.goBytes()[:n], from.at)
	}
	copy(to.goBytes()[:n], from.goBytes())
	return nil
}

// owns reports whether memory is the Engine's on a device whose memory Go cannot use.
func (e *Engine) owns(s span) bool { return !e.AllocAccessible() && e.blocks.contain(s) }

// Memset sets all elements of mem to val, a value of its type.
func (e *Engine) Memset(mem gorgonia.Memory, val any) error {
	const op = "dense.Engine.Memset"
	if err := e.usable(op); err != nil {
		return err
	}
	s, err := spanOf(op, mem)
	if err != nil {
		return err
	}
	if !e.owns(s) {
		if !accessible(mem) {
			return outOfReach(op)
		}
		return attempt(op, func() error { return standard.Memset(mem, val) })
	}
	pattern, err := repeated(op, val, s.bytes)
	if err != nil {
		return err
	}
	return e.exec.Stream().CopyToDevice(s.at, pattern)
}

// Memclr sets all bytes of mem to 0. Gorgonia has no error for it: what fails is the error of the next copy, too.
func (e *Engine) Memclr(mem gorgonia.Memory) {
	const op = "dense.Engine.Memclr"
	s, err := spanOf(op, mem)
	if err != nil || e.usable(op) != nil {
		return
	}
	if e.owns(s) {
		_ = e.exec.Stream().Fill(s.at, 0, s.bytes)
		return
	}
	if accessible(mem) {
		clear(s.goBytes())
	}
}

// accessible reports whether Go can use the memory of mem, as far as that says it.
func accessible(mem gorgonia.Memory) bool {
	t, tells := mem.(interface{ IsNativelyAccessible() bool })
	return !tells || t.IsNativelyAccessible()
}

func outOfReach(op string) error {
	return &tensor.ValueError{Op: op, Detail: "memory of another Engine that Go cannot use"}
}

// span is memory by its address.
type span struct {
	at    device.Ptr
	bytes uint64
}

// Uintptr and MemSize make a span a gorgonia.Memory.
func (s span) Uintptr() uintptr { return uintptr(s.at) }
func (s span) MemSize() uintptr { return uintptr(s.bytes) }

// goBytes is memory that Go can use.
func (s span) goBytes() []byte { return host.Bytes(s.at, s.bytes) }
