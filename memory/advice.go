package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file says what would have served a request that failed. Nothing is said that was not computed: from the books as they are, or from
// the history, by running the program again (rehearsal.go).

// advise fills in e's advice, as far as the books go, and keeps what completeAdvice needs. Caller holds a.mu and no shard.
func (a *Caching) advise(e *OOMError, r *request) {
	e.Hint = a.adviceOnPools(e, r)
	if e.Hint = joined(e.Hint, a.adviceOnLimits(e, r)); e.Hint != "" {
		return
	}
	if e.Hint = a.adviceOnRefusal(e, r); e.Hint != "" {
		return
	}
	if e.rehearsal = a.rehearsal(e, r); e.rehearsal != nil {
		e.rehearsal.grows, e.rehearsal.use = a.grows(e, r), a.adviceOnUse()
	} else {
		e.Hint = a.adviceOnPages(e, r)
	}
	if e.Hint == "" {
		e.Hint = cmp.Or(a.adviceOnSegments(e, r), a.adviceOnStreams(e, r), a.adviceOnKinds(r), a.adviceOnNothing(e, r))
	}
}

// joined are sentences, of which some may be missing.
func joined(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// completeAdvice tries settings on the recorded program. No lock is held.
func completeAdvice(err error) {
	var e *OOMError
	if !errors.As(err, &e) || e.rehearsal == nil {
		return
	}
	h := e.rehearsal
	e.rehearsal = nil
	if !h.repeats() {
		return
	}
	setting, tight := h.setting()
	if e.Setting = setting; setting != "" {
		e.Hint = fmt.Sprintf("With %s this request would have been served: the recorded program was run again with it, up to this request.", setting) +
			caveat(h.grows, tight, h.use)
	} else if h.servedOnOneStream() {
		e.Hint = fmt.Sprintf("On one stream, in place of %d, this request would have been served (the recorded program was run again so): memory is reused on its own stream only.",
			h.streams())
	}
}

// adviceOnPages is for free memory in segments that are in use. An expandable segment gives whole free pages back, so that what matters is
// how many there are, with the blocks where they are. That is no proof: under the setting they would lie elsewhere, and requests before this one
// could have failed. So it is said in words only. Caller holds a.mu and no shard.
func (a *Caching) adviceOnPages(e *OOMError, r *request) string {
	d, ok := a.driver.(VirtualDriver)
	if r.policy.expandable || r.shard.hasSource() || !ok || d.Granularity() == 0 || a.inCapture() {
		return ""
	}
	if r.policy.reserve != (Reserve{}) { // ranges may be too short
		return ""
	}
	l := a.layInPages(d, r)
	if !l.fits(e, a.limit.Load(), r) {
		return ""
	}
	two, both := *r, *e // one request that is as large as two, which is no more than they take
	two.size, both.Tried = 2*r.size, 2*e.Tried
	tight := !a.layInPages(d, &two).fits(&both, a.limit.Load(), &two)
	advice := "expandable_segments:True, from the start of the program on, may serve this request: "
	if l.whole > 0 {
		advice += fmt.Sprintf("%s of the free memory, which is in pieces, would be whole pages for use elsewhere, and ", text.Bytes(l.whole))
	}
	advice += "with the blocks as they lie now there would be room."
	if a.history.Load() == nil {
		advice += " RecordHistory, before the first allocation, lets the program itself be tried with it."
	}
	return advice + caveat(a.grows(e, r), tight, a.adviceOnUse())
}

// pageLayout is what expandable segments would hold if the blocks of each stream and pool lay one behind the other in one range as they lie in its
// segments now.
type pageLayout struct {
	whole uint64 // the whole pages in free memory, which go back to the device
	more  int64  // bytes that are reserved more than now, the free pages being gone: less, as a rule
	pool  int64  // the part of more that is of the request's pool
	need  uint64 // what would be mapped for the request
}

// fits reports whether there would be room for r, under a limit of reserved bytes and that of r's pool.
func (l *pageLayout) fits(e *OOMError, limit uint64, r *request) bool {
	within := func(reserved StatArray, more int64, limit uint64) bool {
		return limit == unlimited || uint64(reserved.All.Current+more)+e.Tried <= limit
	}
	owner := r.shard.owner
	if !within(owner.dev.ReservedBytes, l.more, limit) || r.shard.pool != nil && !within(r.shard.pool.reserved, l.pool, r.shard.pool.limit) {
		return false
	}
	if reject := r.policy.rejectedAbove(e.DeviceTotal); !within(owner.dev.ReservedBytes, l.more, reject) {
		return false
	}
	return int64(e.DeviceFree)-l.more >= int64(l.need)
}

// layInPages computes the layout. Caller holds a.mu and no shard.
func (a *Caching) layInPages(d VirtualDriver, r *request) *pageLayout {
	l := new(pageLayout)
	shards := a.lockShards()
	defer unlockShards(shards)
	tail := uint64(0) // free memory that the request's range has for it
	for _, range_ := range a.ranges() {
		p := range_.pages(r.policy.page(range_.kind, d))
		if range_.shard.pool != nil { // private pools keep theirs
			p.whole = 0
		}
		more := int64(p.padding) - int64(p.whole)
		l.whole, l.more = l.whole+p.whole, l.more+more
		if range_.shard.pool == r.shard.pool {
			l.pool += more
		}
		if range_.shard == r.shard && range_.kind == r.kind && p.hole < r.size { // it is laid into the first hole that is large enough
			tail = p.tail
		}
	}
	l.need = roundUp(r.size-min(tail, r.size), r.policy.page(r.kind, d))
	return l
}

// blockRange are the segments of one stream and pool, as if they were one.
type blockRange struct {
	shard    *shard
	kind     poolKind
	segments []*segment
}

// ranges divides the plain segments by stream and pool, the oldest first. Caller holds a.mu and all shards.
func (a *Caching) ranges() (list []blockRange) {
	segments := slices.Clone(a.segments)
	slices.SortFunc(segments, func(x, y *segment) int { return cmp.Compare(x.reg, y.reg) })
	for _, seg := range segments {
		if seg.vm != nil || seg.shard.hasSource() {
			continue
		}
		i := slices.IndexFunc(list, func(b blockRange) bool { return b.shard == seg.shard && b.kind == seg.kind })
		if i < 0 {
			i = len(list)
			list = append(list, blockRange{shard: seg.shard, kind: seg.kind})
		}
		list[i].segments = append(list[i].segments, seg)
	}
	return list
}

// rangePages is how the blocks of a range lie in pages.
type rangePages struct {
	whole   uint64 // bytes of the whole pages in its free memory
	hole    uint64 // the longest piece of free memory before the last block
	tail    uint64 // bytes that are free behind the last block and share a page with it
	padding uint64 // by which the last page is longer than the range
}

func (b *blockRange) pages(page uint64) (p rangePages) {
	var at, start uint64 // start: of the free memory that ends at at
	for _, seg := range b.segments {
		for x := seg.head; x != nil; x = x.next {
			if x.state != stateCached {
				p.whole += between(start, at, page)
				p.hole = max(p.hole, at-start)
				start = at + x.size
			}
			at += x.size
		}
	}
	end := roundUp(at, page)
	p.padding = end - at
	last := roundUp(start, page)
	p.whole += end - last
	p.tail = last - start
	return p
}

// between is how many bytes the whole pages between two offsets have.
func between(from, to, page uint64) uint64 {
	from, to = roundUp(from, page), to/page*page
	return to - min(from, to)
}

// adviceOnStreams is for a free block that another stream would have served the request with, also one that lies at the end of what an expandable segment has
// mapped, and takes less than the device has. Caller holds a.mu and no shard.
func (a *Caching) adviceOnStreams(e *OOMError, r *request) string {
	for _, sh := range *a.shards.Load() {
		if sh.pool != r.shard.pool || sh == r.shard {
			continue
		}
		if b := sh.peek(r); b != 0 {
			return fmt.Sprintf("Stream %d has a free block of %s, which serves its own requests only: on that stream this request would have been served.",
				sh.id(), text.Bytes(b))
		}
		if more, ok := a.growsOn(sh, e, r); ok {
			return fmt.Sprintf("Stream %d has free memory at the end of its expandable segment, which serves its own requests only: on that stream this request would "+
				"have been served, with %s more of the device.", sh.id(), text.Bytes(more))
		}
	}
	return ""
}

// growsOn returns what a request like r would take of the device on another stream, if that is there and within the limits. Caller holds a.mu and no shard.
func (a *Caching) growsOn(sh *shard, e *OOMError, r *request) (more uint64, ok bool) {
	d, ok := a.expands(r)
	pool := r.shard.pool
	if !ok || a.inCapture() || e.Reserved+a.underway+e.Tried > min(a.limit.Load(), r.policy.rejectedAbove(e.DeviceTotal)) || pool != nil && pool.overLimit(e.Tried) {
		return 0, false
	}
	on := *r
	on.shard = sh
	more, ok = a.pagesFor(d, &on, e.DeviceTotal)
	return more, ok && more <= e.DeviceFree
}

// peek returns the size of the block that a request like r would get of this shard, or 0. Caller holds no shard.
func (sh *shard) peek(r *request) uint64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.take(r.policy, r.kind, r.size)
	if b == nil {
		return 0
	}
	b.state = stateCached // as it was, its age too
	sh.pools[r.kind].insert(b)
	return b.size
}

// adviceOnKinds is for a free block that is of the pool for larger or smaller requests. Caller holds a.mu and no shard.
func (a *Caching) adviceOnKinds(r *request) string {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	kind, which := largePool, "more than"
	if r.kind == largePool {
		kind, which = smallPool, "up to"
	}
	b := r.shard.pools[kind].last()
	if b == nil || b.size < r.size {
		return ""
	}
	return fmt.Sprintf("A block of %s is free in the pool of requests of %s 1 MiB, which does not serve this one; each of the two pools needs a segment of its own on the device.",
		text.Bytes(b.size), which)
}

// grows reports whether the program has not held as much before as with r. Caller holds a.mu and no shard.
func (a *Caching) grows(e *OOMError, r *request) bool { return e.Allocated+r.size > a.allocatedPeak() }

// caveat goes with what would have served a request where that may not help for long: of a program that has not held as much before, which may need more
// still, or if it is tight, so that a second request like this one would not have been served. use is what takes less.
func caveat(grows, tight bool, use string) string {
	switch {
	case grows:
		return " The program has not held as much before, so that what follows may not fit: " + use
	case tight:
		return " It leaves no room for another like it, so that what follows may not fit: " + use
	}
	return ""
}
