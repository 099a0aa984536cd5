package pinned

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Allocator hands out pinned host memory for one device. See the package comment for how it works.
type Allocator struct {
	driver    Driver
	registrar Registrar // nil if the driver registers no memory
	id        device.ID
	policy    atomic.Pointer[policy]
	closed    atomic.Bool

	buckets  [numBuckets]bucket
	requests gauge // active requests, and their bytes: moved under the lock of the block's bucket
	bytes    gauge

	events   events
	captures captureSet
	reserve  reserve
	books    books
	worker   worker
	stacks   *fpstack.Table // nil until history is recorded for the first time; written under the locks of all buckets

	unverified atomic.Int64 // calls until the next check of builds with the tag "invariants"
}

// Driver is what Allocator needs of a device. Every device.PinnedMemory is one.
type Driver interface {
	ID() device.ID
	AllocPinned(bytes uint64) ([]byte, error)
	FreePinned(b []byte) error
}

// Registrar is a Driver that can also pin memory it did not make. RegisterPinned pins b, after which the device uses
// it at the same address as the program; if the hardware cannot do that, it fails. UnregisterPinned undoes it, for the same
// slice. The memory belongs to the caller throughout. PinnedUseHostRegister has no effect without one, nor on Windows.
type Registrar interface {
	RegisterPinned(b []byte) error
	UnregisterPinned(b []byte) error
}

// policy is the part of a memory.Config that concerns pinned memory, as the allocator reads it: immutable.
type policy struct {
	maxRound   uint64 // math.MaxUint64 when not set
	maxCached  uint64
	reserve    uint64
	register   bool
	threads    int
	background bool
	catchAll   bool
}

func newPolicy(c memory.Config) *policy {
	p := &policy{
		maxRound: c.PinnedMaxRoundThresholdBytes, maxCached: c.PinnedMaxCachedBytes, reserve: c.PinnedReserveSegmentBytes,
		register: c.PinnedUseHostRegister, threads: max(c.PinnedNumRegisterThreads, 1),
		background: c.PinnedUseBackgroundThreads, catchAll: c.PinnedFreeCatchAll,
	}
	if p.maxRound == 0 {
		p.maxRound = math.MaxUint64
	}
	if p.maxCached == 0 {
		p.maxCached = math.MaxUint64
	}
	return p
}

// maxRequest is where requests are refused outright: 1 EiB.
const maxRequest = 1 << 60

// blockSize is the size of the block for a request of less than maxRequest bytes.
func (p *policy) blockSize(bytes uint64) uint64 {
	if bytes > p.maxRound || bytes > p.maxCached {
		return bytes
	}
	return 1 << bucketIndex(bytes)
}

// New makes an allocator of pinned host memory with the Pinned settings of c. Most programs use For, which keeps
// one for each device. The error is a
// *memory.ConfigError.
func New(d Driver, c memory.Config) (*Allocator, error) {
	if text.NoDevice(d) {
		return nil, argumentErr("pinned.New", text.NilDevice)
	}
	p := &Allocator{driver: d, id: d.ID(), events: events{queues: newQueues()}}
	p.registrar, _ = d.(Registrar)
	for i := range p.buckets {
		p.buckets[i].owner = p
	}
	if err := p.SetConfig(c); err != nil {
		return nil, err
	}
	return p, nil
}

// absent reports whether there is no allocator: a nil pointer, or a zero value, which New did not make.
func (p *Allocator) absent() bool { return p == nil || p.driver == nil }

// SetConfig changes the settings. Later calls follow them, except that the reserve segment is taken at the first allocation
// and never changed, and that the background goroutine, once started, runs until Close.
func (p *Allocator) SetConfig(c memory.Config) error {
	if p.absent() {
		return argumentErr("pinned.SetConfig", text.NilAllocator)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	p.policy.Store(newPolicy(c))
	return nil
}

// Device is the device whose driver pins the memory.
func (p *Allocator) Device() device.ID {
	if p.absent() {
		return device.ID{}
	}
	return p.id
}

// Alloc returns a block of at least bytes bytes; zero bytes give the zero Block. The content is undefined. Served from
// cache it takes the lock of the bucket, before that the one of the events if some are outstanding, and makes no Go heap
// allocation. It fails with a *OOMError (errors.Is memory.ErrOutOfMemory) when the memory cannot be had; only before that does
// it wait for the device.
func (p *Allocator) Alloc(bytes uint64) (Block, error) {
	if p.absent() {
		return Block{}, argumentErr("pinned.Alloc", text.NilAllocator)
	}
	h, err := p.alloc(bytes)
	p.verify()
	return h, err
}

func (p *Allocator) alloc(bytes uint64) (Block, error) {
	if bytes == 0 {
		return Block{}, nil
	}
	if p.events.outstanding.Load() != 0 && !p.worker.running.Load() {
		p.pollEvents()
	}
	if bytes >= maxRequest {
		return Block{}, &OOMError{Device: p.id, Requested: bytes}
	}
	policy := p.policy.Load()
	size := policy.blockSize(bytes)
	if h, ok := p.bucket(size).reuse(bytes); ok {
		return h, nil
	}
	return p.allocSlow(policy, bytes, size)
}

// allocSlow serves a request that found nothing cached.
func (p *Allocator) allocSlow(policy *policy, bytes, size uint64) (Block, error) {
	if p.closed.Load() {
		return Block{}, p.errClosed()
	}
	if policy.background {
		p.worker.start(p)
	}
	b, err := p.obtain(policy, size)
	if errors.Is(err, device.ErrOutOfMemory) {
		if waitErr := p.reclaim(); waitErr != nil {
			return Block{}, errors.Join(p.outOfMemory(bytes, size, err), waitErr)
		}
		b, err = p.obtain(policy, size)
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return Block{}, p.outOfMemory(bytes, size, err)
	}
	if err != nil {
		return Block{}, err
	}
	return p.admit(b, bytes)
}

// RecordStream notes that work on s uses the block, so that Free delays its reuse until the work then on s has finished. Call
// it after putting the work there. If s is being captured (BeginCapture), the block is held by the capture instead. It fails
// with a *memory.BlockError if the block was freed or is of another allocator.
func (p *Allocator) RecordStream(h Block, s device.Stream) error {
	if p.absent() {
		return argumentErr("pinned.RecordStream", text.NilAllocator)
	}
	b := h.b
	if b == nil {
		return nil
	}
	if b.bucket.owner != p {
		return p.blockError("RecordStream", h, memory.ErrForeignBlock)
	}
	if isnil.Value(s) {
		return argumentErr("pinned.RecordStream", "%s", isnil.Why("stream", s))
	}
	capture := p.captures.of(s)
	k := b.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	if !h.valid() {
		return p.blockError("RecordStream", h, text.UsedLate(&p.closed, memory.ErrUseAfterFree))
	}
	if capture != nil && capture.hold(b) {
		return nil
	}
	b.addUser(s)
	return nil
}

// Free takes a block back. It does not wait: if streams were recorded, an event is enqueued on each, and the block can be reused
// when all have completed. It fails with a *memory.BlockError if the block was freed before or is of another allocator.
//
// A block larger than PinnedMaxCachedBytes goes to the driver, at once if no stream was recorded; that call may wait for the
// device. If the driver refuses, its error is returned (nil with PinnedFreeCatchAll) and counted in Stats.NumFreeErrors;
// the block is freed all the same: it is cached, and EmptyCache tries again.
func (p *Allocator) Free(h Block) error {
	if p.absent() {
		return argumentErr("pinned.Free", text.NilAllocator)
	}
	err := p.free(h)
	p.verify()
	return err
}

func (p *Allocator) free(h Block) error {
	b := h.b
	if b == nil {
		return nil
	}
	if b.bucket.owner != p {
		return p.blockError("Free", h, memory.ErrForeignBlock)
	}
	policy := p.policy.Load()
	k := b.bucket
	k.mu.Lock()
	if !h.valid() {
		k.mu.Unlock()
		return p.blockError("Free", h, memory.ErrDoubleFree)
	}
	b.generation++
	users := b.users
	b.waits = len(users) + len(b.holders)
	if k.log.On() {
		k.noteFree(b, b.waits == 0)
	}
	if b.waits > 0 {
		b.state = statePending
		k.mu.Unlock()
		p.park(b, users)
		return nil
	}
	k.complete(b, policy)
	release := b.state == stateReleasing
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
func (p *Allocator) String() string {
	if p.absent() {
		return "pinned allocator (nil)"
	}
	return text.Allocator("pinned allocator", p.id, &p.closed)
}
