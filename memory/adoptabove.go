package memory

import "github.com/cistern-ml/cistern/device"

// adoptAbove is for a request for which need bytes more are reserved than compaction allows, although all caches have given what they have: pages between the blocks of a plan that are in use
// serve it. The plan of r's stream gives up its places, which the next steps get anew. The block is in no index, and nil if pages are to be mapped for r. Caller holds a.mu and no shard.
//
//	| held | not in use now ........ | held |      the end of an arena, which is all that it gives otherwise, is in use
func (a *Caching) adoptAbove(d VirtualDriver, r *request, need uint64) (*block, error) {
	if r.shard.pool != nil || a.unusedByPlan(r.shard) < a.worthAdopting(r.shard, need, d) || a.beyond(r) {
		return nil, nil
	}
	if err := a.adoptFrom(r.shard); err != nil {
		return nil, err
	}
	if b := r.search(); b != nil {
		return b, nil
	}
	grown, _ := a.growth(d, r)
	return nil, a.returnPages(a.donorsFor(grown, r), nil, a.affordable(r.policy, a.excess(d, r), movingPage(d)))
}

// worthAdopting is how much a plan must have that is not in use, so that it gives up its places for need bytes: anything in a step that does not go by them any more. Caller holds a.mu and no
// shard.
func (a *Caching) worthAdopting(sh *shard, need uint64, d VirtualDriver) uint64 {
	if sh.steps == nil {
		return unlimited
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.steps.program == nil || sh.steps.strayed() {
		return min(need, movingPage(d))
	}
	return need
}

// unusedByPlan is how many bytes of whole pages a plan has that none of its blocks in use has a part of. Caller holds a.mu and no shard.
func (a *Caching) unusedByPlan(sh *shard) (bytes uint64) {
	if sh.steps == nil {
		return 0
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	live := st.live()
	if ar := &st.arena; ar.mapped != 0 && ar.seg.vm != nil {
		bytes = pagesBetween(live, ar.seg, nil, ar.seg.ptr, ar.mapped)
	}
	for _, b := range st.lent {
		if b.expandable() && !st.stitched(b) {
			bytes += pagesBetween(live, b.seg, b, b.ptr, b.size)
		}
	}
	return bytes
}

// pagesBetween is how many bytes of whole pages lie between blocks in use, which are by address, of an arena or of a borrowed block.
func pagesBetween(live []*block, seg *segment, home *block, from device.Ptr, size uint64) (bytes uint64) {
	page, at, end := seg.vm.page, uint64(from-seg.ptr), uint64(from-seg.ptr)+size
	gap := func(to uint64) {
		if from, to := roundUp(at, page), to/page*page; from < to {
			bytes += to - from
		}
	}
	for _, b := range live {
		if b.slot.home == home && b.seg == seg {
			gap(uint64(b.ptr - seg.ptr))
			at = max(at, uint64(b.ptr.Add(b.size)-seg.ptr))
		}
	}
	gap(end)
	return bytes
}
