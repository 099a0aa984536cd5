package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file says when it would serve a request that failed to empty the private pools, which keep what they have.

// adviceOnPools is for memory that private pools keep and Pool.EmptyCache gives back. Caller holds a.mu and no shard.
func (a *Caching) adviceOnPools(e *OOMError, r *request) string {
	if r.shard.hasSource() || r.wanted == unlimited {
		return ""
	}
	var kept, own uint64 // own: of the request's pool
	for _, p := range a.pools {
		if p.source != nil { // its memory is not the device's
			continue
		}
		bytes := a.emptiable(p)
		if kept += bytes; p == r.shard.pool {
			own = bytes
		}
	}
	switch p := r.shard.pool; {
	case kept == 0, kept+e.DeviceFree < a.wantedOfEmptied(e, r):
		return ""
	case e.Reserved+a.underway-kept+e.Tried > a.limit.Load(), p != nil && uint64(p.reserved.All.Current)+p.underway-own+e.Tried > p.limit:
		return ""
	}
	who := "Private pools keep"
	if kept == own {
		who = "The pool keeps"
	}
	return fmt.Sprintf("%s %s that nobody uses: Pool.EmptyCache gives it back, which makes room for this request.", who, text.Bytes(kept))
}

// emptiable is how much releasePool would give back of a pool: whole segments, and whole pages of expandable ones. Caller holds a.mu and no shard.
func (a *Caching) emptiable(p *Pool) (bytes uint64) {
	pages := !a.inCapture()
	for k := range poolKinds {
		a.eachFree(p, k, func(b *block) {
			if b.plainWhole() {
				bytes += b.size
			} else if b.expandable() && pages {
				from := uint64(b.ptr - b.seg.ptr)
				bytes += between(from, from+b.size, b.seg.vm.page)
			}
		})
	}
	return bytes
}

// wantedOfEmptied is what the device must have for r after its pool was emptied: also for pages that are mapped now. Caller holds a.mu and no shard.
func (a *Caching) wantedOfEmptied(e *OOMError, r *request) uint64 {
	d, ok := a.expands(r)
	if !ok || a.inCapture() {
		return r.wanted
	}
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	for _, seg := range a.rangesOf(r) {
		if bytes, ok := seg.wantedOfTrimmed(r.size); ok {
			return bytes
		}
	}
	page := r.policy.page(r.kind, d)
	if roundUp(r.policy.reserve.of(e.DeviceTotal), page) < r.size {
		return unlimited
	}
	return roundUp(r.size, page)
}

// wantedOfTrimmed is what expand would map for a block of that size in a range whose free pages are gone, or false if there is no room. Caller holds the shard.
func (seg *segment) wantedOfTrimmed(size uint64) (bytes uint64, ok bool) {
	page := seg.vm.page
	for b := seg.head; b != nil; b = b.next {
		from, room := uint64(b.ptr-seg.ptr), uint64(0)
		for ; b != nil && (b.state == stateCached || b.state == stateUnmapped); b = b.next {
			room += b.size
		}
		first, last := roundUp(from, page), (from+room)/page*page // what is free of the pages at both ends stays: others use them too
		if room >= size && first < last {
			last = min(last, roundUp(from+size, page))
			return last - min(first, last), true
		}
		if b == nil {
			break
		}
	}
	return 0, false
}

// rangesOf lists the expandable segments of a request's stream and pool, by address. Caller holds a.mu.
func (a *Caching) rangesOf(r *request) (list []*segment) {
	for _, seg := range a.segments {
		if seg.shard == r.shard && seg.kind == r.kind && seg.vm != nil {
			list = append(list, seg)
		}
	}
	slices.SortFunc(list, func(x, y *segment) int { return cmp.Compare[device.Ptr](x.ptr, y.ptr) })
	return list
}
