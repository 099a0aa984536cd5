package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// This file finds out which settings would have served a request that failed, by running the recorded program again under each on an
// allocator whose device only keeps accounts. That takes the whole program: the history from its first allocation on.

// maxRehearsed is the longest history that is run again, in entries. Each takes well under a microsecond, for each of the settings.
const maxRehearsed = 1 << 20

// rehearsal is a recorded program that ends with a request that failed.
type rehearsal struct {
	entries []journal.Entry
	deeds   []deed // what the entries do not tell
	config  Config // in force
	limit   uint64 // of reserved bytes, at the beginning
	device  ledgerDevice
	bytes   uint64 // of the request
	stream  device.StreamID
	alone   bool   // no other stream uses its blocks
	live    int64  // blocks in use when it failed
	held    uint64 // bytes that were reserved then
	grows   bool   // the program has not held as much before
	use     string // what it could do to use less
}

// settingsTried are the changes that are tried, those with the least other effects first.
var settingsTried = slices.Concat([]func(*Config){func(c *Config) { c.ExpandableSegments = true }}, splitLimits(), segmentSizes())

// rehearsedInAll is how many entries are run again for one request that fails, under all settings together: of a long program not all of them are tried.
const rehearsedInAll = 8 * maxRehearsed

// splitLimits are limits to what may be split, from high to low: the higher, the fewer blocks are kept whole.
func splitLimits() (list []func(*Config)) {
	for _, mb := range []uint64{512, 256, 128, 64, 40, 32, 24, 21, 20} {
		list = append(list, func(c *Config) { c.MaxSplitBytes = mb * mib })
	}
	return list
}

// segmentSizes are sizes of segments, and of pages of expandable ones, from high to low: the higher, the fewer the driver makes.
func segmentSizes() (list []func(*Config)) {
	for _, mb := range []uint64{16, 14, 12, 11} {
		list = append(list, func(c *Config) { c.LargeSegmentBytes = mb * mib })
	}
	return list
}

// repeats reports whether the program fails in the rehearsal too, under the settings in force, and with as much reserved: otherwise that is not what
// happened.
func (h *rehearsal) repeats() bool {
	if !h.complete() {
		return false
	}
	s, err := h.play(h.config)
	return s != nil && err != nil && uint64(s.a.dev.ReservedBytes.All.Current) == h.held
}

// setting returns the settings, as ParseConfig reads them, with which the request would have been served, or "" if none are known. They are those in
// force with one change: of several that serve, the one that leaves room for the largest request, so that the next one does not fail. Expandable segments, which
// help later requests too, are only passed over for a sixteenth of the device more. It is tight if a second request like the first would not be served.
func (h *rehearsal) setting() (text string, tight bool) {
	most := uint64(0)
	for _, change := range h.tried() {
		c := h.config
		if change(&c); c == h.config || c.Validate() != nil {
			continue
		}
		s, err := h.play(c)
		if s == nil || err != nil {
			continue
		}
		again := s.serves(h)
		if room := s.room(h.stream); text == "" || room > most {
			text, most, tight = c.String(), room, !again
			if c.ExpandableSegments && !h.config.ExpandableSegments {
				most += h.device.capacity / 16
			}
		}
	}
	return text, tight
}

// serves reports whether the request that failed can be made once more.
func (s *stage) serves(h *rehearsal) bool {
	b, err := s.a.Alloc(h.bytes, s.stream(h.stream))
	return err == nil && s.a.Free(b) == nil
}

// tried are the settings to try.
func (h *rehearsal) tried() []func(*Config) {
	return settingsTried[:min(len(settingsTried), rehearsedInAll/max(len(h.entries), 1))]
}

// room is the size of the largest block that the stream can have now. The rehearsal ends with it.
func (s *stage) room(id device.StreamID) (largest uint64) {
	if s.a.EmptyCache() != nil {
		return 0
	}
	sh, err := s.a.shardOf(s.stream(id))
	if err != nil {
		return 0
	}
	if b := sh.pools[largePool].last(); b != nil {
		largest = b.size
	}
	free := s.dev.capacity - min(s.dev.capacity, s.dev.used)
	if limit := s.a.limit.Load(); limit != unlimited {
		free = min(free, limit-min(limit, uint64(s.a.dev.ReservedBytes.All.Current)))
	}
	if p := s.a.policy.Load(); p.expandable && s.dev.granularity != 0 {
		free -= free % p.page(largePool, s.dev)
	}
	return max(largest, free)
}

// streams is how many streams the program allocated on.
func (h *rehearsal) streams() int {
	seen := map[device.StreamID]bool{h.stream: true}
	for i := range h.entries {
		if h.entries[i].Action == journal.Alloc {
			seen[h.entries[i].Stream] = true
		}
	}
	return len(seen)
}

// servedOnOneStream reports whether the request would have been served if all had been allocated on one stream.
func (h *rehearsal) servedOnOneStream() bool {
	if h.streams() == 1 {
		return false
	}
	one := *h
	one.alone, one.entries, one.stream = true, slices.Clone(h.entries), 0
	for i := range one.entries {
		one.entries[i].Stream = 0
	}
	return one.serves(h.config)
}

// complete reports whether the entries tell all of a program that can be run again: one that has its memory from the default pools, and frees
// nothing that it did not allocate.
func (h *rehearsal) complete() bool {
	live := map[device.Ptr]bool{}
	for i := range h.entries {
		e := &h.entries[i]
		if e.Pool != (journal.Pool{}) || e.Tag != 0 {
			return false
		}
		switch e.Action {
		case journal.Alloc:
			live[e.Addr] = true
		case journal.FreeRequested:
			if !live[e.Addr] {
				return false
			}
			delete(live, e.Addr)
		}
	}
	return int64(len(live)) == h.live
}

// serves runs the program under c and reports whether nothing fails, the last request included.
func (h *rehearsal) serves(c Config) bool {
	s, err := h.play(c)
	return s != nil && err == nil
}

// play runs the program under c. It returns the error of the last request, and no stage if the program does not come so far, or if it is not known
// whether it does.
func (h *rehearsal) play(c Config) (*stage, error) {
	dev := newLedgerDevice(h.device.id, h.device.capacity, h.device.total, h.device.granularity)
	c.ReleaseLockOnMalloc = false
	a, err := New(dev, c)
	if err != nil {
		return nil, err
	}
	a.limit.Store(h.limit)
	s := &stage{deeds: h.deeds, alone: h.alone, a: a, dev: dev, streams: map[device.StreamID]device.Stream{}, blocks: map[device.Ptr]Block{}, pending: map[device.Ptr]*ledgerStream{}}
	for i := range h.entries {
		if !s.do(i) || !s.play(h.entries, i) {
			return nil, nil
		}
	}
	if !s.do(len(h.entries)) {
		return nil, nil
	}
	_, err = s.a.Alloc(h.bytes, s.stream(h.stream))
	return s, err
}

// stage is a rehearsal that goes on.
type stage struct {
	deeds   []deed          // to come
	alone   bool            // no other stream uses the blocks
	waits   int             // until this entry somebody waits for the work of other streams
	owed    []*ledgerStream // what the program has waited for since its last request
	a       *Caching
	dev     *ledgerDevice
	streams map[device.StreamID]device.Stream
	blocks  map[device.Ptr]Block         // in use, by their address in the history
	pending map[device.Ptr]*ledgerStream // for freed blocks that other streams use: one whose work is done when theirs was
	users   device.StreamID              // how many of these streams there were
}

// play does again what entry i tells of the program. What it tells of the allocator is not looked at: that decides by itself.
func (s *stage) play(entries []journal.Entry, i int) bool {
	e := &entries[i]
	switch e.Action {
	case journal.Alloc:
		b, err := s.a.Alloc(e.Size, s.stream(e.Stream))
		if err != nil {
			return false
		}
		s.blocks[e.Addr] = b
		return s.settled()
	case journal.FreeRequested:
		atOnce := i+1 < len(entries) && i+1 >= s.waits && entries[i+1].Action == journal.FreeCompleted && entries[i+1].Addr == e.Addr
		return s.free(e.Addr, s.alone || atOnce && !s.waitsAt(i+1))
	case journal.FreeCompleted:
		s.completed(e.Addr, i < s.waits)
	}
	return true
}

// completed ends what a freed block waits for. If the host has waited for it, it was not over until then, and in the rehearsal it is not either
// until somebody waits.
func (s *stage) completed(p device.Ptr, waited bool) {
	u := s.pending[p]
	delete(s.pending, p)
	if u != nil && waited {
		s.owed = append(s.owed, u)
	} else if u != nil {
		u.done = true
	}
}

// settled reports whether all that the program waited for, up to a request that was served, was waited for in the rehearsal too. If not, nobody
// knows when it would have been over.
func (s *stage) settled() bool {
	for _, u := range s.owed {
		if !u.done {
			return false
		}
	}
	s.owed = s.owed[:0]
	return true
}

// do does the deeds that come before entry i.
func (s *stage) do(i int) bool {
	for ; len(s.deeds) > 0 && s.deeds[0].after <= i; s.deeds = s.deeds[1:] {
		switch d := s.deeds[0]; d.kind {
		case deedEmptyCache:
			if s.a.EmptyCache() != nil {
				return false
			}
		case deedLimit:
			s.a.limit.Store(d.limit)
		case deedWait:
			s.waits = d.until
		}
	}
	return true
}

// waitsAt reports whether a wait begins right before entry i.
func (s *stage) waitsAt(i int) bool {
	for _, d := range s.deeds {
		if d.after > i {
			break
		}
		if d.kind == deedWait {
			return true
		}
	}
	return false
}

// free frees a block. Unless its memory was free at once, it waits for a stream of its own, which ends where the history says so.
func (s *stage) free(p device.Ptr, atOnce bool) bool {
	b := s.blocks[p]
	delete(s.blocks, p)
	if !atOnce {
		s.users++
		u := &ledgerStream{dev: s.dev, id: 1<<30 + s.users}
		s.pending[p] = u
		if s.a.RecordStream(b, u) != nil {
			return false
		}
	}
	return s.a.Free(b) == nil
}

func (s *stage) stream(id device.StreamID) device.Stream {
	if s.streams[id] == nil {
		s.streams[id] = &ledgerStream{dev: s.dev, id: id, done: true}
	}
	return s.streams[id]
}

// rehearsal copies what is needed to run the program again up to r, which has failed with e, or returns nil if the history does not have
// it. Caller holds a.mu and no shard.
func (a *Caching) rehearsal(e *OOMError, r *request) *rehearsal {
	rec := a.history.Load()
	if rec == nil || a.deeds.spoiled.Load() {
		return nil
	}
	w := rec.Prepare(len(*a.shards.Load()) + 1)
	shards := a.lockShards()
	defer unlockShards(shards)
	logs := []*journal.Logbook{&a.log}
	h := &rehearsal{config: a.config, limit: a.deeds.limit, deeds: slices.Clone(a.deeds.list), held: e.Reserved, bytes: r.bytes, stream: r.shard.id()}
	for _, sh := range shards {
		logs = append(logs, &sh.log)
		for k := range poolKinds {
			h.live += sh.tally.pool[k].current[hotAllocation]
		}
	}
	rec.Copy(&w, logs)
	if w.Dropped() > 0 || w.Len() > maxRehearsed {
		return nil
	}
	h.entries = slices.Collect(w.Entries(nil))
	h.device = ledgerDevice{id: a.id, capacity: e.Reserved + e.DeviceFree, total: e.DeviceTotal}
	if d, ok := a.driver.(VirtualDriver); ok {
		h.device.granularity = d.Granularity()
	}
	return h
}
