package memory

import (
	"errors"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// Pinned is PyTorch's caching allocator for pinned host memory: memory that the operating system does not move, so that a
// device reads and writes it at full speed while the program goes on. Pinning is slow (a driver call, milliseconds for large
// blocks), so what is freed is kept and handed out again.
//
//	p, err := memory.PinnedFor(dev)
//	b, err := p.Alloc(bytes)           // b.Bytes() is ordinary memory for Go
//	err = p.RecordStream(b, stream)    // after enqueuing a copy from or to b on the stream
//	err = p.Free(b)                    // at once: the block is reused when the copy is done
//
// # Sizes and buckets
//
// A block's size is the request rounded up to a power of two, or the request itself above PinnedMaxRoundThresholdBytes and
// above PinnedMaxCachedBytes. Blocks are neither split nor merged. There are 64 buckets; bucket k has the blocks of more than
// 2^(k-1) and up to 2^k bytes. A request takes the block of its bucket that was freed last and is large enough: unrounded
// blocks of different sizes share a bucket. Only if there is none is the driver asked (pinnedsource.go). A freed block larger
// than PinnedMaxCachedBytes is not kept, be it by request or by rounding.
//
//	bucket 16   free: | 64 KiB | 64 KiB | 50 KiB |  <- the next 40 KiB take the last one, the next 64 KiB the second
//
// # States of a block
//
//	        Alloc                   Free, no stream recorded
//	cached -------> allocated ----------------------------------> cached, or releasing if larger than PinnedMaxCachedBytes
//	  ^                 |  Free, streams recorded or used in a capture
//	  |   all done      v
//	  +------------- pending
//
//	cached -> releasing -> spare   EmptyCache: the driver has the memory back. If it refuses, the block is cached again
//
// # Where it differs from PyTorch's
//
// Each difference is meant to be noticed only by being better.
//
//   - Events are queued by stream, not in one queue, so a stream that runs for long holds up only the blocks that wait for
//     it. What has completed is taken in the order in which it was recorded, over all streams; so as long as no stream is
//     behind another, blocks enter their buckets in PyTorch's order.
//   - The active statistics fall on every path of a free, when the memory can be used again; their peaks are exact and no
//     sums of the buckets' peaks.
//   - Blocks cut from the reserve segment stay cached for ever. PyTorch's EmptyCache drops them, and nobody gets their
//     memory again. NumHostAlloc counts the segment, as the one driver call that it is.
//   - If the driver has no memory, Alloc waits for the outstanding events, gives the cache back, and asks once more.
//   - The background goroutine rests while no event is outstanding.
//   - No driver call is made under the lock of a bucket, in EmptyCache neither.
//   - There is one allocator per device; streams of other devices may be recorded all the same.
//   - Snapshots have the bytes that were requested, where PyTorch's have the blocks' sizes.
//
// # Invariants
//
//   - a bucket's list of free blocks holds exactly its cached blocks
//   - allocated_bytes is the sum of all blocks, active_bytes that of the allocated and pending ones
//   - a pending block waits for exactly the events queued for it and the captures that hold it
//
// # Locks
//
// In this order, each optional: pinnedEvents.mu, the buckets' locks by number, and then the small ones (captureSet.mu,
// PinnedCapture.mu, pinnedBooks.mu). pinnedReserve.mu comes before pinnedBooks.mu and meets no other; pinnedWorker.mu meets
// none. Driver calls are made without a lock, with two exceptions: recording, asking and closing events, which is done under
// pinnedEvents.mu, and taking the reserve segment and giving it back, for which pinnedReserve.mu makes the others wait.
type Pinned struct {
	driver    PinnedDriver
	registrar HostRegistrar // nil if the driver registers no memory
	id        device.ID
	policy    atomic.Pointer[pinnedPolicy]
	closed    atomic.Bool

	buckets  [numBuckets]bucket
	requests gauge // active requests, and their bytes: moved under the lock of the block's bucket
	bytes    gauge

	events   pinnedEvents
	captures captureSet
	reserve  pinnedReserve
	books    pinnedBooks
	worker   pinnedWorker
	stacks   *fpstack.Table // nil until history is recorded for the first time; written under the locks of all buckets

	unverified atomic.Int64 // calls until the next check of builds with the tag "invariants"
}

// PinnedDriver is what Pinned needs of a device. Every device.PinnedMemory is one.
type PinnedDriver interface {
	ID() device.ID
	AllocPinned(bytes uint64) ([]byte, error)
	FreePinned(b []byte) error
}

// HostRegistrar is a PinnedDriver that can also pin memory it did not make. RegisterPinned pins b, after which the device uses
// it at the same address as the program; if the hardware cannot do that, it fails. UnregisterPinned undoes it, for the same
// slice. The memory belongs to the caller throughout. PinnedUseHostRegister has no effect without one, nor on Windows.
type HostRegistrar interface {
	RegisterPinned(b []byte) error
	UnregisterPinned(b []byte) error
}

// pinnedPolicy is the part of a Config that concerns pinned memory, as the allocator reads it: immutable.
type pinnedPolicy struct {
	maxRound   uint64 // unlimited when not set
	maxCached  uint64
	reserve    uint64
	register   bool
	threads    int
	background bool
	catchAll   bool
}

func newPinnedPolicy(c Config) *pinnedPolicy {
	p := &pinnedPolicy{
		maxRound: c.PinnedMaxRoundThresholdBytes, maxCached: c.PinnedMaxCachedBytes, reserve: c.PinnedReserveSegmentBytes,
		register: c.PinnedUseHostRegister, threads: max(c.PinnedNumRegisterThreads, 1),
		background: c.PinnedUseBackgroundThreads, catchAll: c.PinnedFreeCatchAll,
	}
	if p.maxRound == 0 {
		p.maxRound = unlimited
	}
	if p.maxCached == 0 {
		p.maxCached = unlimited
	}
	return p
}

// blockSize is the size of the block for a request of less than maxRequest bytes.
func (p *pinnedPolicy) blockSize(bytes uint64) uint64 {
	if bytes > p.maxRound || bytes > p.maxCached {
		return bytes
	}
	return 1 << bucketIndex(bytes)
}

// NewPinned makes an allocator of pinned host memory with the Pinned settings of c. Most programs use PinnedFor, which keeps
// one for each device. The error is a *ConfigError.
func NewPinned(d PinnedDriver, c Config) (*Pinned, error) {
	if noDriver(d) {
		return nil, argumentErr("NewPinned", nilDevice)
	}
	p := &Pinned{driver: d, id: d.ID(), events: pinnedEvents{queues: newPinnedQueues()}}
	p.registrar, _ = d.(HostRegistrar)
	for i := range p.buckets {
		p.buckets[i].owner = p
	}
	if err := p.SetConfig(c); err != nil {
		return nil, err
	}
	return p, nil
}

// absent reports whether there is no allocator: a nil pointer, or a zero value, which NewPinned did not make.
func (p *Pinned) absent() bool { return p == nil || p.driver == nil }

// SetConfig changes the settings. Later calls follow them, except that the reserve segment is taken at the first allocation
// and never changed, and that the background goroutine, once started, runs until Close.
func (p *Pinned) SetConfig(c Config) error {
	if p.absent() {
		return argumentErr("Pinned.SetConfig", nilAllocator)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	p.policy.Store(newPinnedPolicy(c))
	return nil
}

// Device is the device whose driver pins the memory.
func (p *Pinned) Device() device.ID {
	if p.absent() {
		return device.ID{}
	}
	return p.id
}

// Alloc returns a block of at least bytes bytes; zero bytes give the zero PinnedBlock. The content is undefined. Served from
// cache it takes the lock of the bucket, before that the one of the events if some are outstanding, and makes no Go heap
// allocation. It fails with a *PinnedOOMError (errors.Is ErrOutOfMemory) when the memory cannot be had; only before that does
// it wait for the device.
func (p *Pinned) Alloc(bytes uint64) (PinnedBlock, error) {
	if p.absent() {
		return PinnedBlock{}, argumentErr("Pinned.Alloc", nilAllocator)
	}
	h, err := p.alloc(bytes)
	p.verify()
	return h, err
}

func (p *Pinned) alloc(bytes uint64) (PinnedBlock, error) {
	if bytes == 0 {
		return PinnedBlock{}, nil
	}
	if p.events.outstanding.Load() != 0 && !p.worker.running.Load() {
		p.pollEvents()
	}
	if bytes >= maxRequest {
		return PinnedBlock{}, &PinnedOOMError{Device: p.id, Requested: bytes}
	}
	policy := p.policy.Load()
	size := policy.blockSize(bytes)
	if h, ok := p.bucket(size).reuse(bytes); ok {
		return h, nil
	}
	return p.allocSlow(policy, bytes, size)
}

// allocSlow serves a request that found nothing cached.
func (p *Pinned) allocSlow(policy *pinnedPolicy, bytes, size uint64) (PinnedBlock, error) {
	if p.closed.Load() {
		return PinnedBlock{}, p.errClosed()
	}
	if policy.background {
		p.worker.start(p)
	}
	b, err := p.obtain(policy, size)
	if errors.Is(err, device.ErrOutOfMemory) {
		if waitErr := p.reclaim(); waitErr != nil {
			return PinnedBlock{}, errors.Join(p.outOfMemory(bytes, size, err), waitErr)
		}
		b, err = p.obtain(policy, size)
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return PinnedBlock{}, p.outOfMemory(bytes, size, err)
	}
	if err != nil {
		return PinnedBlock{}, err
	}
	return p.admit(b, bytes)
}

// RecordStream notes that work on s uses the block, so that Free delays its reuse until the work then on s has finished. Call
// it after putting the work there. If s is being captured (BeginCapture), the block is held by the capture instead. It fails
// with a *BlockError if the block was freed or is of another allocator.
func (p *Pinned) RecordStream(h PinnedBlock, s device.Stream) error {
	if p.absent() {
		return argumentErr("Pinned.RecordStream", nilAllocator)
	}
	b := h.b
	if b == nil {
		return nil
	}
	if b.bucket.owner != p {
		return p.blockError("RecordStream", h, ErrForeignBlock)
	}
	if isnil.Value(s) {
		return argumentErr("RecordStream", "%s", isnil.Why("stream", s))
	}
	capture := p.captures.of(s)
	k := b.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	if !h.valid() {
		return p.blockError("RecordStream", h, usedLate(&p.closed))
	}
	if capture != nil && capture.hold(b) {
		return nil
	}
	b.addUser(s)
	return nil
}

// Free takes a block back. It does not wait: if streams were recorded, an event is enqueued on each, and the block can be reused
// when all have completed. It fails with a *BlockError if the block was freed before or is of another allocator.
//
// A block larger than PinnedMaxCachedBytes goes to the driver, at once if no stream was recorded; that call may wait for the
// device. If the driver refuses, its error is returned (nil with PinnedFreeCatchAll) and counted in HostStats.NumFreeErrors;
// the block is freed all the same: it is cached, and EmptyCache tries again.
func (p *Pinned) Free(h PinnedBlock) error {
	if p.absent() {
		return argumentErr("Pinned.Free", nilAllocator)
	}
	err := p.free(h)
	p.verify()
	return err
}

func (p *Pinned) free(h PinnedBlock) error {
	b := h.b
	if b == nil {
		return nil
	}
	if b.bucket.owner != p {
		return p.blockError("Free", h, ErrForeignBlock)
	}
	policy := p.policy.Load()
	k := b.bucket
	k.mu.Lock()
	if !h.valid() {
		k.mu.Unlock()
		return p.blockError("Free", h, ErrDoubleFree)
	}
	b.generation++
	users := b.users
	b.waits = len(users) + len(b.holders)
	if k.log.On() {
		k.noteFree(b, b.waits == 0)
	}
	if b.waits > 0 {
		b.state = pinnedPending
		k.mu.Unlock()
		p.park(b, users)
		return nil
	}
	k.complete(b, policy)
	release := b.state == pinnedReleasing
	k.mu.Unlock()
	if !release {
		return nil
	}
	err := p.release(b)
	if policy.catchAll {
		return nil
	}
	return err
}

// String names the allocator and its device, and says when it is closed.
func (p *Pinned) String() string {
	if p.absent() {
		return "pinned allocator (nil)"
	}
	return named("pinned allocator", p.id, &p.closed)
}
