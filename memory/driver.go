package memory

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// Driver is what an allocator needs of a device. Every device.Device is one.
type Driver interface {
	ID() device.ID
	Malloc(bytes uint64) (device.Ptr, error)
	Free(p device.Ptr) error
	MemInfo() (device.MemInfo, error)
	NewEvent() (device.Event, error)
}

// attempt asks the driver for a new segment for r. It returns a block in no index, or nil if the memory is not there:
// because of the limit (the driver is not asked then), or because the device is full. Caller holds a.mu.
func (a *Caching) attempt(r *request) (*block, error) {
	size := r.policy.segmentSize(r.size)
	if d, ok := a.expands(r); ok && r.inPages {
		_, size = a.growth(d, r)
	}
	if pool := r.shard.pool; pool != nil && pool.overLimit(size) {
		r.overLimit = true
		return nil, nil
	}
	if limit := a.limit.Load(); uint64(a.dev.ReservedBytes.All.Current)+a.underway+size > limit {
		r.overLimit = true
		return nil, nil
	}
	r.overLimit = false
	if d, ok := a.expands(r); ok {
		if b, err := a.compact(d, r); b != nil || err != nil {
			return b, err
		}
		return a.expand(d, r)
	}
	ptr, err := a.malloc(r, size)
	if errors.Is(err, device.ErrOutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := a.refused(r); err != nil { // while the driver was asked without the lock
		return nil, errors.Join(err, a.freeSegment(r.shard, ptr))
	}
	return a.addSegment(r, ptr, size), nil
}

// malloc is the driver call of attempt. With release_lock_on_cudamalloc, and for a pool's source, which may call the allocator,
// other requests may be served meanwhile; the bytes count against the limits from before the call, so that together they
// do not pass them. Caller holds a.mu.
func (a *Caching) malloc(r *request, size uint64) (device.Ptr, error) {
	pool := r.shard.pool
	if !r.policy.releaseLock && !r.shard.hasSource() {
		return a.driver.Malloc(size)
	}
	move := func(n uint64) {
		a.underway += n
		if pool != nil {
			pool.underway += n
		}
	}
	move(size)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		move(-size)
		a.behalf = r.site
	}()
	return r.shard.source().Malloc(size)
}

// freeSegment is the opposite: the driver, or the pool's source, gets memory back. Caller holds a.mu and no shard.
func (a *Caching) freeSegment(sh *shard, p device.Ptr) error {
	if !sh.hasSource() {
		return a.driver.Free(p)
	}
	return a.mu.callSource(sh.pool.source, p)
}

// addSegment books a new segment, which is one block. Caller holds a.mu.
func (a *Caching) addSegment(r *request, ptr device.Ptr, size uint64) *block {
	seg := a.newSegment(r, ptr, size)
	a.countReserved(r.shard, r.kind, int64(size))
	a.dev.NumDeviceAlloc++
	a.dev.Segment.All.increase(1)
	a.dev.Segment.pool(r.kind).increase(1)
	if size >= r.policy.maxSplit {
		a.dev.OversizeSegments.increase(1)
	}
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	r.shard.noteSegment(journal.SegmentAlloc, seg, ptr, size, r.site)
	return r.shard.firstBlock(seg)
}

// newSegment registers a segment for the stream and pool of r.
func (a *Caching) newSegment(r *request, ptr device.Ptr, size uint64) *segment {
	seg := &segment{shard: r.shard, kind: r.kind, ptr: ptr, size: size, reg: a.registrations, place: len(a.segments), stack: r.site.Stack}
	a.registrations++
	a.segments = append(a.segments, seg)
	return seg
}

// forgetSegment is the opposite of newSegment.
func (a *Caching) forgetSegment(seg *segment) {
	last := len(a.segments) - 1
	a.segments[seg.place] = a.segments[last]
	a.segments[seg.place].place = seg.place
	a.segments[last] = nil
	a.segments = a.segments[:last]
}

// countReserved books n bytes taken from the driver for a shard, or given back if n is negative. Caller holds a.mu.
func (a *Caching) countReserved(sh *shard, k poolKind, n int64) {
	a.dev.ReservedBytes.move(k, n)
	if a.plan != nil {
		a.plan.most = max(a.plan.most, uint64(a.dev.ReservedBytes.All.Current))
	}
	if sh.pool != nil {
		sh.pool.reserved.move(k, n)
	}
}

// releaseSegment gives the segment of b, a whole cached block, back to the driver, and returns its size: 0 if somebody took
// the block since it was found. If the driver refuses, or a pool's source panics, the block is cached again and nothing has
// changed. Caller holds a.mu and no shard.
func (a *Caching) releaseSegment(b *block) (uint64, error) {
	sh := b.shard
	sh.mu.Lock()
	if b.state != stateCached || !b.plainWhole() {
		sh.mu.Unlock()
		return 0, nil
	}
	seg, back := b.seg, false
	sh.pools[b.kind].remove(b)
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if !back {
			sh.pools[b.kind].insert(b)
			return
		}
		sh.recycle(b)
		a.dropSegment(seg)
	}()

	if err := a.freeSegment(sh, seg.ptr); err != nil {
		return 0, err
	}
	back = true
	return seg.size, nil
}

// dropSegment takes a plain segment that the driver has back off the books. Caller holds a.mu and the shard.
func (a *Caching) dropSegment(seg *segment) {
	seg.shard.noteSegment(journal.SegmentFree, seg, seg.ptr, seg.size, a.behalf)
	a.forgetSegment(seg)
	a.countReserved(seg.shard, seg.kind, -int64(seg.size))
	a.dev.NumDeviceFree++
	a.dev.Segment.All.decrease(1)
	a.dev.Segment.pool(seg.kind).decrease(1)
	if seg.size >= a.policy.Load().maxSplit {
		a.dev.OversizeSegments.decrease(1)
	}
}

// freeBlocks lists the cached blocks of one pool kind that want says, in PyTorch's order: by stream, size, age of the segment
// and address; of the default pools, or of a private one. Caller holds a.mu and no shard.
func (a *Caching) freeBlocks(pool *Pool, k poolKind, want func(*block) bool) []*block {
	var found []*block
	a.eachFree(pool, k, func(b *block) {
		if want(b) {
			found = append(found, b)
		}
	})
	return found
}

// eachFree calls see for the blocks of freeBlocks, under the lock of each one's shard. Afterwards others may take them.
func (a *Caching) eachFree(pool *Pool, k poolKind, see func(*block)) {
	for _, sh := range *a.shards.Load() {
		if sh.pool != pool {
			continue
		}
		sh.mu.Lock()
		for b := range sh.pools[k].all {
			see(b)
		}
		sh.mu.Unlock()
	}
}
