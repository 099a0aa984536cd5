package memory

import (
	"cmp"
	stderrors "errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/streams"
	"github.com/pkg/errors"
)

// PoolID names a private pool. The default pools are {0, 0}; pools that callers make are {0, n}, and pools that a graph
// capture makes for itself {n, 0}.
type PoolID [2]uint64

// MarshalText writes the id as it stands in the keys of torch.cuda.memory_stats, such as "0_1".
func (id PoolID) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d_%d", id[0], id[1]), nil
}

// Pool is a private pool: memory of a device set apart. Blocks from it come from segments of its own, which serve nobody
// else while the pool lives. It is for captured graphs, whose addresses must stay theirs, and for giving a tenant memory
// of its own, with a limit if wanted.
//
// A Pool is an Allocator: give it to whoever shall use it. It begins with one use. Retain and Release change the count of
// uses; when it is 0, memory that no block uses goes back to the driver with the next EmptyCache, or sooner under pressure,
// and the pool is gone when its last segment is.
type Pool struct {
	a  *Caching
	id PoolID

	// Set before the pool is used.
	source  Source
	limit   uint64
	whole   bool // no splitting
	helpOut bool

	released atomic.Bool // no use is left: no more memory from here
	captured atomic.Bool // graphs may have the pool's addresses

	// Guarded by a.mu.
	uses     int
	reserved StatArray
	underway uint64 // bytes being asked for without the lock
}

// Source is where the segments of a pool come from, instead of the driver. Its errors are the callers', but for those that match
// device.ErrOutOfMemory, after which the ladder goes on as if the driver had none.
//
// Malloc may call the allocator, also to take memory from other pools of it; then another goroutine may call it at the same time.
// Free is called under the driver lock: of the same allocator it may call Free, FreeLater, RecordStream and Device, and any other
// call that needs the driver lock panics, because it would wait for itself. After a panic of Malloc the request has taken
// nothing; after one of Free the memory is the pool's as before, except in Close, which goes on with the other segments.
type Source interface {
	Malloc(bytes uint64) (device.Ptr, error)
	Free(p device.Ptr) error
}

// PoolOption changes what NewPool makes. Those below are all that have an effect.
type PoolOption func(*Pool)

// PoolLimit is the most that the pool may reserve, in bytes; more is an *OOMError with LimitHit.
func PoolLimit(bytes uint64) PoolOption { return func(p *Pool) { p.limit = bytes } }

// PoolSource makes the pool take its segments from s. Expandable segments are not used then.
// A nil pointer is an *ArgumentError of what the pool's memory is asked for.
func PoolSource(s Source) PoolOption {
	if s != nil && isnil.Value(s) {
		s = noSource{isnil.Why("source", s)}
	}
	return func(p *Pool) { p.source = s }
}

// noSource stands for a source that is a nil pointer.
type noSource struct{ why string }

func (s noSource) Malloc(uint64) (device.Ptr, error) {
	return 0, argumentErr("PoolSource", "%s", s.why)
}

func (noSource) Free(device.Ptr) error { return nil }

// PoolNoSplit makes the pool hand out whole segments.
func PoolNoSplit() PoolOption { return func(p *Pool) { p.whole = true } }

// PoolUseOnOOM lets free blocks of the pool serve requests of the default pools when the device is full, before caches are
// given back.
func PoolUseOnOOM() PoolOption { return func(p *Pool) { p.helpOut = true } }

// ErrPoolReleased: the pool has no use left.
var ErrPoolReleased = errors.New("private pool was released")

// errReleased is the answer to a call that comes after the last Release.
func (p *Pool) errReleased(call string) error {
	return errors.Wrapf(ErrPoolReleased, "memory: %s pool %v", call, p.id)
}

// NewPool makes a private pool.
func (a *Caching) NewPool(opts ...PoolOption) *Pool {
	if a.absent() {
		return &Pool{limit: unlimited}
	}
	p := &Pool{a: a, limit: unlimited}
	for _, o := range opts {
		if o != nil {
			o(p)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastPool[1]++
	return a.addPool(p, PoolID{0, a.lastPool[1]})
}

// addPool gives a pool its number and its first use. Caller holds a.mu.
func (a *Caching) addPool(p *Pool, id PoolID) *Pool {
	a.spoil()
	p.id, p.uses = id, 1
	i, _ := slices.BinarySearchFunc(a.pools, p, comparePools)
	a.pools = slices.Insert(a.pools, i, p)
	return p
}

// comparePools orders pools by id; nil, the default pools, comes first.
func comparePools(p, q *Pool) int {
	var x, y PoolID
	if p != nil {
		x = p.id
	}
	if q != nil {
		y = q.id
	}
	return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
}

// absent reports whether there is no pool: a nil pointer, or a zero value, which NewPool did not make.
func (p *Pool) absent() bool { return p == nil || p.a.absent() }

// ID names the pool in statistics and snapshots.
func (p *Pool) ID() PoolID {
	if p == nil {
		return PoolID{}
	}
	return p.id
}

// Uses is the count of uses.
func (p *Pool) Uses() int {
	if p.absent() {
		return 0
	}
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return p.uses
}

// Retain adds a use. It fails with ErrPoolReleased if none is left.
func (p *Pool) Retain() error {
	if p.absent() {
		return argumentErr("Retain", nilPool)
	}
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if p.uses == 0 {
		return p.errReleased("Retain of")
	}
	p.uses++
	return nil
}

// Release drops a use. It fails with ErrPoolReleased if none is left.
func (p *Pool) Release() error {
	if p.absent() {
		return argumentErr("Release", nilPool)
	}
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if p.uses == 0 {
		return p.errReleased("Release of")
	}
	p.uses--
	p.released.Store(p.uses == 0)
	return nil
}

// Alloc implements Allocator with memory of the pool.
func (p *Pool) Alloc(bytes uint64, s device.Stream) (Block, error) {
	if p.absent() {
		return Block{}, argumentErr("Alloc", nilPool)
	}
	if invariants.Enabled {
		defer p.a.audit("Alloc")
	}
	if bytes == 0 {
		return Block{}, nil
	}
	if isnil.Value(s) {
		return Block{}, argumentErr("Alloc", "%s", isnil.Why("stream", s))
	}
	if p.a.pendingWork.Load() != 0 {
		p.a.doPendingWork(s)
	}
	if p.released.Load() {
		return Block{}, p.errReleased("Alloc from")
	}
	if !p.captured.Load() && streams.Capturing(s) {
		p.captured.Store(true)
	}
	sh, err := p.a.shardIn(p, s)
	if err != nil {
		return Block{}, err
	}
	return p.a.allocIn(sh, bytes)
}

// Free implements Allocator. It takes any block of the device's allocator.
func (p *Pool) Free(b Block) error {
	if p.absent() {
		return argumentErr("Free", nilPool)
	}
	return p.a.Free(b)
}

// FreeLater implements Allocator.
func (p *Pool) FreeLater(b Block) {
	if p.absent() {
		return
	}
	p.a.FreeLater(b)
}

// RecordStream implements Allocator.
func (p *Pool) RecordStream(b Block, s device.Stream) error {
	if p.absent() {
		return argumentErr("RecordStream", nilPool)
	}
	return p.a.RecordStream(b, s)
}

// EmptyCache gives the pool's memory that no block uses back to the driver, whatever its count of uses: for pools that are
// not part of a captured graph.
func (p *Pool) EmptyCache() error {
	if p.absent() {
		return argumentErr("EmptyCache", nilPool)
	}
	p.a.drainDeferredFrees()
	m := p.a.freeSite()
	var went releases
	err := p.emptyCache(m, &went)
	went.tell()
	return errors.WithMessage(err, "memory: EmptyCache of a pool")
}

// emptyCache is EmptyCache under the driver lock.
func (p *Pool) emptyCache(m journal.Site, went *releases) error {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.a.behalf = m
	return went.note(p.a, ReleaseAsked, func() error {
		err := stderrors.Join(p.a.syncEvents(), p.a.takeBackPool(p), p.a.releasePool(p))
		if p.uses == 0 {
			p.a.forgetPool(p)
		}
		return err
	})
}

// Stats implements Allocator. It returns the statistics of the whole device; ReservedBytesByPrivatePools has the pool's.
func (p *Pool) Stats() Stats {
	if p.absent() {
		return Stats{}
	}
	return p.a.Stats()
}

// Snapshot returns the pool's segments.
func (p *Pool) Snapshot() Snapshot {
	if p.absent() {
		return Snapshot{}
	}
	return p.a.snapshot(p, true)
}

// SnapshotState is Snapshot without the pool's part of the trace.
func (p *Pool) SnapshotState() Snapshot {
	if p.absent() {
		return Snapshot{}
	}
	return p.a.snapshot(p, false)
}

// Device is the device whose memory this is.
func (p *Pool) Device() device.ID {
	if p.absent() {
		return device.ID{}
	}
	return p.a.id
}

// Close releases one use and gives what is free back.
func (p *Pool) Close() error {
	if p.absent() {
		return nil
	}
	if err := p.Release(); err != nil {
		return err
	}
	return p.EmptyCache()
}

// String names the pool and its device.
func (p *Pool) String() string {
	if p.absent() {
		return "private pool (nil)"
	}
	return fmt.Sprintf("private pool %v of %s", p.id, p.a.id)
}

// overLimit reports whether size more bytes are too many for the pool. Caller holds a.mu.
func (p *Pool) overLimit(size uint64) bool {
	return uint64(p.reserved.All.Current)+p.underway+size > p.limit
}

// source is where the shard's segments come from.
func (sh *shard) source() Source {
	if sh.hasSource() {
		return sh.pool.source
	}
	return sh.owner.driver
}

func (sh *shard) hasSource() bool { return sh.pool != nil && sh.pool.source != nil }

func (sh *shard) noSplit() bool { return sh.pool != nil && sh.pool.whole }

func (sh *shard) poolID() PoolID {
	if sh.pool == nil {
		return PoolID{}
	}
	return sh.pool.id
}

// borrow serves a request of the default pools from a private pool that opted in, on the same stream. Caller holds a.mu.
func (a *Caching) borrow(r *request) *block {
	if r.shard.pool != nil {
		return nil
	}
	for _, p := range a.pools {
		if !p.helpOut || p.uses == 0 {
			continue
		}
		if sh := findShard(*a.shards.Load(), p, r.shard.id()); sh != nil {
			sh.mu.Lock()
			b := sh.take(r.policy, r.kind, r.size)
			sh.mu.Unlock()
			if b != nil {
				return b
			}
		}
	}
	return nil
}

// deadPool is what Stats says of a pool that is no more.
type deadPool struct {
	id       PoolID
	reserved StatArray
}

// maxDeadPools is how many of them are remembered: a program that captures graph after graph makes a pool for each.
const maxDeadPools = 64

// forgetPool drops a pool without uses when its last segment is gone. What its shards counted is kept. Caller holds a.mu.
func (a *Caching) forgetPool(p *Pool) {
	held := slices.ContainsFunc(a.segments, func(seg *segment) bool { return seg.shard.pool == p })
	if held || !slices.Contains(a.pools, p) {
		return
	}
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	var kept []*shard
	for _, sh := range *a.shards.Load() {
		if sh.pool != p {
			kept = append(kept, sh)
			continue
		}
		sh.mu.Lock()
		sh.log.Close()
		for k := range sh.tally.pool {
			for i := range numHot {
				a.gone.pool[k].allocated[i] += sh.tally.pool[k].increases(i)
				a.gone.pool[k].base[i] += sh.tally.pool[k].base[i]
			}
		}
		sh.mu.Unlock()
	}
	a.shards.Store(&kept)
	a.pools = slices.DeleteFunc(a.pools, func(q *Pool) bool { return q == p })
	if len(a.deadPools) == maxDeadPools {
		a.deadPools = slices.Delete(a.deadPools, 0, 1)
	}
	a.deadPools = append(a.deadPools, deadPool{p.id, p.reserved})
}
