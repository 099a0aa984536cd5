package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/settings"
	"github.com/cistern-ml/cistern/memory/internal/streams"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// AsyncDriver is a Driver with a stream-ordered allocator of its own; see device.StreamOrdered.
type AsyncDriver interface {
	Driver
	NewStream() (device.Stream, error)
	Synchronize(ctx context.Context) error
	StreamOrdered() bool
	AllocAsync(bytes uint64, s device.Stream) (device.Ptr, error)
	FreeAsync(p device.Ptr, s device.Stream) error
	TrimPool(keep uint64) error
	PoolUsage() (device.PoolUsage, error)
	ResetPoolPeaks() error
}

// Async hands out memory of the driver's stream-ordered allocator: PyTorch's backend cudaMallocAsync. It splits nothing and
// caches nothing; the driver's pool does that, and keeps what is freed until EmptyCache. It asks for multiples of 512 bytes,
// as the driver rounds anyway, so that blocks are aligned like those of the caching allocator; that is not counted. Of the
// settings only the memory fraction counts, and it limits the bytes in use.
//
// A block that only its own stream used is freed there. If others used it (RecordStream), a stream of the allocator's waits
// for all of them and frees it.
//
// During a graph capture of a stream, blocks that are allocated on it become part of the graph, and those freed in the same
// capture are reused within it; the block's own stream frees them then, behind the others that used them. A block that is
// not freed in the capture has content after a replay, until it is freed or the graph is replayed again or closed. The free of a
// block from before the capture, or of another one's, waits until the capture is over: the graph would free it with each replay.
//
// Statistics are kept in their All fields only: blocks and bytes as callers asked for them, and as reserved bytes those of
// the pool. Snapshots, private pools and callbacks are the caching allocator's.
type Async struct {
	driver AsyncDriver
	id     device.ID
	mark   *shard // stands in each of its blocks, and in no other's

	mu            sync.Mutex // also held over driver calls: the driver's allocator takes one call at a time anyway
	live          map[*block]*asyncUse
	limit         uint64         // most bytes in use; unlimited if there is no limit
	releaser      device.Stream  // frees what several streams used; made when it is needed
	events        []device.Event // to use again
	deferred      []*block       // to be freed when no capture goes on
	deferredFrees deferredFrees
	stats         Stats
	closed        atomic.Bool // changed under mu; read without: tensors ask at each call
}

// asyncUse is what the allocator knows of a block in use.
type asyncUse struct {
	stream  device.Stream
	users   []device.Stream
	capture uint64 // the block was allocated in this one; 0 for none
}

// NewAsync makes an allocator on the driver's own. It fails with a *ConfigError if the device has none, or if the settings
// are wrong.
func NewAsync(d Driver, c Config) (*Async, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if text.NoDevice(d) {
		return nil, argumentErr("NewAsync", text.NilDevice)
	}
	driver, ok := d.(AsyncDriver)
	if !ok || !driver.StreamOrdered() {
		return nil, configError(keyBackend, BackendAsync.String(), fmt.Sprintf("device %s has no stream-ordered allocator: use native", d.ID()))
	}
	a := &Async{driver: driver, id: d.ID(), live: map[*block]*asyncUse{}, limit: unlimited}
	a.mark = &shard{other: a}
	if c.MemoryFraction != nil {
		return a, a.SetMemoryFraction(*c.MemoryFraction)
	}
	return a, nil
}

// absent reports whether there is no allocator: a nil pointer, or a zero value, which NewAsync did not make.
func (a *Async) absent() bool { return a == nil || a.driver == nil }

// Device is the device whose memory this is.
func (a *Async) Device() device.ID {
	if a.absent() {
		return device.ID{}
	}
	return a.id
}

// SetMemoryFraction limits the bytes in use to a fraction, from 0 to 1, of the device's memory; 1 lifts the limit.
func (a *Async) SetMemoryFraction(fraction float64) error {
	if a.absent() {
		return argumentErr("SetMemoryFraction", text.NilAllocator)
	}
	if !(fraction >= 0 && fraction <= 1) {
		return configError(keyFraction, settings.FloatText(fraction), wantFraction)
	}
	limit := unlimited
	if fraction < 1 {
		info, err := a.driver.MemInfo()
		if err != nil {
			return err
		}
		limit = uint64(math.Round(fraction * float64(info.Total)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = limit
	return nil
}

// Alloc implements Allocator. When the driver has no memory, its pool gives back what it can, and it is asked once more;
// not so in a capture, where nothing may wait.
func (a *Async) Alloc(bytes uint64, s device.Stream) (Block, error) {
	if a.absent() {
		return Block{}, argumentErr("Alloc", text.NilAllocator)
	}
	a.deferredFrees.drain(a.Free)
	if bytes == 0 {
		return Block{}, nil
	}
	if err := checkOpenStream("Alloc", a.id, a.driver, s); err != nil {
		return Block{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() {
		return Block{}, &device.Error{Device: a.id, Call: "memory.Alloc", Err: device.ErrClosed}
	}
	a.freeDeferred()
	if bytes >= maxRequest {
		return Block{}, a.fail(bytes, 0, s, false)
	}
	if used := uint64(a.stats.AllocatedBytes.All.Current); a.limit != unlimited && used+bytes > a.limit {
		return Block{}, a.fail(bytes, bytes, s, true)
	}
	ptr, err := a.take(bytes, s)
	if errors.Is(err, device.ErrOutOfMemory) {
		return Block{}, a.fail(bytes, bytes, s, false)
	}
	if err != nil {
		return Block{}, err
	}
	b := &block{shard: a.mark, guarded: guarded{ptr: ptr, size: bytes, requested: bytes, state: stateAllocated}}
	a.live[b] = &asyncUse{stream: s, capture: streams.Capture(s)}
	a.stats.NumDeviceAlloc++
	a.count(int64(bytes))
	return Block{b: b, ptr: ptr, size: bytes}, nil
}

// take asks the driver, twice if need be. Caller holds a.mu.
func (a *Async) take(bytes uint64, s device.Stream) (device.Ptr, error) {
	bytes = roundUp(bytes, minBlock)
	ptr, err := a.driver.AllocAsync(bytes, s)
	if !errors.Is(err, device.ErrOutOfMemory) || streams.Capturing(s) {
		return ptr, err
	}
	a.stats.NumAllocRetries++
	if err := a.awaitFrees(s); err != nil {
		return 0, err
	}
	if err := a.driver.TrimPool(0); err != nil {
		return 0, err
	}
	return a.driver.AllocAsync(bytes, s)
}

// awaitFrees waits until the pool can give back what was freed: on any stream, or only on s while another is being captured,
// because a capture forbids to wait for the device.
func (a *Async) awaitFrees(s device.Stream) error {
	err := a.driver.Synchronize(context.Background())
	if errors.Is(err, device.ErrInvalidValue) {
		return s.Synchronize(context.Background())
	}
	return err
}

// count moves the statistics by a block of n bytes, or a free one if n is negative. Caller holds a.mu.
func (a *Async) count(n int64) {
	for _, s := range []*StatArray{&a.stats.AllocatedBytes, &a.stats.ActiveBytes, &a.stats.RequestedBytes} {
		if n > 0 {
			s.All.increase(n)
		} else {
			s.All.decrease(-n)
		}
	}
	for _, s := range []*StatArray{&a.stats.Allocation, &a.stats.Active} {
		if n > 0 {
			s.All.increase(1)
		} else {
			s.All.decrease(1)
		}
	}
}

// fail makes the out-of-memory error. Caller holds a.mu.
func (a *Async) fail(bytes, tried uint64, s device.Stream, limit bool) error {
	a.stats.NumOOMs++
	used := uint64(a.stats.AllocatedBytes.All.Current)
	e := &OOMError{Device: a.id, Stream: s.ID(), Requested: bytes, Tried: tried, Allocated: used, Reserved: used, LimitHit: limit}
	if u, err := a.driver.PoolUsage(); err == nil {
		e.Reserved = max(used, u.Reserved)
		e.Cached = e.Reserved - used
	}
	if a.limit != unlimited {
		e.Limit = a.limit
	}
	if info, err := a.driver.MemInfo(); err == nil {
		e.DeviceFree, e.DeviceTotal = info.Free, info.Total
	}
	return e
}

// RecordStream implements Allocator.
func (a *Async) RecordStream(h Block, s device.Stream) error {
	if a.absent() {
		return argumentErr("RecordStream", text.NilAllocator)
	}
	if h.b == nil {
		return nil
	}
	if err := checkStream("RecordStream", a.id, a.driver, s); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	use, ok := a.live[h.b]
	if !ok {
		return a.stale("RecordStream", h, text.UsedLate(&a.closed, ErrUseAfterFree))
	}
	use.add(s)
	return nil
}

// add notes a stream that uses the block, once, unless it was closed: Close has waited for its work.
func (u *asyncUse) add(s device.Stream) {
	known := func(v device.Stream) bool { return v.ID() == s.ID() }
	if known(u.stream) || streams.Closed(s) || slices.ContainsFunc(u.users, known) {
		return
	}
	u.users = append(slices.DeleteFunc(u.users, streams.Closed), s)
}

// stale is the error for a block that is not in use.
func (a *Async) stale(op string, h Block, sentinel error) error {
	if h.b.shard != a.mark {
		sentinel = ErrForeignBlock
	}
	return &BlockError{Op: op, Device: a.id, Ptr: h.ptr, Size: h.size, Err: sentinel}
}

// Stats implements Allocator.
func (a *Async) Stats() Stats {
	if a.absent() {
		return Stats{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.MaxSplitSize = -1
	s.NumDeferredFrees = a.deferredFrees.count()
	if u, err := a.driver.PoolUsage(); err == nil {
		now := max(int64(u.Reserved), s.ActiveBytes.All.Current)
		s.ReservedBytes.All = Stat{Current: now, Peak: max(now, int64(u.ReservedPeak)), Allocated: now}
	}
	return s
}

// ResetPeakStats sets every Peak to its Current, the driver's pool's too. A driver that refuses is an error, and nothing is changed.
func (a *Async) ResetPeakStats() error {
	if a.absent() {
		return argumentErr("ResetPeakStats", text.NilAllocator)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() {
		return &device.Error{Device: a.id, Call: "memory.ResetPeakStats", Err: device.ErrClosed}
	}
	if err := a.driver.ResetPoolPeaks(); err != nil {
		return err
	}
	for _, s := range a.stats.arrays() {
		s.each((*Stat).resetPeak)
	}
	return nil
}

// String names the allocator and its device, and says when it is closed.
func (a *Async) String() string {
	if a.absent() {
		return "stream-ordered allocator (nil)"
	}
	return text.Allocator("stream-ordered allocator", a.id, &a.closed)
}
