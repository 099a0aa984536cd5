package memory

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
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
	if limit := a.limit.Load(); uint64(a.dev.ReservedBytes.All.Current)+size > limit {
		r.overLimit = true
		return nil, nil
	}
	ptr, err := a.driver.Malloc(size)
	if errors.Is(err, device.ErrOutOfMemory) {
		r.overLimit = false
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.addSegment(r, ptr, size), nil
}

// addSegment books a new segment, which is one block. Caller holds a.mu.
func (a *Caching) addSegment(r *request, ptr device.Ptr, size uint64) *block {
	seg := &segment{shard: r.shard, kind: r.kind, ptr: ptr, size: size, reg: a.registrations, place: len(a.segments)}
	a.registrations++
	a.segments = append(a.segments, seg)
	a.countReserved(r.kind, int64(size))
	a.dev.NumDeviceAlloc++
	a.dev.Segment.All.increase(1)
	a.dev.Segment.pool(r.kind).increase(1)
	if size >= r.policy.maxSplit {
		a.dev.OversizeSegments.increase(1)
	}
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.newBlock()
	b.size, b.ptr, b.reg, b.kind, b.seg = size, ptr, seg.reg, r.kind, seg
	seg.head = b
	return b
}

func (a *Caching) countReserved(k poolKind, n int64) {
	for _, s := range []*Stat{&a.dev.ReservedBytes.All, a.dev.ReservedBytes.pool(k)} {
		if n > 0 {
			s.increase(n)
		} else {
			s.decrease(-n)
		}
	}
}

// releaseSegment gives the segment of b, a whole cached block, back to the driver. If the driver refuses, the block is
// cached again and nothing has changed. Caller holds a.mu and no shard.
func (a *Caching) releaseSegment(b *block) error {
	sh, seg := b.shard, b.seg
	sh.mu.Lock()
	if b.state != stateCached || !b.whole() { // somebody took it since it was found
		sh.mu.Unlock()
		return nil
	}
	sh.pools[b.kind].remove(b)
	sh.mu.Unlock()

	err := a.driver.Free(seg.ptr)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err != nil {
		sh.pools[b.kind].insert(b)
		return err
	}
	sh.retire(b)
	a.dropSegment(seg)
	return nil
}

// dropSegment takes a segment that the driver has back off the books. Caller holds a.mu.
func (a *Caching) dropSegment(seg *segment) {
	last := len(a.segments) - 1
	a.segments[seg.place] = a.segments[last]
	a.segments[seg.place].place = seg.place
	a.segments[last] = nil
	a.segments = a.segments[:last]
	a.countReserved(seg.kind, -int64(seg.size))
	a.dev.NumDeviceFree++
	a.dev.Segment.All.decrease(1)
	a.dev.Segment.pool(seg.kind).decrease(1)
	if seg.size >= a.policy.Load().maxSplit {
		a.dev.OversizeSegments.decrease(1)
	}
}

// wholeBlocks lists the blocks of one pool kind that can go back to the driver, in PyTorch's order: by stream, size, age of
// the segment and address. Caller holds a.mu and no shard.
func (a *Caching) wholeBlocks(k poolKind) []*block {
	var found []*block
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		for b := range sh.pools[k].all {
			if b.whole() {
				found = append(found, b)
			}
		}
		sh.mu.Unlock()
	}
	return found
}
