package memory

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// A block that stays keeps the whole page that it is in from the driver, and what is free of the page is too short for large buffers. With
// virtual memory a page can be mapped a second time: so a stitch is a range of addresses in which the free end of one page, pages of its
// own and the free beginning of another page follow each other.
//
//	| held   | head |         | tail | held |      pages in segments, which stay mapped there
//	         | head | page | page | tail |         the stitch: head and tail are the same memory
//
// The head and the tail are borrowed blocks, of which nobody is given a piece at their own addresses meanwhile.

// aliasingDriver is a VirtualDriver that maps pages twice, see device.PageAliasing.
type aliasingDriver interface {
	VirtualDriver
	Alias(p, of device.Ptr) error
}

// stitch is one such range. It is in no pool and not among Caching.segments.
type stitch struct {
	b          *block // what can be handed out of it: borrowed, as the blocks that it is made of
	head, tail pageEnd
	own        device.Ptr
	pages      uint64     // bytes of memory of its own, from own on
	from, to   device.Ptr // what is mapped: not all where the driver refused a call
}

// ptr is the address of the first byte, where the page is mapped in its segment.
func (e pageEnd) ptr() device.Ptr { return e.b.ptr.Add(e.at) }

// stitchPage is the size of the pages that stitches of a shard are made of; 0 if there can be none. Caller holds a.mu.
func (a *Caching) stitchPage(sh *shard) uint64 {
	d, ok := a.driver.(aliasingDriver)
	if !ok || a.noAliases || d.Granularity() == 0 || sh.hasSource() {
		return 0
	}
	return movingPage(d)
}

// homes describes what a plan has borrowed and no stitch is made of. Caller holds a.mu and the shard.
func (a *Caching) homes(sh *shard) (list []home, page uint64) {
	st := sh.steps
	page = a.stitchPage(sh)
	taken, pinned := st.placesAndBlocks(), st.pinned()
	for _, b := range st.lent {
		if st.stitched(b) {
			continue
		}
		if old := pinned[b]; old != nil {
			list = append(list, gaps(b, old)...)
			continue
		}
		h := homeOf(b)
		if page != 0 && st.stitchOf(b) == nil && b.expandable() && b.seg.vm.page == page && h.pages == 0 && !taken[b] {
			h.ends = endsOfPages(b, page)
		}
		list = append(list, h)
	}
	return list, page
}

// endsOfPages are what can be part of a stitch of a borrowed block, in which there is no whole page.
func endsOfPages(b *block, page uint64) (ends []pageEnd) {
	from := uint64(b.ptr - b.seg.ptr)
	cut := roundUp(from, page) - from // where the first page begins in it
	if cut > b.size {
		return nil
	}
	if cut != 0 {
		ends = append(ends, pageEnd{b: b, size: cut, whole: cut == b.size})
	}
	if cut != b.size {
		ends = append(ends, pageEnd{b: b, at: cut, size: b.size - cut, first: true, whole: cut == 0})
	}
	return ends
}

// placesAndBlocks are the borrowed blocks in which a program has a place, or in which a planned block is in use.
func (st *steps) placesAndBlocks() map[*block]bool {
	taken := map[*block]bool{}
	for _, b := range st.live() {
		taken[b.slot.home] = true
	}
	for _, p := range st.programs {
		for i := range p.slots {
			taken[p.slots[i].home] = true
		}
	}
	return taken
}

// homesBeside are the borrowed blocks in which programs other than p have places, or in which blocks of old steps are.
func (st *steps) homesBeside(p *stepProgram) map[*block]bool {
	used := map[*block]bool{}
	for h := range st.pinned() {
		used[h] = true
	}
	for _, q := range st.programs {
		for i := range q.slots {
			used[q.slots[i].home] = used[q.slots[i].home] || q != p
		}
	}
	return used
}

// stitched reports whether a part of a borrowed block belongs to a stitch.
func (st *steps) stitched(b *block) bool {
	return slices.ContainsFunc(st.stitches, func(s *stitch) bool { return s.head.b == b || s.tail.b == b })
}

// stitchedEnds are those parts of stitches from which blocks are handed out, by address.
func (st *steps) stitchedEnds(b *block) (ends []pageEnd) {
	for _, s := range st.stitches {
		for _, e := range []pageEnd{s.head, s.tail} {
			if e.b == b && s.b.state == stateLent {
				ends = append(ends, e)
			}
		}
	}
	slices.SortFunc(ends, func(x, y pageEnd) int { return cmp.Compare(x.at, y.at) })
	return ends
}

// stitchOf is the stitch that a borrowed block is all of, or nil.
func (st *steps) stitchOf(b *block) *stitch {
	for _, s := range st.stitches {
		if s.b == b {
			return s
		}
	}
	return nil
}

// stitchBytes is how much memory stitches have of their own.
func (st *steps) stitchBytes() (sum uint64) {
	for _, s := range st.stitches {
		sum += s.left()
	}
	return sum
}

// left is what is mapped of the memory of its own.
func (s *stitch) left() uint64 {
	end := min(s.own.Add(s.pages), s.to)
	return uint64(end - min(max(s.from, s.own), end))
}

// makeStitches makes what a placement wants and puts it into lodgers. It reports false, and has changed nothing, if that cannot be done
// now. Caller holds a.mu and no shard.
func (a *Caching) makeStitches(sh *shard, pl *placement) (bool, error) {
	need := uint64(0)
	for _, n := range pl.stitches {
		need += n.pages
	}
	if err := a.makeRoomForStitches(sh, need); err != nil {
		return false, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if st := sh.steps; !st.canStitch(pl.stitches) || need != 0 && !a.mayReserve(need) {
		return false, nil
	}
	var made []*stitch
	for _, n := range pl.stitches {
		s, err := a.makeStitch(sh, n)
		if err != nil || s == nil {
			for _, s := range made {
				err = errors.Join(err, a.dropStitch(sh, s))
			}
			return false, err
		}
		made = append(made, s)
	}
	for i := range pl.homes {
		if l := &pl.homes[i]; l.home == nil {
			l.home = made[l.stitch].b
		}
	}
	return true, nil
}

// makeRoomForStitches gives what is cached back for need bytes of pages, and then what the arena has and no block is in: the placement needs less of it than there was. Caller holds a.mu and no
// shard.
func (a *Caching) makeRoomForStitches(sh *shard, need uint64) error {
	if need == 0 {
		return nil
	}
	if err := a.makeRoom(sh, need, 0, false); err != nil {
		return err
	}
	p := a.policy.Load()
	if p.compaction == 0 || !p.expandable {
		return nil
	}
	_, err := a.trimArena(sh, 0, a.allAbove(p, need, 0))
	return err
}

// canStitch reports whether blocks are borrowed still, and nobody has a place there.
func (st *steps) canStitch(list []newStitch) bool {
	taken := st.placesAndBlocks()
	for _, n := range list {
		for _, b := range []*block{n.head.b, n.tail.b} {
			if b != nil && (b.state != stateLent || !slices.Contains(st.lent, b) || st.stitched(b) || taken[b]) {
				return false
			}
		}
	}
	return true
}

// makeStitch maps a stitch. It returns nil if the device is full, and gives back what it had then. Caller holds a.mu and the shard.
func (a *Caching) makeStitch(sh *shard, n newStitch) (*stitch, error) {
	d, page := a.driver.(aliasingDriver), a.stitchPage(sh)
	size, before := n.pages, uint64(0)
	if n.head.b != nil {
		size, before = size+page, page-n.head.size
	}
	if n.tail.b != nil {
		size += page
	}
	ptr, err := d.Reserve(size)
	if errors.Is(err, device.ErrOutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seg := &segment{shard: sh, kind: largePool, ptr: ptr, size: size, reg: a.registrations, vm: &virtualRange{driver: d, page: page}}
	a.registrations++
	s := &stitch{b: &block{shard: sh}, head: n.head, tail: n.tail, pages: n.pages, own: ptr, from: ptr, to: ptr}
	if n.head.b != nil {
		s.own = ptr.Add(page)
	}
	s.b.ptr, s.b.size, s.b.reg, s.b.kind, s.b.seg, s.b.state = ptr.Add(before), n.head.size+n.pages+n.tail.size, seg.reg, largePool, seg, stateLent
	st := sh.steps
	st.stitches, st.lent = append(st.stitches, s), append(st.lent, s.b)
	err = s.mapPages(d, page)
	if own := s.left(); own != 0 {
		a.dev.NumDeviceAlloc++
		a.countReserved(sh, largePool, int64(own))
		sh.noteSegment(journal.SegmentMap, seg, s.own, own, a.behalf)
	}
	if err == nil {
		return s, nil
	}
	switch {
	case errors.Is(err, device.ErrUnavailable): // by this driver; it is not asked again
		a.noAliases, err = true, nil
	case errors.Is(err, device.ErrOutOfMemory):
		err = nil
	}
	return nil, errors.Join(err, a.dropStitch(sh, s))
}

// mapPages puts the pages of a stitch behind its addresses.
func (s *stitch) mapPages(d aliasingDriver, page uint64) error {
	if s.head.b != nil {
		if err := d.Alias(s.to, s.head.ptr().Add(s.head.size-page)); err != nil {
			return err
		}
		s.to = s.to.Add(page)
	}
	if s.pages != 0 {
		if err := d.Map(s.to, s.pages, page); err != nil {
			return err
		}
		s.to = s.to.Add(s.pages)
	}
	if s.tail.b != nil {
		if err := d.Alias(s.to, s.tail.ptr()); err != nil {
			return err
		}
		s.to = s.to.Add(page)
	}
	return nil
}

// dropStitch gives a stitch back of which nobody has a piece. When the driver refuses, nobody is given one any more, and it is tried again
// with the next one that goes. Caller holds a.mu and the shard.
func (a *Caching) dropStitch(sh *shard, s *stitch) error {
	st := sh.steps
	s.b.state = stateSpare
	st.lent = slices.DeleteFunc(st.lent, func(b *block) bool { return b == s.b })
	if err := a.waitFor(sh); err != nil {
		return err
	}
	seg, had := s.b.seg, s.left()
	at := max(s.from, s.own)
	var err error
	s.from, err = seg.vm.unmap(s.from, s.to)
	a.bookUnstitched(sh, seg, at, had-s.left())
	if err != nil {
		return err
	}
	if err := seg.vm.driver.Unreserve(seg.ptr); err != nil {
		return err
	}
	st.stitches = slices.DeleteFunc(st.stitches, func(x *stitch) bool { return x == s })
	return nil
}

// shorten gives the pages of a stitch back that are before and behind its blocks in use, which are among live, by address. Caller holds a.mu and the shard.
func (a *Caching) shorten(sh *shard, s *stitch, live []*block) error {
	seg, had := s.b.seg, s.left()
	vm, from, to := seg.vm, s.to, s.from
	for _, b := range live {
		if b.slot.home == s.b {
			from, to = min(from, b.ptr), max(to, b.ptr.Add(b.size))
		}
	}
	from, to = seg.ptr.Add(uint64(from-seg.ptr)/vm.page*vm.page), seg.ptr.Add(roundUp(uint64(to-seg.ptr), vm.page))
	if from == s.from && to == s.to {
		return nil
	}
	if err := a.waitFor(sh); err != nil {
		return err
	}
	end := min(s.to, s.own.Add(s.pages)) // of its own memory
	var err error
	for s.to > to && err == nil { // from the end: what is mapped stays one range
		if err = vm.driver.Unmap(s.to.Add(-vm.page), vm.page); err == nil {
			s.to = s.to.Add(-vm.page)
		}
	}
	now := s.left()
	a.bookUnstitched(sh, seg, end.Add(-(had - now)), had-now)
	if err == nil {
		at := max(s.from, s.own)
		s.from, err = vm.unmap(s.from, from)
		a.bookUnstitched(sh, seg, at, now-s.left())
	}
	if s.from >= s.own {
		s.head = pageEnd{}
	}
	if s.to <= s.own.Add(s.pages) {
		s.tail = pageEnd{}
	}
	first, last := max(s.b.ptr, s.from), min(s.b.ptr.Add(s.b.size), s.to)
	s.b.ptr, s.b.size = first, uint64(last-first)
	return err
}

// bookUnstitched counts what a stitch has given back of its own memory. Caller holds a.mu and the shard.
func (a *Caching) bookUnstitched(sh *shard, seg *segment, at device.Ptr, bytes uint64) {
	if bytes == 0 {
		return
	}
	a.dev.NumDeviceFree++
	a.countReserved(sh, largePool, -int64(bytes))
	sh.noteSegment(journal.SegmentUnmap, seg, at, bytes, a.behalf)
}

// dropStitches gives back the stitches that no program needs. It does nothing in a capture, when pages cannot be unmapped. Caller holds a.mu and
// the shard.
func (a *Caching) dropStitches(sh *shard, needed func(*block) bool) error {
	if len(sh.steps.stitches) == 0 || a.inCapture() {
		return nil
	}
	var errs []error
	for _, s := range slices.Clone(sh.steps.stitches) {
		if !needed(s.b) {
			errs = append(errs, a.dropStitch(sh, s))
		}
	}
	return errors.Join(errs...)
}

// layout copies a stitch as a segment: its ends have no memory of their own before and behind what can be handed out. Caller holds the shard.
func (s *stitch) layout(st *steps) segmentLayout {
	seg := s.b.seg
	l := segmentLayout{number: seg.reg, ptr: seg.ptr, size: seg.size, kind: seg.kind, expandable: true, stream: st.sh.id()}
	unmapped := func(from, to device.Ptr) {
		if from < to {
			l.blocks = append(l.blocks, blockLayout{ptr: from, size: uint64(to - from), state: stateUnmapped})
		}
	}
	from, size := s.b.ptr, s.b.size
	if s.b.state != stateLent { // the driver refused to take it back: what it has of its own
		from, size = max(s.from, s.own), s.left()
	}
	unmapped(seg.ptr, from)
	if size != 0 {
		l.blocks = append(l.blocks, st.pieces(from, size)...)
	}
	unmapped(from.Add(size), seg.ptr.Add(seg.size))
	return l
}
