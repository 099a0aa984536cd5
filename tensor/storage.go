package tensor

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/memory"
)

// storage is a counted piece of device memory, shared by a tensor and its views. See doc.go for the rules.
//
// Invariants: refs is the number of handles that were not released. While refs > 0 the block is ours. The goroutine that
// takes refs to 0 frees the block, and nobody takes refs up from 0 again (acquire refuses), so the block is freed once.
// All fields but the atomics and cleanup are set before the first handle is handed out and do not change.
type storage struct {
	alloc   memory.Allocator
	block   memory.Block
	home    device.StreamID // the stream that the block was allocated on
	refs    atomic.Int32
	version atomic.Uint32 // moves at each change in place
	guarded atomic.Bool   // the safety net is attached, or being attached by a holder of a reference
	watch   atomic.Pointer[[]uintptr]
	cleanup runtime.Cleanup
}

// owner is what a tensor with new storage is made of. One allocation holds both, and a view's pointer to the storage keeps
// both reachable: so "unreachable" means that neither the tensor nor any view of it can be used any more.
type owner struct {
	handle  Tensor
	storage storage
}

// leaked is what the safety net needs to free a block. It must not point to the owner, which would then stay reachable.
type leaked struct {
	alloc memory.Allocator
	block memory.Block
}

// guard attaches the safety net, once: when no handle is reachable any more and the block was not freed, the runtime
// queues the block to its allocator. The caller holds a reference.
func (s *storage) guard() {
	if s.block.IsZero() || s.guarded.Load() || !s.guarded.CompareAndSwap(false, true) {
		return
	}
	s.cleanup = runtime.AddCleanup(s, func(l leaked) { l.alloc.FreeLater(l.block) }, leaked{s.alloc, s.block})
}

// acquire takes a reference, unless the last one is gone.
func (s *storage) acquire() bool {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release drops a reference. The last one frees the block: work that was enqueued on streams before is not disturbed, because
// the allocator hands memory out again in stream order. With later, freeing is left to the next allocation.
func (s *storage) release(later bool) {
	n := s.refs.Add(-1)
	if invariants.Enabled && n < 0 {
		// invariant: each handle releases once
		panic("tensor: a storage was released more often than it was held")
	}
	if n != 0 || s.block.IsZero() {
		return
	}
	// The write of cleanup happened before the writer's own release, hence before n became 0. Stop is only certain while
	// the object is reachable, which KeepAlive sees to; without it the block might be freed a second time.
	if s.guarded.Load() {
		s.cleanup.Stop()
	}
	if later {
		s.alloc.FreeLater(s.block)
	} else {
		// What can fail is the device, and then the next operation on it says so.
		err := freeBlock(s.alloc, s.block)
		if invariants.Enabled && !s.abandoned() && (errors.Is(err, memory.ErrDoubleFree) || errors.Is(err, memory.ErrForeignBlock)) {
			// invariant: the block is ours, and freed once, which counting sees to, or by the allocator's Close
			panic("tensor: freeing a storage: " + err.Error())
		}
	}
	runtime.KeepAlive(s)
}

// freeBlock frees a block. One that the driver refuses to take back is left to the next allocation, which asks again: an allocator
// knows blocks that it has already.
func freeBlock(alloc memory.Allocator, b memory.Block) error {
	err := alloc.Free(b)
	if err != nil {
		alloc.FreeLater(b)
	}
	return err
}

// changed notes a change in place, and where it was if that is asked for.
func (s *storage) changed() {
	s.version.Add(1)
	if s.watch.Load() != nil {
		pcs := make([]uintptr, watchedFrames)
		pcs = pcs[:runtime.Callers(2, pcs)]
		s.watch.Store(&pcs)
	}
}

// watchedFrames is how much of the stack of a change is kept.
const watchedFrames = 64
