package memory

import "slices"

// steps is what a plan knows of one stream: how the step goes on that is under way, and how those before went. Guarded by the
// shard's lock.
type steps struct {
	sh    *shard
	epoch uint32 // the number of the step

	now, last stepRecord     // of this step and of the one before, some blocks of which are freed in this one
	programs  []*stepProgram // that were learned, the last one used first
	aside     []*stepProgram // that were forgotten when the last step ended
	program   *stepProgram   // that this step follows; nil if none
	next      int            // the slot that the next request should be for
	left      []*block       // planned blocks that were there when the step began, or when it took another program; by address
	arena     arena
	lent      []*block // free blocks of segments, and of stitches, of which the plan hands out pieces
	stitches  []*stitch
	fresh     bool     // the step has begun, and seen no request
	firstSize uint64   // with which work begins; smaller ones are of what comes before, such as the batch
	firstSum  uint64   // or with which it begins when so many bytes of the step are in use
	beside    uint64   // bytes that were reserved beside the arena when it began
	asked     uint64   // bytes that are in use, or were, until it has begun
	failed    error    // of the driver, when it began
	seen      []uint64 // hashes of steps, the newest last

	seized        bool // the step had memory that others have places in, as it has none
	tried         bool // something was placed in this step
	futile, pause int  // steps in a row in which that was of no use, and for how many steps more nothing is placed

	strays         int            // times that the plan gave everything up
	adopted        patience       // with requests that would have failed for the plan's sake, see adopt
	repins, others patience       // with blocks that stay where others should be, see pins.go, and with models that take turns, see another
	kept           uint64         // the most that stayed, in bytes
	heldLately     [stayed]uint64 // what was in use from before the last steps, in bytes
	learned        int            // programs, in this step

	clean, settled int // steps in a row that went by the plan, and how many must have until what is cached is given back; see settle

	stopped  bool        // no step has begun yet, or the plan is closed; then blocks of it may be in use
	renewed  renewals    // what this step has given back of those before the last
	firsts   firstBlocks // in use
	arranged uint64      // how often slots were made or forgotten: who releases the lock finds others then

	served, outside, missed, refused, unknown int    // requests of this step
	skipped                                   int    // requests of the program that were left out in this step
	answer                                    answer // to the last one that was looked at by serve
	counts                                    PlanStats
}

// newSteps records nothing until a step begins.
func newSteps(sh *shard) *steps {
	return &steps{sh: sh, epoch: 1, stopped: true, renewed: renewals{}, firsts: firstBlocks{}}
}

// mostRequests is how many requests of a step are recorded. A step with more is not learned: its end may have been forgotten.
const mostRequests = 1 << 20

// stepRecord is a step as it went: its requests, in order.
type stepRecord struct {
	entries []entry
	open    []int32      // those whose blocks were in use when it ended, of a program's
	program *stepProgram // that has these requests, once it is over
}

// entry is one request. Time is counted in requests: end is how many the step had seen when the block was free again, counted on in
// the step after it; 0 while the block is in use.
type entry struct {
	size    uint64
	end     int32
	renewed bool // it comes in place of an older block, see renewals
	second  bool // it comes beside an older block, see firstBlocks
}

// note records a block that is handed out for a request of a size.
func (st *steps) note(b *block, size uint64) {
	if st.stopped || len(st.now.entries) == mostRequests {
		return
	}
	n := len(st.now.entries)
	st.now.entries = append(st.now.entries, entry{size: size, renewed: st.renewed.has(n, size), second: st.firsts.has(n, size)})
	b.entry, b.step = int32(n+1), st.epoch
}

// noteNext is note for what serveNext serves: a step of a program is not too long to be recorded, and nothing came in place of an older block.
func (st *steps) noteNext(b *block, size uint64) {
	if st.stopped { // of a capture
		return
	}
	n := len(st.now.entries)
	if n == cap(st.now.entries) {
		st.now.entries = slices.Grow(st.now.entries, 1)
	}
	st.now.entries = st.now.entries[:n+1]
	st.now.entries[n] = entry{size: size}
	b.entry, b.step = int32(n+1), st.epoch
}

// ended records that a block of this step is free again: no stream uses it any more.
func (st *steps) ended(b *block) {
	st.now.entries[b.entry-1].end = int32(len(st.now.entries))
	b.entry = 0
}

// endedLate is ended for a block of an earlier step.
func (st *steps) endedLate(b *block) {
	i, at := int(b.entry)-1, int32(len(st.now.entries))
	b.entry = 0
	st.firsts.freed(i, b.step)
	if st.epoch-b.step != 1 {
		if i >= int(at) {
			st.renewed[i] = b.size
		}
	} else if i < len(st.last.entries) {
		st.last.entries[i].end = int32(len(st.last.entries)) + at
	}
}

// trust is how many requests must have been as expected for each that was not.
const trust = 8

// lookahead is how many requests a step may leave out and still be followed.
const lookahead = 8

// serve finds the slot for a request of a size, nil if the request is the caching allocator's: it was not expected, its block
// outlives the step, or there is somebody where it should go. The plan is a proposal; what is free is looked at here.
func (st *steps) serve(size uint64) *slot {
	p := st.program
	if p == nil || p.slots == nil {
		return st.decline(&st.unknown)
	}
	// A step that begins in another way is another program's, whatever it has in common with this one.
	if st.strayed() {
		return st.decline(&st.missed)
	}
	i := st.next
	if i >= len(p.slots) || p.slots[i].size != size || p.once(i) {
		if i = st.find(size); i < 0 {
			return st.decline(&st.missed)
		}
		p = st.program
		for k := st.next; k < i; k++ {
			if !p.once(k) {
				st.skipped++
			}
		}
	}
	st.next = i + 1
	s := &p.slots[i]
	if s.b == nil || st.renewed.has(i, size) {
		st.answer.outlives, st.answer.until = true, 0
		if x := &p.seconds[i]; x.goes() && st.firsts.has(i, size) {
			st.answer.outlives, st.answer.until = false, x.end
		}
		return st.decline(&st.outside)
	}
	if !st.vacant(p, s) {
		st.answer.until = p.until[i]
		return st.decline(&st.refused)
	}
	return s
}

// strayed reports whether the present step goes another way than its program, by requests that were not expected or by as many that were left out as made: nothing is served from then on. What
// is left out once, at the beginning, is no other way.
func (st *steps) strayed() bool { return st.missed*trust > st.next || 2*st.skipped > st.next+lookahead }

// nearlyFollows reports whether the present step goes by its program, but for very few requests of all that it has, or has not begun to work, when that is not known.
func (st *steps) nearlyFollows() bool {
	return st.fresh || (st.missed+st.refused)*trust*trust <= max(st.next, len(st.program.slots))
}

// partlyFollows reports whether it goes by its program, but not nearly.
func (st *steps) partlyFollows() bool { return !st.nearlyFollows() && !st.strayed() }

// goesBy asks something of the step of a shard, if it has a program. Caller holds a.mu and no shard.
func (sh *shard) goesBy(what func(*steps) bool) bool {
	if sh.steps == nil {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.steps.program != nil && what(sh.steps)
}

// serveNext serves a request that is the next one of a step that has gone by its program so far, with nothing in the way: what serve does for nearly all requests, at once.
// It returns nil if there is anything to think about.
func (st *steps) serveNext(size uint64) *slot {
	p, i := st.program, st.next
	if p == nil || uint(i) >= uint(len(p.slots)) || st.unusual() {
		return nil
	}
	s := &p.slots[i]
	if s.size != size || s.b == nil || s.turn.taken() || s.end > st.arena.memory.head && !st.arena.holds(s) || s.home != nil && s.home.state != stateLent {
		return nil
	}
	was, turns := over(st.epoch), p.turns
	for _, j := range s.before {
		if turns[j] != was {
			return nil
		}
	}
	st.next = i + 1
	st.served++
	*s.turn = takenIn(st.epoch)
	s.b.state = stateAllocated
	return s
}

// unusual reports whether a request is to be looked at by serve, whatever it is for.
func (st *steps) unusual() bool {
	return st.fresh || st.missed != 0 || len(st.left) != 0 || len(st.renewed) != 0
}

// find looks for a request that is not the next one: in another program that began like this step, or a little later in this program.
// It returns the index of the slot, or -1.
func (st *steps) find(size uint64) int {
	if st.missed == 0 && st.next == len(st.now.entries) {
		if k := st.match(size, st.program); k >= 0 {
			st.follow(k)
			return st.next
		}
	}
	p, from := st.program, st.next
	for from < len(p.slots) && p.once(from) {
		from++
	}
	for i := from; i < len(p.slots) && i < from+lookahead; i++ {
		if p.slots[i].size == size {
			return i
		}
	}
	for i := st.next; i < from && i < st.next+lookahead; i++ {
		if p.slots[i].size == size {
			return i
		}
	}
	return -1
}

// match finds the program, of those that begin like this step and go on with a request of a size, that was followed last. It returns its index,
// or -1.
func (st *steps) match(size uint64, but *stepProgram) int {
	found := -1
	for k, p := range st.programs {
		if p != but && p.slots != nil && p.begins(st.now.entries, size) && (found < 0 || p.used > st.programs[found].used) {
			found = k
		}
	}
	return found
}

// follow takes the program with an index in place of the present one, in the middle of a step. What is in use by now is looked at for
// each request to come.
func (st *steps) follow(k int) {
	st.leave()
	st.use(k)
	for i := range st.program.turns[:st.next] {
		st.program.turns[i] = over(st.epoch) | st.program.turns[i]&1 // whatever lies there is in left
	}
}

// use makes a program the present one, and the first of the list.
func (st *steps) use(k int) {
	p := st.programs[k]
	copy(st.programs[1:k+1], st.programs[:k])
	st.programs[0], st.program = p, p
}

// leave puts the blocks of the present program that are in use on the list of those that are looked at for each request.
func (st *steps) leave() {
	if st.program == nil {
		return
	}
	for i, t := range st.program.turns {
		if !t.taken() { // nearly all
			continue
		}
		if s := &st.program.slots[i]; !s.left {
			s.left = true
			st.left = append(st.left, s.b)
		}
	}
	slices.SortFunc(st.left, compareAddress)
}

// most slots that vacant looks at for one request, where requests were left out.
const mostVisited = 64

// mostScanned is how many slots a program may have for which all are looked at where those were not enough: that may be so for each request of a step.
const mostScanned = 4096

// vacant reports whether nobody has any part of a slot. It is enough to look at those that had its bytes last in this step: when they were
// handed out, nobody else had them. Where one of them was not handed out in this step, those before it count.
func (st *steps) vacant(p *stepProgram, s *slot) bool {
	if s.turn.taken() || s.home != nil && s.home.state != stateLent || len(st.left) != 0 && st.leftIn(s.b) {
		return false
	}
	visits := mostVisited
	return st.passed(p, s, &visits) || visits < 0 && len(p.turns) <= mostScanned && !p.occupied(s)
}

// occupied reports whether a block of the program is in use where a slot is, by looking at all.
func (p *stepProgram) occupied(s *slot) bool {
	for i, t := range p.turns {
		if t.taken() {
			if b := p.slots[i].b; b.ptr < s.b.ptr.Add(s.size) && s.b.ptr < b.ptr.Add(b.size) {
				return true
			}
		}
	}
	return false
}

func (st *steps) passed(p *stepProgram, s *slot, visits *int) bool {
	for _, j := range s.before {
		t := p.turns[j]
		if *visits--; *visits < 0 || t.taken() {
			return false
		}
		if t != over(st.epoch) && !st.passed(p, &p.slots[j], visits) {
			return false
		}
	}
	return true
}

// leftIn reports whether a block of before the step overlaps b.
func (st *steps) leftIn(b *block) bool {
	i, found := slices.BinarySearchFunc(st.left, b, compareAddress)
	return found || i > 0 && st.left[i-1].ptr.Add(st.left[i-1].size) > b.ptr || i < len(st.left) && b.ptr.Add(b.size) > st.left[i].ptr
}

// vacate takes a planned block back that nobody uses any more.
func (st *steps) vacate(b *block) {
	b.state = stateVacant
	b.slot.turn.free()
	if b.slot.left {
		b.slot.left = false
		if i, found := slices.BinarySearchFunc(st.left, b, compareAddress); found {
			st.left = slices.Delete(st.left, i, i+1)
		}
	}
}

// live lists the planned blocks in use or pending, by address.
func (st *steps) live() []*block {
	if st == nil {
		return nil
	}
	list := slices.Clone(st.left)
	if st.program != nil {
		for i, t := range st.program.turns {
			if s := &st.program.slots[i]; t.taken() && !s.left {
				list = append(list, s.b)
			}
		}
	}
	slices.SortFunc(list, compareAddress)
	return list
}

// liveUntil is live, and the places that the step needs before it has had so many requests.
func (st *steps) liveUntil(requests int32) []*block {
	list := st.live()
	if st.program == nil || requests == 0 {
		return list
	}
	p := st.program
	for i := st.next; i < min(int(requests), len(p.slots)); i++ {
		if s := &p.slots[i]; s.b != nil && !s.turn.taken() {
			list = append(list, s.b)
		}
	}
	slices.SortFunc(list, compareAddress)
	return list
}
