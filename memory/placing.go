package memory

import (
	"context"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/memory/plan"
)

// Placements are computed when a step begins to work, and put in force if they take no more memory than the program has without them.

// begin puts in force what was learned, at the first request of a step that is not very small: by then the program has given back what
// it keeps from one step to the next, such as gradients, which it may do after it has made a batch. No lock is held.
func (a *Caching) begin(sh *shard, size uint64) error {
	site := a.allocSite()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plan == nil || a.closed.Load() || a.inCapture() {
		return nil
	}
	a.behalf = site
	st := sh.steps
	sh.mu.Lock()
	st.outlived(func() map[uint64]int { return a.inUseBefore(sh) })
	sh.mu.Unlock()
	before, held, page := a.without()+leastOver, a.allocatedBytes(), a.arenaPage(sh)
	sh.mu.Lock()
	own, grown := st.own(), uint64(a.dev.ReservedBytes.All.Current)-st.arena.memory.bytes > st.beside
	var todo []*stepProgram
	if !st.adopted.waits() && st.pause == 0 && a.plan.unrest.stand == serving {
		todo = slices.DeleteFunc(st.unplaced(before), (*stepProgram).rests)
	}
	so := slices.Clone(st.now.entries)
	sh.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), a.plan.wait)
	defer cancel()
	placed := false
	for _, p := range todo {
		if p.placed == nil && !p.begins(so, size) { // what is not going to be followed needs no place
			continue
		}
		sh.mu.Lock()
		alive := st.aliveInTurn(p)
		sh.mu.Unlock()
		most := max(before, p.had, mayNeed(held, alive, page))
		if own >= page || own != 0 && grown { // in pages of its own, which go back when the step is over
			most = max(most, mayNeed(held-min(held, own), alive, page)+roundUp(own, page))
		}
		if p.insists && p.placed == nil {
			most = max(most, uint64(insistBound*float64(held+alive))+page, p.had+page)
			p.insists, p.alone = false, true
			if err := a.takeBackNow(sh); err != nil {
				return err
			}
		}
		fits, err := a.placeWithin(ctx, sh, p, most)
		// It was to do with what is borrowed for other programs: without them, once more, and then in the arena alone. Where a placement took longer than the step before waited,
		// that goes on here.
		drops := !fits && err == nil && !placed && sh.steps.mayTakeBack(p)
		for drops && !fits && err == nil && p.attempt < lastAttempt && !p.rests() {
			if err = a.takeBackNow(sh); err == nil {
				p.attempt++
				p.alone = p.attempt == lastAttempt
				fits, err = a.placeWithin(ctx, sh, p, most)
			}
		}
		if p.placed == nil && !p.rests() {
			p.attempt = 0
		}
		if !fits && err == nil && drops {
			err = a.takeBackNow(sh)
		}
		if err != nil {
			return err
		}
		placed = placed || fits
	}
	if len(todo) != 0 {
		if err := a.returnUnused(sh); err != nil {
			return err
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := st.match(size, nil); k >= 0 {
		st.counts.Missed += uint64(st.missed) // this program has had them
		st.next, st.missed, st.skipped = len(st.now.entries), 0, 0
		st.follow(k)
	}
	return nil
}

// restShare is how much of the time, at most, goes into placements that take longer than a step waits and come to nothing: one part of so many.
const restShare = 10

// rests reports whether so little time has passed since such a placement that there is to be no other one.
func (p *stepProgram) rests() bool { return p.placed == nil && time.Now().Before(p.again) }

// inVain notes that a placement has come to nothing. If it was late, what comes after the rest is the next attempt.
func (p *stepProgram) inVain(pl *placement) {
	if pl.late {
		p.again = time.Now().Add((restShare - 1) * pl.took)
		p.attempt = (p.attempt + 1) % (lastAttempt + 1)
		p.alone = p.attempt == lastAttempt
	}
}

// placeWithin computes where the blocks of p go and puts it in force, unless ctx ends before, or an arena cannot be had. Only the first step waits for it. It reports false if it would
// take more than most bytes. Caller holds a.mu and no shard.
func (a *Caching) placeWithin(ctx context.Context, sh *shard, p *stepProgram, most uint64) (bool, error) {
	if p.placed == nil {
		if err := a.place(sh, p); err != nil {
			return false, err
		}
	}
	if !p.placed.ready(ctx) {
		return true, nil
	}
	// Where the placement took longer than the step waited, what went back for it is cached again by now.
	p.needs = a.needs(sh, p)
	others := a.unusedElsewhere(sh)
	p.needs -= min(p.needs, others)
	if p.needs > most && p.needs-min(p.needs, a.returnable(sh)) <= most {
		if err := a.returnFree(sh, 0); err != nil {
			return false, err
		}
		p.needs = a.needs(sh, p)
		p.needs -= min(p.needs, others)
	}
	if p.needs > most {
		p.stale, p.around = p.slots != nil, len(p.placed.pins)
		p.inVain(p.placed)
		p.placed = nil
		return false, nil
	}
	return true, a.install(sh, p)
}

// ready reports whether a placement is done, for which the first step that asks waits until ctx ends.
func (pl *placement) ready(ctx context.Context) bool {
	select {
	case <-pl.done:
		return true
	default:
	}
	if pl.late {
		return false
	}
	select {
	case <-pl.done:
		return true
	case <-ctx.Done():
		pl.late = true
		return false
	}
}

// lastAttempt is the number of that which borrows nothing.
const lastAttempt = 2

// mayTakeBack reports whether what is borrowed may be taken back for p, although other programs lose their places then: if they need less, and are placed anew beside p, or were followed
// before it and have not lost their places before. Or programs in turn would lose them in turn. Caller holds a.mu and no shard.
func (st *steps) mayTakeBack(p *stepProgram) bool {
	st.sh.mu.Lock()
	defer st.sh.mu.Unlock()
	return !slices.ContainsFunc(st.programs, func(q *stepProgram) bool {
		switch {
		case q == p || q.slots == nil || q.alive() < p.alive():
			return false
		case st.expects(q) && q.lost >= mostLost:
			return true
		}
		return st.epoch-q.used < st.epoch-p.used
	})
}

// mostLost is how often a program loses its places for one that needs less, while both are in turn.
const mostLost = 2

// takeBackNow is takeBack. Caller holds a.mu and no shard.
func (a *Caching) takeBackNow(sh *shard) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return a.takeBack(sh)
}

// place begins to compute where the blocks of p go. Caller holds a.mu and no shard.
func (a *Caching) place(sh *shard, p *stepProgram) error {
	var homes []home
	var page uint64
	lend := !p.alone
	p.alone = false
	if lend {
		if err := a.lend(sh); err != nil {
			return err
		}
	}
	sh.mu.Lock()
	if lend {
		homes, page = a.homes(sh)
	}
	pl := &placement{like: sh.steps.agree(p, homes), shared: sh.steps.heed(p), until: sh.steps.until(p), pins: sh.steps.pins(), room: sh.steps.roomBeside(p), done: make(chan struct{})}
	sh.mu.Unlock()
	pl.low = a.othersStep(sh)
	q, index := p.problemWith(pl.until)
	p.placed, p.dirty = pl, false
	sh.steps.counts.Placed++
	sh.steps.tried = true
	improve := min(a.plan.wait/2, mostImprove)
	if len(index) > inTime { // no step waits for it so long
		improve = lateImprove
	}
	go a.plan.compute(p.placed, q, index, homes, page, improve)
	return nil
}

// othersStep reports whether other streams have steps that are known, too. Caller holds a.mu and no shard.
func (a *Caching) othersStep(but *shard) (some bool) {
	for _, sh := range *a.shards.Load() {
		if sh == but || sh.steps == nil {
			continue
		}
		sh.mu.Lock()
		some = some || len(sh.steps.programs) != 0
		sh.mu.Unlock()
	}
	return some
}

// mostImprove is how long a placement is improved that a step waits for, if PlanWait gives it twice as much.
const mostImprove = 100 * time.Millisecond

// inTime is how many buffers are placed, and their placement improved, while a step waits; with more of them, improving takes the time it needs.
const (
	inTime      = 16_384
	lateImprove = 500 * time.Millisecond
)

// planBound is how much more a plan may take than what is in use when a step begins and what the step has alive at once: without the plan it
// would hardly be less.
const planBound = 1.02

// insistBound is that bound for a program without which others would lose their places again and again.
const insistBound = 1.05

// leastOver is how many bytes more are no matter, and above planBound a page as well: what borrowed blocks and the ends of an arena have of pages, in a small program.
const leastOver = 64 * kib

// mayNeed is that bound for a program that has so many bytes alive at once, beside what is held.
func mayNeed(held, alive, page uint64) uint64 {
	bytes := held + alive
	return max(uint64(float64(bytes)*planBound), bytes+max(page, leastOver))
}

// own is how many bytes of blocks are in use that the present step has asked for before it has begun to work. In the steps to come they have places.
func (st *steps) own() (bytes uint64) {
	for _, e := range st.now.entries {
		if e.end == 0 {
			bytes += e.size
		}
	}
	return bytes
}

// arenaPage is the size of the pages of a shard's arena: it grows and shrinks by them. Without virtual memory it is given as a whole.
func (a *Caching) arenaPage(sh *shard) uint64 {
	if d, ok := a.driver.(VirtualDriver); ok && d.Granularity() != 0 && !sh.hasSource() {
		return movingPage(d)
	}
	return largeRounding
}

// without is how much memory the program has, or has had in the step before, or may have by the bound of compaction, without a plan. Caller holds a.mu and no shard.
func (a *Caching) without() uint64 {
	bytes := max(uint64(a.dev.ReservedBytes.All.Current), a.plan.had)
	if p := a.policy.Load(); p.compaction != 0 && p.expandable {
		bytes = max(bytes, uint64(float64(a.allocatedPeak())*p.compaction))
	}
	return bytes
}

// shrinkArena gives back what no program needs that is expected. What a step does not use that has little use for its plan goes when it is needed:
// see reclaimArena. Caller holds a.mu and no shard.
func (a *Caching) shrinkArena(sh *shard) error {
	sh.mu.Lock()
	keep := sh.steps.enough()
	sh.mu.Unlock()
	_, err := a.trimArena(sh, keep, unlimited)
	return err
}

// needs is how much would be reserved with the placement of p in force beside those of other programs. Caller holds a.mu and no shard.
func (a *Caching) needs(sh *shard, p *stepProgram) uint64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st, pl := sh.steps, p.placed
	bytes := uint64(a.dev.ReservedBytes.All.Current) - st.arena.memory.bytes + roundUp(max(pl.Size, st.roomBeside(p)), a.arenaPage(sh))
	used := st.homesBeside(p)
	for _, l := range pl.homes {
		used[l.home] = true
	}
	for _, n := range pl.stitches {
		bytes += n.pages
	}
	for _, b := range st.lent {
		if !used[b] {
			bytes -= homeOf(b).pages
		}
	}
	return bytes
}

// unusedElsewhere is how much other streams have that is nobody's now, in their caches and arenas, and that makeRoom takes when an arena grows: programs in
// turn, each on a stream, need no more than the largest. Caller holds a.mu and no shard.
func (a *Caching) unusedElsewhere(sh *shard) (bytes uint64) {
	if p := a.policy.Load(); p.compaction == 0 || !p.expandable {
		return 0
	}
	for _, b := range a.donors(nil, sh) {
		if b.shard != sh {
			bytes += a.pagesOf(b)
		}
	}
	for _, o := range *a.shards.Load() {
		if o.steps == nil || o == sh {
			continue
		}
		o.mu.Lock()
		for _, r := range o.steps.unused(o.steps.live()) {
			bytes += r.size()
		}
		o.mu.Unlock()
	}
	return bytes
}

// pagesOf is how many bytes of whole pages a free block has; none if it is not free any more. Caller holds a.mu and no shard.
func (a *Caching) pagesOf(b *block) uint64 {
	b.shard.mu.Lock()
	defer b.shard.mu.Unlock()
	if b.state != stateCached {
		return 0
	}
	return homeOf(b).pages
}

// computePlacement finds places in borrowed blocks and in the arena.
func computePlacement(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration) {
	defer close(pl.done)
	defer func(began time.Time) { pl.took = time.Since(began) }(time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), placeBudget)
	defer cancel()
	lodged := func(like *agreement) *packing {
		k := &packing{ctx: ctx, q: q, improve: improve, pins: pl.pins}
		k.index, k.homes, k.stitches = lodge(ctx, &k.q, index, homes, page, improve/2, like)
		return k
	}
	if pl.like != nil {
		k := lodged(pl.like)
		if pl.places = k.pack(pl.like.offsets(k.index)); pl.err != nil || pl.like.fits(pl.Size, pl.Bound) {
			return
		}
		pl.clash = pl.like.with
	}
	k := pl.inTurn(ctx, q, index, improve)
	if k == nil {
		k = lodged(nil)
		pl.places = k.pack(nil)
	}
	switch {
	case pl.err != nil:
	case len(pl.shared) != 0:
		pl.places = k.packBelow(pl.shared, pl.places)
	case pl.low && len(pl.pins) == 0:
		k.lower(&pl.places)
	}
}

// inTurn finds places in what the arena has for programs in turn with this one. If it needs no more than that, nothing is borrowed for it; else the packing is nil.
func (pl *placement) inTurn(ctx context.Context, q plan.Problem, index []int, improve time.Duration) *packing {
	if q.Bound() > pl.room {
		return nil
	}
	k := &packing{ctx: ctx, q: q, improve: improve / 2, pins: pl.pins, places: places{index: index}}
	r := k.pack(nil)
	if r.err != nil || r.Size > pl.room {
		return nil
	}
	pl.places = r
	return k
}

// packing is the placement of what is left for the arena.
type packing struct {
	ctx     context.Context
	q       plan.Problem
	improve time.Duration
	pins    []pin
	places
}

// pack places buffers around those that are kept at offsets.
func (k *packing) pack(kept map[int]uint64) places {
	r := k.places
	q, kept := k.around(kept)
	r.Placement, r.err = plan.Place(k.ctx, q, plan.Budget(k.improve), plan.Target(goodPlace), plan.Keep(kept))
	return r
}

// install puts a placement in force, unless the arena cannot hold it now. Caller holds a.mu and no shard.
func (a *Caching) install(sh *shard, p *stepProgram) error {
	pl := p.placed
	p.placed = nil
	if pl.err != nil { // it took too long
		p.inVain(pl)
		return nil
	}
	ok, err := a.makeArena(sh, max(pl.Size, minBlock))
	if ok && err == nil && len(pl.stitches) != 0 {
		ok, err = a.makeStitches(sh, pl)
		p.dirty = !ok
	}
	if !ok || err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	if st.program == p {
		st.leave()
	}
	p.arrange(pl, sh, st.arena.seg)
	st.arranged++
	p.dirty, p.stale, p.bound = false, false, p.alive()
	for _, x := range pl.pins { // they are planned blocks, too
		p.bound += x.size
	}
	st.disagree(p, pl.clash)
	if st.program == nil {
		st.adopt(p)
	}
	return nil
}

// adopt makes a program known, and the one to follow.
func (st *steps) adopt(p *stepProgram) {
	for k, q := range st.programs {
		if q == p {
			st.use(k)
		}
	}
}
