package memory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory/internal/streams"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Direct asks the driver for every block and gives it back at once: what programs do without a caching allocator. It is the
// baseline of the benchmarks, and what memory debuggers want to see. Sizes are not rounded, and statistics are only kept in
// their All fields. A Free waits for the streams that use the block.
type Direct struct {
	driver Driver
	id     device.ID
	mark   *shard // stands in each of its blocks, and in no other's

	mu            sync.Mutex
	live          map[*block]device.Stream
	stats         Stats
	deferredFrees deferredFrees
	closed        atomic.Bool // changed under mu; read without: tensors ask at each call
}

// NewDirect makes an allocator without a cache. Of one without a device every Alloc is an *ArgumentError.
func NewDirect(d Driver) *Direct {
	a := &Direct{live: map[*block]device.Stream{}}
	a.mark = &shard{other: a}
	if !text.NoDevice(d) {
		a.driver, a.id = d, d.ID()
	}
	return a
}

// absent reports whether there is no allocator: a nil pointer, or a zero value, which NewDirect did not make.
func (a *Direct) absent() bool { return a == nil || a.mark == nil }

// Device is the device whose memory this is.
func (a *Direct) Device() device.ID {
	if a.absent() {
		return device.ID{}
	}
	return a.id
}

// Alloc implements Allocator.
func (a *Direct) Alloc(bytes uint64, s device.Stream) (Block, error) {
	if a.absent() {
		return Block{}, argumentErr("Alloc", text.NilAllocator)
	}
	a.deferredFrees.drain(a.Free)
	switch {
	case bytes == 0:
		return Block{}, nil
	case isnil.Value(s):
		return Block{}, argumentErr("Alloc", "%s", isnil.Why("stream", s))
	case a.driver == nil:
		return Block{}, argumentErr("Alloc", text.NilDevice)
	}
	if err := checkOpenStream("Alloc", a.id, a.driver, s); err != nil {
		return Block{}, err
	}
	if bytes >= maxRequest {
		return Block{}, a.fail(bytes, 0)
	}
	if a.closed.Load() {
		return Block{}, a.errClosed()
	}
	ptr, err := a.driver.Malloc(bytes)
	if errors.Is(err, device.ErrOutOfMemory) {
		return Block{}, a.fail(bytes, bytes)
	}
	if err != nil {
		return Block{}, err
	}
	b := &block{shard: a.mark, guarded: guarded{ptr: ptr, size: bytes, requested: bytes, state: stateAllocated}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() { // while the driver was asked: nobody gives the block back any more
		return Block{}, errors.Join(a.errClosed(), a.driver.Free(ptr))
	}
	a.live[b] = s
	a.stats.NumDeviceAlloc++
	for _, st := range a.moving() {
		st.count.All.increase(st.of(bytes))
	}
	return Block{b: b, ptr: ptr, size: bytes}, nil
}

func (a *Direct) errClosed() error {
	return &device.Error{Device: a.id, Call: "memory.Alloc", Err: device.ErrClosed}
}

type movingStat struct {
	count *StatArray
	ones  bool
}

func (m movingStat) of(bytes uint64) int64 {
	if m.ones {
		return 1
	}
	return int64(bytes)
}

// moving lists the statistics that follow each block. Caller holds a.mu.
func (a *Direct) moving() []movingStat {
	s := &a.stats
	return []movingStat{{&s.Allocation, true}, {&s.Active, true}, {&s.Segment, true}, {&s.AllocatedBytes, false},
		{&s.ActiveBytes, false}, {&s.ReservedBytes, false}, {&s.RequestedBytes, false}}
}

func (a *Direct) fail(bytes, tried uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.NumOOMs++
	n := uint64(a.stats.AllocatedBytes.All.Current)
	e := &OOMError{Device: a.id, Requested: bytes, Tried: tried, Allocated: n, Reserved: n}
	if info, err := a.driver.MemInfo(); err == nil {
		e.DeviceFree, e.DeviceTotal = info.Free, info.Total
	}
	return e
}

// Free implements Allocator. Unlike the caching allocator's it blocks: work that uses the block must be done before the
// driver may have it.
func (a *Direct) Free(h Block) error {
	if a.absent() {
		return argumentErr("Free", text.NilAllocator)
	}
	b := h.b
	if b == nil {
		return nil
	}
	a.mu.Lock()
	own, ok := a.live[b]
	if !ok {
		a.mu.Unlock()
		sentinel := ErrDoubleFree
		if b.shard != a.mark {
			sentinel = ErrForeignBlock
		}
		return &BlockError{Op: "Free", Device: a.id, Ptr: h.ptr, Size: h.size, Err: sentinel}
	}
	delete(a.live, b) // from here on a second Free is a double free
	users := b.users
	a.mu.Unlock()

	err := errors.Join(waitFor(own), waitForAll(users))
	if freeErr := a.driver.Free(b.ptr); freeErr != nil {
		a.mu.Lock()
		a.live[b] = own
		a.mu.Unlock()
		return errors.Join(err, freeErr)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.NumDeviceFree++
	for _, st := range a.moving() {
		st.count.All.decrease(st.of(b.size))
	}
	return err
}

func waitFor(s device.Stream) error {
	err := s.Synchronize(context.Background())
	if errors.Is(err, device.ErrClosed) { // closing waited
		return nil
	}
	return err
}

func waitForAll(users []use) error {
	var errs []error
	for _, u := range users {
		errs = append(errs, waitFor(u.stream))
	}
	return errors.Join(errs...)
}

// FreeLater implements Allocator.
func (a *Direct) FreeLater(h Block) {
	if a.absent() || h.b == nil {
		return
	}
	if home := h.b.home(); home != a {
		home.FreeLater(h)
		return
	}
	if a.closed.Load() {
		return
	}
	a.deferredFrees.add(h)
}

// RecordStream implements Allocator.
func (a *Direct) RecordStream(h Block, s device.Stream) error {
	if a.absent() {
		return argumentErr("RecordStream", text.NilAllocator)
	}
	b := h.b
	if b == nil {
		return nil
	}
	if err := checkStream("RecordStream", a.id, a.driver, s); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	own, ok := a.live[b]
	if !ok {
		sentinel := text.UsedLate(&a.closed, ErrUseAfterFree)
		if b.shard != a.mark {
			sentinel = ErrForeignBlock
		}
		return &BlockError{Op: "RecordStream", Device: a.id, Ptr: h.ptr, Size: h.size, Err: sentinel}
	}
	if s.ID() != own.ID() && !streams.Closed(s) {
		b.addUser(s)
	}
	return nil
}

// EmptyCache frees what FreeLater queued; there is no cache.
func (a *Direct) EmptyCache() error {
	if a.absent() {
		return argumentErr("EmptyCache", text.NilAllocator)
	}
	a.deferredFrees.drain(a.Free)
	return nil
}

// Stats implements Allocator.
func (a *Direct) Stats() Stats {
	if a.absent() {
		return Stats{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.MaxSplitSize = -1
	s.NumDeferredFrees = a.deferredFrees.count()
	return s
}

// Close implements Allocator.
func (a *Direct) Close() error {
	if a.absent() {
		return nil
	}
	a.deferredFrees.drain(a.Free)
	a.mu.Lock()
	if a.closed.Swap(true) {
		a.mu.Unlock()
		return nil
	}
	leak := &LeakError{Device: a.id, Blocks: int64(len(a.live)), Bytes: uint64(a.stats.AllocatedBytes.All.Current)}
	var left []Block
	for b := range a.live {
		left = append(left, Block{b: b, ptr: b.ptr, size: b.size})
	}
	a.mu.Unlock()
	var errs []error
	if leak.Blocks > 0 {
		errs = append(errs, leak)
	}
	for _, h := range left {
		errs = append(errs, a.Free(h))
	}
	return errors.Join(errs...)
}

// Closed implements CloseReporter.
func (a *Direct) Closed() bool { return a.absent() || a.closed.Load() }

// String names the allocator and its device, and says when it is closed.
func (a *Direct) String() string {
	if a.absent() {
		return "direct allocator (nil)"
	}
	return text.Allocator("direct allocator", a.id, &a.closed)
}
