package memory

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Expandable segments (setting expandable_segments) use the driver's virtual memory. Instead of many segments of fixed size
// a stream has, for each pool, one range of addresses, larger than the device's memory, and pages are mapped behind its end
// as it grows. Freed neighbours then always merge, whatever the size of the requests that follow.
//
// The range is one segment whose blocks are free, held or unmapped. Nothing is unmapped on a free; EmptyCache unmaps the
// whole pages inside free blocks.
//
//	| held | free | held | free | unmapped .......................|   pages are mapped where unmapped begins; EmptyCache makes
//	| held | unm. | held | unm. | unmapped .......................|   holes too, which the next growth fills first if it fits
//
// Addresses cost nothing, so the range is larger than the memory: growth ends when the device is full, not when the range is.
// What the driver gives and takes here is pages, and so is what reserved_bytes counts. The statistics of segments and inactive
// splits do not count expandable segments, as in PyTorch: what is free in them can go back, whole segment or not.

// VirtualDriver is a Driver with virtual memory, see device.VirtualMemory. Without it the setting has no effect on where
// memory comes from.
type VirtualDriver interface {
	Driver
	Granularity() uint64
	Reserve(bytes uint64) (device.Ptr, error)
	Unreserve(p device.Ptr) error
	Map(p device.Ptr, bytes, page uint64) error
	Unmap(p device.Ptr, bytes uint64) error
}

// virtualRange is what a segment has more if it is expandable. It never changes.
type virtualRange struct {
	driver VirtualDriver
	page   uint64 // bytes that are mapped and unmapped at once. Of the segment, as the setting may change while it lives
}

// expands reports whether new memory for a request comes from an expandable segment.
func (a *Caching) expands(r *request) (VirtualDriver, bool) {
	if !r.policy.expandable || r.shard.hasSource() {
		return nil, false
	}
	d, ok := a.driver.(VirtualDriver)
	return d, ok && d.Granularity() != 0 // some devices of a kind that has virtual memory do not
}

// expand serves r by mapping pages behind free or unmapped blocks of its stream. It returns a block in no index, or nil if
// the device is full; what was mapped before that stays cached. Caller holds a.mu.
//
// The shard stays locked over the driver calls: a free block next to the pages being mapped must not be handed out, nor
// merged, before they are there. So this stream's other requests wait; those of other streams go on.
func (a *Caching) expand(d VirtualDriver, r *request) (*block, error) {
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// For the block's size, not that of a segment: pages are mapped as they are needed.
	b := sh.placeFor(r.policy, r.kind, r.size)
	if b == nil {
		var err error
		if b, err = a.addRange(d, r); b == nil || err != nil {
			return nil, err
		}
	}
	if b.state == stateUnmapped {
		if ok, err := a.mapBlock(b, min(b.size, r.size)); !ok {
			return nil, err
		}
	}
	// b is free now and in the index, so what lies behind it is not free: by findExpandable, it is unmapped. Pages are mapped there
	// until b is large enough, and mapBlock takes in what is free behind them. If the device is full halfway, b stays as it is then.
	for b.size < r.size {
		next := b.next
		if ok, err := a.mapBlock(next, min(next.size, r.size-b.size)); !ok {
			return nil, err
		}
		b = next // it has taken b in
	}
	sh.pools[b.kind].remove(b)
	b.state = stateAllocated // as in take
	return b, nil
}

// findExpandable returns the first block, by address, at which enough free and unmapped bytes follow each other: an unmapped
// block, or the free one before it.
func (sh *shard) findExpandable(k poolKind, size uint64) *block {
	for b := range sh.expandables(k, size) {
		return b
	}
	return nil
}

// expandables yields all such blocks, by address.
func (sh *shard) expandables(k poolKind, size uint64) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for _, b := range sh.unmapped[k] {
			if b.prev != nil && b.prev.state == stateCached {
				b = b.prev
			}
			room := uint64(0) // of neighbours of which none is in use: mapped, they are one block
			for n := b; n != nil && room < size && (n.state == stateCached || n.state == stateUnmapped); n = n.next {
				room += n.size
			}
			if room >= size && !yield(b) {
				return
			}
		}
	}
}

// placeFor is where expand maps pages: at the first place that is long enough, or, where pages are moved, at the one that needs the
// fewest: else they would go back to where they were taken from. Caller holds the shard.
func (sh *shard) placeFor(p *policy, k poolKind, size uint64) (best *block) {
	if !p.reclaim && p.compaction == 0 {
		return sh.findExpandable(k, size)
	}
	least := unlimited
	for b := range sh.expandables(k, size) {
		if n := b.pagesBehind(size); n < least {
			best, least = b, n
		}
	}
	return best
}

// pagesFor returns how many bytes expand would map for r now, which are whole pages, or false if no range would be long enough. total is the memory
// of the device. Caller holds a.mu and no shard.
func (a *Caching) pagesFor(d VirtualDriver, r *request, total uint64) (bytes uint64, ok bool) {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	b := r.shard.placeFor(r.policy, r.kind, r.size)
	if b == nil {
		page := r.policy.page(r.kind, d)
		if roundUp(r.policy.reserve.of(total), page) < r.size {
			return 0, false
		}
		return roundUp(r.size, page), true
	}
	return b.pagesBehind(r.size), true
}

// pagesBehind is how many bytes expand would map from b on for size bytes.
func (b *block) pagesBehind(size uint64) (bytes uint64) {
	for have := uint64(0); have < size; have, b = have+b.size, b.next {
		if b.state == stateUnmapped {
			bytes += min(roundUp(min(b.size, size-have), b.seg.vm.page), b.size)
		}
	}
	return bytes
}

// page is how much a range of a kind maps at once: the sizes of segments, so that the driver is called about as often. A device may have larger pages
// of its own. What is to be moved about comes in small pages: the less of each lies beside blocks in use.
func (p *policy) page(k poolKind, d VirtualDriver) uint64 {
	if k == largePool && p.compaction == 0 {
		return roundUp(p.largeSegment, d.Granularity())
	}
	if p.compaction != 0 {
		return movingPage(d)
	}
	return roundUp(smallSegment, d.Granularity())
}

// movingPage is the size of pages that are to be moved about: 2 MiB on GPUs, which have no smaller ones, and little where the operating system's pages
// are a few KiB, so that what is lost beside blocks in use is little, too.
func movingPage(d VirtualDriver) uint64 { return roundUp(16*kib, d.Granularity()) }

// addRange reserves a range, by default of 9/8 of the device's memory, as one unmapped block. It returns nil if that is too small for r.
func (a *Caching) addRange(d VirtualDriver, r *request) (*block, error) {
	info, err := a.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	page := r.policy.page(r.kind, d)
	size := roundUp(r.policy.reserve.of(info.Total), page)
	if size < r.size { // with expandable_segments_reserve; a range that never serves the request is not taken
		return nil, nil
	}
	ptr, err := d.Reserve(size)
	if errors.Is(err, device.ErrOutOfMemory) { // no addresses left
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seg := a.newSegment(r, ptr, size)
	seg.vm = &virtualRange{driver: d, page: page}
	b := r.shard.firstBlock(seg)
	r.shard.unmap(b) // no driver call: there is nothing behind the addresses yet, and nothing is counted
	return b, nil
}

// mapBlock puts memory behind the first size bytes of b, an unmapped block, rounded up to whole pages, and makes them a free
// block, merged with its free neighbours, in the index: that is b then, and what is left stays unmapped behind it. It reports
// false if the device is full. Caller holds a.mu and the shard.
func (a *Caching) mapBlock(b *block, size uint64) (bool, error) {
	// An unmapped block begins and ends at pages: the range does, and trim cuts there. So b.size is whole pages, too.
	vm, sh := b.seg.vm, b.shard
	size = min(roundUp(size, vm.page), b.size)
	at := b.ptr // absorbFree may move it
	err := vm.driver.Map(at, size, vm.page)
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Only now, when the driver has said yes, do the books change.
	sh.forgetUnmapped(b) // while its address is the list's key
	if size < b.size {
		sh.unmap(sh.splitBack(b, size))
	}
	b.state = stateCached
	sh.absorbFree(b)
	sh.cache(b)
	a.countReserved(sh, b.kind, int64(size)) // the pages, not the block that they became part of
	sh.noteSegment(journal.SegmentMap, b.seg, at, size, a.behalf)
	a.dev.NumDeviceAlloc++ // one, however many pages: PyTorch's count
	return true, nil
}

// trim unmaps whole pages inside b, a free block of an expandable segment, of most bytes, rounded up to pages, and no more; their addresses merge with unmapped ones
// around them, and the ends that share a page with other blocks stay free. A range without pages goes back to the driver. It
// returns the bytes that it unmapped. Caller holds a.mu and no shard.
func (a *Caching) trim(b *block, most uint64) (uint64, error) {
	return a.trimWhen(b, most, func(sh *shard) (bool, error) { return true, a.waitFor(sh) })
}

// trimWhen is trim if the shard's stream is ready: the work that used the memory must be over. ready is called with the shard locked, so that nobody
// has been given b since.
func (a *Caching) trimWhen(b *block, most uint64, ready func(*shard) (bool, error)) (uint64, error) {
	return a.trimFrom(b, 0, most, ready)
}

// trimFrom is trimWhen of the part of b that begins at an address, of which the end goes first; of all of b if that is 0.
func (a *Caching) trimFrom(b *block, first device.Ptr, most uint64, ready func(*shard) (bool, error)) (uint64, error) {
	sh := b.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.state != stateCached || b.seg == nil || b.seg.vm == nil {
		return 0, nil // somebody took it since it was found
	}
	if a.inCapture() {
		return 0, nil // pages are unmapped when work is done, and nothing may wait now
	}
	vm, end := b.seg.vm, b.ptr.Add(b.size)
	from, to := b.wholePages()
	if first > b.ptr {
		from = max(from, b.seg.ptr.Add(roundUp(uint64(first-b.seg.ptr), vm.page)))
	}
	if from >= to {
		return 0, nil
	}
	if all := uint64(to - from); most < all { // what stays is beside a free neighbour's pages, not between holes
		keep := (all - most) / vm.page * vm.page
		if first != 0 || b.next != nil && b.next.state == stateUnmapped {
			from = from.Add(keep)
		} else {
			to = from.Add(all - keep)
		}
	}
	if ok, err := ready(sh); !ok || err != nil {
		return 0, err
	}
	// The driver comes first here as well, although it may stop halfway: what it did is booked, and its error returned. The shard is
	// locked, so nobody is given b meanwhile, although it still is in the index.
	to, failed := vm.unmap(from, to)
	if from == to {
		return 0, failed
	}
	sh.pools[b.kind].remove(b)
	if from > b.ptr { // the page before is shared with a block in use
		rest := sh.splitBack(b, uint64(from-b.ptr))
		sh.cache(b)
		b = rest
	}
	if to < end {
		sh.cache(sh.splitBack(b, uint64(to-from)))
	}
	sh.absorbUnmapped(b) // so that growable sees all that could be mapped, and whole that nothing is left
	sh.unmap(b)
	a.countReserved(sh, b.kind, -int64(to-from))
	sh.noteSegment(journal.SegmentUnmap, b.seg, from, uint64(to-from), a.behalf)
	a.dev.NumDeviceFree++
	if b.whole() { // no page is left: a range for each stream that there ever was would use the addresses up
		return uint64(to - from), errors.Join(failed, a.dropRange(b))
	}
	return uint64(to - from), failed
}

// waitFor waits for the work of a stream before its pages are unmapped, which may still use the memory: it is free for that stream only.
// cudaFree waits by itself, unmapping does not.
func (a *Caching) waitFor(sh *shard) error {
	return streams.IgnoreClosed(sh.stream().Synchronize(context.Background()))
}

// wholePages is where the first whole page of a block in an expandable segment begins and the last one ends: there is none if
// that is not later. Pages are counted from the start of the range.
func (b *block) wholePages() (from, to device.Ptr) {
	start, page := b.seg.ptr, b.seg.vm.page
	return start.Add(roundUp(uint64(b.ptr-start), page)), start.Add(uint64(b.ptr.Add(b.size)-start) / page * page)
}

// unmap gives the pages from one address to another back, one by one: so it is known how far it came when the driver
// refuses one. It returns where the pages begin that are still there.
func (vm *virtualRange) unmap(from, to device.Ptr) (device.Ptr, error) {
	for ; from < to; from = from.Add(vm.page) {
		if err := vm.driver.Unmap(from, vm.page); err != nil {
			return from, err
		}
	}
	return to, nil
}

// dropRange gives the addresses of a range without pages back. Caller holds a.mu and the shard.
func (a *Caching) dropRange(b *block) error {
	seg, sh := b.seg, b.shard // recycle forgets the segment
	if err := seg.vm.driver.Unreserve(seg.ptr); err != nil {
		return err
	}
	sh.forgetUnmapped(b)
	sh.recycle(b)
	a.forgetSegment(seg)
	return nil
}

// unmap notes b as an unmapped block. The list is by address, because the lowest range that is large enough is used first
// (PyTorch's order), and short: the holes that EmptyCache made, and the end of each range.
func (sh *shard) unmap(b *block) {
	b.state = stateUnmapped
	list := &sh.unmapped[b.kind]
	i, _ := slices.BinarySearchFunc(*list, b, compareAddress)
	*list = slices.Insert(*list, i, b)
}

// forgetUnmapped is the opposite, before b's address changes.
func (sh *shard) forgetUnmapped(b *block) {
	list := &sh.unmapped[b.kind]
	if i, ok := slices.BinarySearchFunc(*list, b, compareAddress); ok {
		*list = slices.Delete(*list, i, i+1)
	}
}

// compareAddress orders blocks by address.
func compareAddress(x, y *block) int {
	switch {
	case x.ptr < y.ptr:
		return -1
	case x.ptr > y.ptr:
		return 1
	}
	return 0
}

// absorbUnmapped merges the unmapped neighbours of b into it. b is in no list.
func (sh *shard) absorbUnmapped(b *block) {
	if prev := b.prev; prev != nil && prev.state == stateUnmapped {
		sh.forgetUnmapped(prev)
		sh.joinPrev(b, prev)
	}
	if next := b.next; next != nil && next.state == stateUnmapped {
		sh.forgetUnmapped(next)
		sh.joinNext(b, next)
	}
}
