package memory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/userframe"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// This file says what would have served a request that failed. Nothing is said that was not computed: from the books as they are, or from
// the history, by running the program again (rehearsal.go).

// advise fills in e's advice, as far as the books go, and keeps what completeAdvice needs. Caller holds a.mu and no shard.
func (a *Caching) advise(e *OOMError, r *request) {
	if e.Hint = a.adviceOnLimits(e, r); e.Hint != "" {
		return
	}
	if e.Hint = a.adviceOnPools(e, r); e.Hint != "" {
		return
	}
	if e.rehearsal = a.rehearsal(e, r); e.rehearsal == nil {
		e.Hint = a.adviceOnPages(e, r)
	}
	if e.Hint == "" {
		e.Hint = cmp.Or(a.adviceOnStreams(r), a.adviceOnKinds(r), a.adviceOnUse(e))
	}
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
	if e.Setting = h.setting(); e.Setting != "" {
		e.Hint = fmt.Sprintf("With %s this request would have been served: the recorded program was run again with it.", e.Setting)
	} else if h.servedOnOneStream() {
		e.Hint = fmt.Sprintf("On one stream, in place of %d, this request would have been served (the recorded program was run again so): memory is reused on its own stream only.",
			h.streams())
	}
}

// adviceOnLimits is for limits that keep a request from memory that the device has. Caller holds a.mu.
func (a *Caching) adviceOnLimits(e *OOMError, r *request) string {
	pool := r.shard.pool
	if !e.LimitHit || e.DeviceFree < e.Tried {
		return ""
	}
	if pool != nil && pool.overLimit(e.Tried) {
		if limit := a.limit.Load(); limit != unlimited && e.Reserved+e.Tried > limit {
			return ""
		}
		e.EnoughLimit = uint64(pool.reserved.All.Current) + e.Tried
		return fmt.Sprintf("The pool has a limit of its own: a PoolLimit of %s would have been enough for this allocation.", text.Bytes(e.EnoughLimit))
	}
	e.EnoughLimit = e.Reserved + e.Tried
	return fmt.Sprintf("The device has the memory: a limit of %s would have been enough for this allocation (%s).",
		text.Bytes(e.EnoughLimit), a.limitSetting())
}

// adviceOnPages is for free memory in segments that are in use. An expandable segment gives whole free pages back, so that what matters is
// how many there are, with the blocks where they are. Caller holds a.mu and no shard.
func (a *Caching) adviceOnPages(e *OOMError, r *request) string {
	d, ok := a.driver.(VirtualDriver)
	if r.policy.expandable || r.shard.hasSource() || !ok || d.Granularity() == 0 || a.inCapture() {
		return ""
	}
	if r.policy.reserve != (Reserve{}) { // ranges may be too short
		return ""
	}
	pages, need := a.freePages(d.Granularity(), r)
	reserved := e.Reserved - min(pages, e.Reserved)
	room := e.DeviceFree + e.Reserved - reserved
	if limit := a.limit.Load(); limit != unlimited {
		room = min(room, limit-min(limit, reserved))
	}
	if room < need {
		return ""
	}
	e.Setting = settingsTried[0].text
	return fmt.Sprintf("With %s %s of the free memory, which is in pieces, would be whole pages for use elsewhere: as the blocks lie now, that serves this request. "+
		"RecordHistory lets settings be tried on the program itself.", e.Setting, text.Bytes(pages))
}

// freePages returns how many bytes expandable segments would give back, and how many r would map then, if the blocks of each stream and pool lay one behind the
// other in one range as they lie in its segments now. Caller holds a.mu and no shard.
func (a *Caching) freePages(granularity uint64, r *request) (free, need uint64) {
	need = r.size
	shards := a.lockShards()
	defer unlockShards(shards)
	for _, range_ := range a.ranges() {
		page := roundUp(smallSegment, granularity)
		if range_.kind == largePool {
			page = roundUp(r.policy.largeSegment, granularity)
		}
		pages, tail, padding := range_.pages(page)
		free += pages - min(padding, pages)
		if range_.shard == r.shard && range_.kind == r.kind {
			need -= min(tail, need)
		}
	}
	page := roundUp(smallSegment, granularity)
	if r.kind == largePool {
		page = roundUp(r.policy.largeSegment, granularity)
	}
	return free, roundUp(need, page)
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

// pages returns the bytes of the whole pages in the range's free memory, those that are free behind its last block and share a page with it, and those
// by which the last page is longer than the range.
func (b *blockRange) pages(page uint64) (whole, tail, padding uint64) {
	var at, start uint64 // start: of the free memory that ends at at
	for _, seg := range b.segments {
		for x := seg.head; x != nil; x = x.next {
			if x.state != stateCached {
				whole += between(start, at, page)
				start = at + x.size
			}
			at += x.size
		}
	}
	end := roundUp(at, page)
	padding = end - at
	last := roundUp(start, page)
	return whole + end - last, last - start, padding
}

// between is how many bytes the whole pages between two offsets have.
func between(from, to, page uint64) uint64 {
	from, to = roundUp(from, page), to/page*page
	return to - min(from, to)
}

// adviceOnPools is for whole segments that private pools keep. Caller holds a.mu and no shard.
func (a *Caching) adviceOnPools(e *OOMError, r *request) string {
	var kept uint64
	for _, p := range a.pools {
		for k := range poolKinds {
			for _, b := range a.freeBlocks(p, k, (*block).plainWhole) {
				kept += b.size
			}
		}
	}
	if kept == 0 || kept+e.DeviceFree < e.Tried || e.LimitHit && e.Reserved-kept+e.Tried > a.limit.Load() {
		return ""
	}
	return fmt.Sprintf("Private pools keep %s that nobody uses: Pool.EmptyCache gives it back, which makes room for this request.", text.Bytes(kept))
}

// adviceOnStreams is for a free block that another stream would have served the request with. Caller holds a.mu and no shard.
func (a *Caching) adviceOnStreams(r *request) string {
	for _, sh := range *a.shards.Load() {
		if sh.pool != r.shard.pool || sh == r.shard {
			continue
		}
		if b := sh.peek(r); b != 0 {
			return fmt.Sprintf("Stream %d has a free block of %s, which serves its own requests only: on that stream this request would have been served.",
				sh.id(), text.Bytes(b))
		}
	}
	return ""
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

// adviceOnUse is for a device that is simply full: it says who holds the memory. Caller holds a.mu and no shard.
func (a *Caching) adviceOnUse(e *OOMError) string {
	if e.Allocated == 0 {
		return ""
	}
	advice := "Nothing that is cached would serve it: smaller batches, half precision, checkpointed activations, and graphs that are released earlier take less."
	var most []string
	for _, h := range a.holders(3) {
		most = append(most, fmt.Sprintf("%s (%s in %d blocks)", h.site, text.Bytes(h.bytes), h.blocks))
	}
	if len(most) > 0 {
		advice += " The most is held by " + strings.Join(most, ", ") + "."
	}
	return advice
}

// holder is a line of the program, and what it allocated that is in use.
type holder struct {
	site   string
	bytes  uint64
	blocks int
}

// holders returns the lines that hold the most, as far as stacks are recorded. Caller holds a.mu and no shard.
func (a *Caching) holders(most int) []holder {
	stacks := a.stacks.Load()
	if stacks == nil {
		return nil
	}
	lines := map[string]*holder{}
	for stack, h := range a.holdersByStack() {
		h.site = siteOf(stacks, stack)
		if same := lines[h.site]; same != nil {
			h.bytes, h.blocks = h.bytes+same.bytes, h.blocks+same.blocks
		}
		lines[h.site] = h
	}
	delete(lines, "")
	list := slices.SortedFunc(maps.Keys(lines), func(x, y string) int {
		return cmp.Or(cmp.Compare(lines[y].bytes, lines[x].bytes), cmp.Compare(x, y))
	})
	var all []holder
	for _, site := range list[:min(most, len(list))] {
		all = append(all, *lines[site])
	}
	return all
}

func (a *Caching) holdersByStack() map[fpstack.ID]*holder {
	shards := a.lockShards()
	defer unlockShards(shards)
	held := map[fpstack.ID]*holder{}
	for _, seg := range a.segments {
		for b := seg.head; b != nil; b = b.next {
			if b.state != stateAllocated || b.stack == 0 {
				continue
			}
			h := held[b.stack]
			if h == nil {
				h = &holder{}
				held[b.stack] = h
			}
			h.bytes, h.blocks = h.bytes+b.size, h.blocks+1
		}
	}
	return held
}

// siteOf is the innermost line of the program on a stack, "" if it has none.
func siteOf(stacks *fpstack.Table, id fpstack.ID) string {
	for _, f := range stacks.Frames(id) {
		if !userframe.Library(f.File) {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
	return ""
}
