package memory

import (
	"cmp"
	"slices"
)

// What a step was is looked at when it is over: it is one that is known, or a new program, and what it has taught of lifetimes is merged.

// end finishes the recording of a step: what it taught goes into the programs. It reports whether the steps have gone by the plan for so long that
// what is cached beside it can go. Caller holds the shard.
func (st *steps) end() (settled bool) {
	if st.last.program != nil {
		st.last.program.mergeLate(&st.last)
		st.firsts.keep(&st.last, st.last.program, st.epoch-1)
	}
	st.leave()
	if st.served != 0 && st.program != nil {
		st.program.served = st.epoch
	}
	st.recognise()
	if st.now.program != nil {
		st.firsts.keep(&st.now, st.now.program, st.epoch)
	}
	st.takeStock(st.served <= st.missed+st.unknown+st.refused)
	settled = st.settle()
	st.insist()
	st.counts.Served += uint64(st.served)
	st.counts.Outside += uint64(st.outside)
	st.counts.Missed += uint64(st.missed)
	st.counts.Refused += uint64(st.refused)
	st.counts.Unknown += uint64(st.unknown)
	st.served, st.outside, st.missed, st.refused, st.unknown, st.skipped = 0, 0, 0, 0, 0, 0
	st.last, st.now = st.now, stepRecord{entries: st.last.entries[:0], open: st.last.open}
	st.epoch++
	st.fresh, st.next, st.asked = true, 0, 0
	st.expect()
	clear(st.renewed)
	return settled
}

// insist has a program placed in the arena alone that has no places, and takes the memory again and again that others have theirs in: after the fourth time, the eighth, and so on.
func (st *steps) insist() {
	if p := st.now.program; st.seized && p != nil && p.slots == nil && p.placed == nil {
		p.seizes++
		p.insists = p.seizes >= freeTries && p.seizes&(p.seizes-1) == 0
	}
	st.seized = false
}

// expect says with which request the step to come begins to work, which is when placements are put in force.
func (st *steps) expect() {
	st.firstSize, st.firstSum = 0, 0
	for _, p := range st.unplaced(unlimited) {
		st.firstSize, st.firstSum = max(st.firstSize, p.begin()), max(st.firstSum, p.alive()/firstParts)
	}
}

// works reports whether a step begins to work with a request of a size.
func (st *steps) works(size uint64) bool {
	if st.asked += size; size < st.firstSize && st.asked >= st.firstSum {
		st.asked = st.own() + size
	}
	return size >= st.firstSize || st.asked >= st.firstSum
}

// begin is how large the request is with which the work of a step begins: a part of all that it needs, if there is such a one among the first.
func (p *stepProgram) begin() uint64 {
	return min(p.alive()/firstPart, slices.Max(p.sizes[:min(len(p.sizes), firstPart/4)]))
}

// stayed is for how many steps in a row a block is taken for one of those that stay from step to step: others are kept for a step or some now and then.
const stayed = 8

// another reports whether the step that is over is of another model: much of what stayed from step to step is gone, and what is to come in its place was never
// planned. Evaluations, say, whose caches come and go, are told from that by how often it is so. Caller holds the shard, and calls it after end.
func (st *steps) another() bool {
	held := st.held()
	st.heldLately[st.epoch%stayed] = held
	st.kept = max(st.kept, slices.Min(st.heldLately[:]))
	if st.others.waits() || held >= st.kept/4*3 {
		return false
	}
	st.kept = held
	return len(st.programs) != 0 && st.others.again(true)
}

// held is how much is in use that was there before the step that is over.
func (st *steps) held() uint64 {
	bytes := uint64(0)
	for k := range poolKinds {
		bytes += uint64(st.sh.tally.pool[k].current[hotAllocatedBytes])
	}
	entries := st.last.entries
	for i := range entries {
		if e := &entries[i]; e.end == 0 {
			bytes -= min(bytes, e.size)
		}
	}
	return bytes
}

// forget drops all programs, until it is known what the next step is. Caller holds the shard, and has taken back what is borrowed.
func (st *steps) forget() {
	st.leave()
	st.forgetPlaces()
	st.aside, st.programs, st.seen, st.last.program = st.programs, nil, nil, nil
	st.expect()
}

// sameModel is how many steps ago a program was followed that goes on; one that makes another model was there longer ago.
const sameModel = 8

// remember takes the programs back that were forgotten, if a step that comes after that is as one of the last few: so it is the same model, of which less stays now and then. A
// training that adds up gradients, say, gives them back every few steps.
func (st *steps) remember(r *stepRecord) {
	if slices.ContainsFunc(st.aside, func(p *stepProgram) bool { return st.epoch-p.used <= sameModel && p.has(r) }) {
		st.programs = st.aside
		st.others.mistaken()
	}
	st.aside = nil
}

// patience is for what a plan does about a program that does not keep to it: twice as many steps must pass after each time until it is done again.
type patience struct{ steps, pause, mistakes int }

// waits counts a step, and reports whether nothing is to be done in it.
func (p *patience) waits() bool {
	p.pause--
	return p.pause >= 0
}

// again begins a longer pause if something is to be done, which it reports.
func (p *patience) again(now bool) bool {
	if now {
		if p.pause < -longAgo {
			p.steps = 0
		}
		p.steps = min(max(1, 2*p.steps), mostPause)
		p.pause = p.steps
	}
	return now
}

// mistaken makes the next pause longer, beyond the usual, as nothing was to be done the last time.
func (p *patience) mistaken() {
	p.mistakes++
	p.pause = min(firstMistake<<min(p.mistakes, 10), lastSettled)
}

// firstMistake is half of the pause after the first of them.
const firstMistake = 16

// longAgo is how many steps after the last time a program is patient as at first.
const longAgo = 256

// recognise finds the program of the step that is over, or learns it.
func (st *steps) recognise() {
	r := &st.now
	if len(r.entries) == 0 || len(r.entries) == mostRequests {
		return
	}
	st.remember(r)
	for k, p := range st.programs { // the last one used first, which most steps are
		if p.has(r) {
			st.proves(p)
			p.away = max(p.away, st.epoch-p.used)
			r.program, p.used = p, st.epoch
			p.merge(r)
			st.use(k)
			return
		}
	}
	hash := hashSizes(r.entries)
	// A program whose steps are all different is not planned again and again.
	again := false
	for _, h := range st.seen {
		again = again || h == hash
	}
	if len(st.seen) == mostSeen {
		st.seen = append(st.seen[:0], st.seen[1:]...)
	}
	st.seen = append(st.seen, hash)
	if !again && st.unproven() >= mostNew {
		return
	}
	p := learn(r)
	st.settled = 0
	st.learned++
	r.program, p.used = p, st.epoch
	p.merge(r)
	if len(st.programs) == mostKnown {
		st.programs[mostKnown-1].heeds = nil // or each would keep those before it
		st.programs = st.programs[:mostKnown-1]
	}
	st.programs = append(st.programs, p)
	st.use(len(st.programs) - 1)
}

// unproven is how many programs were never seen again.
func (st *steps) unproven() (n int) {
	for _, p := range st.programs {
		if !p.proven {
			n++
		}
	}
	return n
}

// longestAway is for how many steps at most the arena is kept for a program.
const longestAway = 1024

// expects reports whether a program is taken to come back, and the arena kept for it: it was there lately, or not twice as long ago as it has stayed away before. One that came once is expected in the next
// step.
// So one that comes every so many steps finds its memory there, and one that comes no more has none after as many again.
func (st *steps) expects(p *stepProgram) bool {
	if !p.proven {
		return st.epoch-p.used <= 1
	}
	return st.epoch-p.used <= max(recentSteps, min(2*p.away, longestAway))
}

// enough is how large the arena must be for the programs that are expected.
func (st *steps) enough() (size uint64) {
	for _, p := range st.programs {
		if st.expects(p) || st.epoch-p.served <= 1 {
			size = max(size, p.size)
		}
	}
	return size
}

// roomBeside is how large the arena is for the programs that are expected and have places, but for p.
func (st *steps) roomBeside(p *stepProgram) (size uint64) {
	for _, q := range st.programs {
		if q != p && q.slots != nil && st.expects(q) {
			size = max(size, q.size)
		}
	}
	return size
}

// aliveInTurn is how much p, or one of the programs that are expected and have places, has alive at once, in bytes: what they share is kept for the one that needs most.
func (st *steps) aliveInTurn(p *stepProgram) uint64 {
	bytes := p.alive()
	for _, q := range st.programs {
		if q.slots != nil && st.expects(q) {
			bytes = max(bytes, q.alive())
		}
	}
	return bytes
}

// unplaced lists the programs that wait for a placement, that of the last step first.
func (st *steps) unplaced(reserved uint64) (list []*stepProgram) {
	for _, p := range st.programs {
		if !p.proven && p.used+1 != st.epoch { // it came once, and is not expected again
			continue
		}
		if st.epoch-p.lostIn < p.waitsFor {
			continue
		}
		if p.dirty || p.placed != nil || p.insists && p.slots == nil || p.slots == nil && p.needs <= reserved || p.stale && len(st.pins()) < p.around {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(x, y *stepProgram) int { return cmp.Compare(y.used, x.used) })
	return list
}

// After futile steps in a row, whose placements did not serve, nothing is placed for a while.
const (
	freeTries = 4
	mostPause = 64 // steps
)

// takeStock makes a plan that computes placements which the steps do not follow wait longer each time: it costs time, and borrows memory.
func (st *steps) takeStock(idle bool) {
	switch {
	case !idle:
		st.futile, st.pause = 0, 0
	case st.tried:
		st.futile++
		if st.futile > freeTries {
			st.pause = min(1<<min(st.futile-freeTries, 10), mostPause)
		}
	case st.pause > 0:
		st.pause--
	}
	st.tried = false
}

// How many steps in a row must have gone by the plan until what is cached beside it is given back: twice as many each time, as the program may need it
// again; and as at first when it does something new.
const (
	firstSettled = 2
	lastSettled  = 1024
)

func (st *steps) settle() bool {
	if st.served == 0 || st.missed+st.refused+st.unknown != 0 {
		st.clean = 0
		return false
	}
	if st.clean++; st.clean < max(st.settled, firstSettled) {
		return false
	}
	st.clean, st.settled = 0, min(2*max(st.settled, firstSettled), lastSettled)
	return true
}

// returnCached gives free memory back that a stream has beside its plan, if it is more than a little: it is left from a step that went another way.
// Caller holds a.mu and no shard.
func (a *Caching) returnCached(sh *shard) error {
	sh.mu.Lock()
	cached := sh.pools[smallPool].bytes + sh.pools[largePool].bytes
	sh.mu.Unlock()
	if cached < uint64(a.dev.ReservedBytes.All.Current)/50 {
		return nil
	}
	return a.returnFree(sh, 0)
}
