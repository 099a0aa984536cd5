package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
	"github.com/cistern-ml/cistern/memory/plan"
)

// Plan learns the steps of a program and gives the blocks of later steps fixed places in one arena. Training steps repeat: the
// same requests, in the same order, freed at the same points. With all lifetimes of a step known, its blocks can be placed so
// that hardly a byte is wasted, and an allocation is a comparison with the size that is expected.
//
// A step runs from one call of Step to the next. Requests that the plan does not expect, and those whose place is taken, because a
// block lives longer than it did, are served by the caching allocator at once; blocks that outlive a step always are. Nothing
// depends on the program keeping to what was learned.
type Plan struct {
	a     *Caching
	wait  time.Duration
	steps int       // guarded by a.mu: that were begun
	last  PlanStats // guarded by a.mu: when it was closed

	// compute is computePlacement. Called by way of it, package plan is part of those programs only that make a plan.
	compute func(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration)
}

// PlanOption changes what NewPlan makes.
type PlanOption func(*Plan)

// PlanWait is how long a step may wait for the placement of what was learned, instead of 50 ms. With 0 and less none waits.
func PlanWait(d time.Duration) PlanOption { return func(p *Plan) { p.wait = max(d, 0) } }

// PlanStats says how a plan does. All are sums over all steps and streams, but for those that say what is now.
type PlanStats struct {
	Steps    int    // that were begun
	Served   uint64 // requests that were given the place of the plan
	Outside  uint64 // expected ones whose blocks outlive the step, served by the caching allocator
	Missed   uint64 // requests that were not expected
	Unknown  uint64 // requests of steps that no placement is in force for, which the caching allocator serves
	Refused  uint64 // expected ones whose place was taken, or had no memory
	Programs int    // different steps that are known now
	Placed   int    // placements that were computed
	Arena    uint64 // bytes of memory that the arenas have now
	Bound    uint64 // the least that the present programs need, in bytes: what is alive at once
	Size     uint64 // what the present programs take, in bytes
}

// Deviations are the requests that did not go by the plan.
func (s PlanStats) Deviations() uint64 { return s.Missed + s.Refused }

// NewPlan makes the allocator learn from the next call of Step on. An allocator has one plan at a time; a second one is an
// *ArgumentError until the first is closed.
func (a *Caching) NewPlan(opts ...PlanOption) (*Plan, error) {
	if a.absent() {
		return nil, argumentErr("NewPlan", text.NilAllocator)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() {
		return nil, &device.Error{Device: a.id, Call: "memory.NewPlan", Err: device.ErrClosed}
	}
	if a.plan != nil {
		return nil, argumentErr("NewPlan", "the allocator has a plan; close it first")
	}
	a.spoil()
	a.plan = &Plan{a: a, wait: stepWait, compute: computePlacement}
	for _, o := range opts {
		if o != nil {
			o(a.plan)
		}
	}
	a.peaks.mu.Lock() // so that no shard is added
	defer a.peaks.mu.Unlock()
	for _, sh := range *a.shards.Load() {
		if sh.pool == nil {
			sh.mu.Lock()
			if sh.steps == nil { // else blocks of a plan that was closed are in use
				sh.steps = newSteps(sh)
			}
			sh.mu.Unlock()
		}
	}
	return a.plan, nil
}

// absent reports whether there is no plan: a nil pointer, a zero value, or one that was closed.
func (p *Plan) absent() bool { return p == nil || p.a.absent() }

// How much a plan may take: for a step to begin, and in the background.
const (
	stepWait    = 50 * time.Millisecond
	placeBudget = 2 * time.Second
	goodPlace   = 1.001 // of the bound: no better place is looked for
	mostKnown   = 16    // programs of a stream
	mostSeen    = 64    // steps of a stream that are remembered without being planned
	firstPart   = 256   // of what a step needs, a request is for before it begins
	mostNew     = 6     // programs of a stream that no step has followed yet
	recentSteps = 16    // an arena is as large as the programs of so many steps need
)

// Step ends a step and begins the next. The first request of the step waits at most 50 ms for the placement of what was learned; a longer one is in force from
// a later step on. An error is one of the driver, when the step that ends began. Blocks in use stay valid, and what other goroutines do meanwhile belongs to either step.
func (p *Plan) Step() error {
	if p.absent() {
		return argumentErr("Step", "no plan")
	}
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plan != p {
		return argumentErr("Step", "the plan is closed")
	}
	if a.closed.Load() {
		return &device.Error{Device: a.id, Call: "memory.Plan.Step", Err: device.ErrClosed}
	}
	a.behalf = a.freeSite()
	p.steps++
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.pool != nil {
			continue
		}
		sh.mu.Lock()
		settled := sh.steps.end()
		errs = append(errs, sh.steps.failed)
		sh.steps.failed, sh.steps.stopped = nil, false
		sh.mu.Unlock()
		errs = append(errs, a.shrinkArena(sh))
		if settled {
			errs = append(errs, a.returnCached(sh))
		}
	}
	return errors.Join(errs...)
}

// Wait waits for the placements that are being computed, until ctx ends. They are in force from the next call of Step on.
func (p *Plan) Wait(ctx context.Context) error {
	if p.absent() {
		return nil
	}
	for _, pl := range p.placements() {
		select {
		case <-pl.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// placements are those that are being computed.
func (p *Plan) placements() (list []*placement) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	for _, sh := range *p.a.shards.Load() {
		sh.mu.Lock()
		if sh.steps != nil {
			for _, q := range sh.steps.programs {
				if q.placed != nil {
					list = append(list, q.placed)
				}
			}
		}
		sh.mu.Unlock()
	}
	return list
}

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
	st.outlived()
	sh.mu.Unlock()
	before, held, page := a.without(), a.allocatedBytes(), a.arenaPage(sh)
	sh.mu.Lock()
	var todo []*stepProgram
	if st.pause == 0 {
		todo = st.unplaced(before)
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
		most := max(before, mayNeed(held, p, page))
		fits, err := a.placeWithin(ctx, sh, p, most)
		if !fits && err == nil && !placed {
			// It was to do with what is borrowed for other programs: without them, once more.
			if err = a.takeBackNow(sh); err == nil {
				if fits, err = a.placeWithin(ctx, sh, p, most); !fits && err == nil {
					err = a.takeBackNow(sh)
				}
			}
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
		st.next, st.missed = len(st.now.entries), 0
		st.follow(k)
	}
	return nil
}

// placeWithin computes where the blocks of p go and puts it in force, unless ctx ends before, or an arena cannot be had. It reports false if it would
// take more than most bytes. Caller holds a.mu and no shard.
func (a *Caching) placeWithin(ctx context.Context, sh *shard, p *stepProgram, most uint64) (bool, error) {
	if p.placed == nil {
		if err := a.place(sh, p); err != nil {
			return false, err
		}
	}
	select {
	case <-p.placed.done:
	case <-ctx.Done():
		return true, nil
	}
	if p.needs = a.needs(sh, p.placed); p.needs > most {
		p.placed = nil
		return false, nil
	}
	return true, a.install(sh, p)
}

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
	if p.alone {
		p.alone = false
	} else {
		if err := a.lend(sh); err != nil {
			return err
		}
		sh.mu.Lock()
		homes, page = a.homes(sh)
		sh.mu.Unlock()
	}
	q, index := p.problem()
	p.placed, p.dirty = &placement{done: make(chan struct{})}, false
	sh.steps.counts.Placed++
	sh.steps.tried = true
	go a.plan.compute(p.placed, q, index, homes, page, min(a.plan.wait, stepWait)/2)
	return nil
}

// planBound is how much more a plan may take than what is in use when a step begins and what the step has alive at once: without the plan it
// would hardly be less.
const planBound = 1.02

// mayNeed is that bound for a program, beside so many bytes in use; a page more is no matter.
func mayNeed(held uint64, p *stepProgram, page uint64) uint64 {
	bytes := held + p.alive()
	return max(uint64(float64(bytes)*planBound), bytes+page)
}

// arenaPage is the size of the pages of a shard's arena: it grows and shrinks by them. Without virtual memory it is given as a whole.
func (a *Caching) arenaPage(sh *shard) uint64 {
	if d, ok := a.driver.(VirtualDriver); ok && d.Granularity() != 0 && !sh.hasSource() {
		return movingPage(d)
	}
	return largeRounding
}

// without is how much memory the program has, or may have by the bound of compaction, without a plan. Caller holds a.mu and no shard.
func (a *Caching) without() uint64 {
	bytes := uint64(a.dev.ReservedBytes.All.Current)
	if p := a.policy.Load(); p.compaction != 0 && p.expandable {
		bytes = max(bytes, uint64(float64(a.allocatedPeak())*p.compaction))
	}
	return bytes
}

// shrinkArena gives back what no program of the last steps needs. What a step does not use that has little use for its plan goes when it is needed:
// see reclaimArena. Caller holds a.mu and no shard.
func (a *Caching) shrinkArena(sh *shard) error {
	sh.mu.Lock()
	keep := sh.steps.enough()
	excess := sh.steps.arena.mapped - min(sh.steps.arena.mapped, keep)
	sh.mu.Unlock()
	if excess < a.arenaPage(sh) {
		return nil
	}
	_, err := a.trimArena(sh, excess)
	return err
}

// needs is how much would be reserved with a placement in force. Caller holds a.mu and no shard.
func (a *Caching) needs(sh *shard, pl *placement) uint64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	bytes := uint64(a.dev.ReservedBytes.All.Current) - st.arena.mapped + roundUp(max(pl.Size, st.enough()), a.arenaPage(sh))
	used := map[*block]bool{}
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

// computePlacement finds places in borrowed blocks and in the arena.
func computePlacement(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration) {
	defer close(pl.done)
	ctx, cancel := context.WithTimeout(context.Background(), placeBudget)
	defer cancel()
	pl.index, pl.homes, pl.stitches = lodge(ctx, &q, index, homes, page, improve/2)
	pl.Placement, pl.err = plan.Place(ctx, q, plan.Budget(improve), plan.Target(goodPlace))
}

// install puts a placement in force, unless the arena cannot hold it now. Caller holds a.mu and no shard.
func (a *Caching) install(sh *shard, p *stepProgram) error {
	pl := p.placed
	p.placed = nil
	if pl.err != nil { // it took too long
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
	p.dirty, p.bound = false, p.alive()
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

// returnCached gives free memory back that a stream has beside its plan, if it is more than a little: it is left from a step that went another way.
// Caller holds a.mu and no shard.
func (a *Caching) returnCached(sh *shard) error {
	sh.mu.Lock()
	cached := sh.pools[smallPool].bytes + sh.pools[largePool].bytes
	sh.mu.Unlock()
	if cached < uint64(a.dev.ReservedBytes.All.Current)/50 {
		return nil
	}
	var errs []error
	for k := range poolKinds {
		for _, b := range a.freeBlocks(nil, k, func(b *block) bool { return b.shard == sh }) {
			errs = append(errs, a.giveBack(b, 0))
		}
	}
	return errors.Join(errs...)
}

// end finishes the recording of a step: what it taught goes into the programs. It reports whether the steps have gone by the plan for so long that
// what is cached beside it can go. Caller holds the shard.
func (st *steps) end() (settled bool) {
	if st.last.program != nil {
		st.last.program.merge(&st.last, true)
	}
	st.leave()
	st.recognise()
	st.takeStock(st.served <= st.missed+st.unknown)
	settled = st.settle()
	st.counts.Served += uint64(st.served)
	st.counts.Missed += uint64(st.missed)
	st.counts.Refused += uint64(st.refused)
	st.counts.Unknown += uint64(st.unknown)
	st.served, st.missed, st.refused, st.unknown = 0, 0, 0, 0
	st.last.entries, st.now.entries = st.now.entries, st.last.entries[:0]
	st.last.program, st.now.program = st.now.program, nil
	st.epoch++
	st.fresh, st.firstSize = true, 0
	for _, p := range st.unplaced(unlimited) {
		st.firstSize = max(st.firstSize, p.alive()/firstPart)
	}
	st.next = 0
	return settled
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

// recognise finds the program of the step that is over, or learns it.
func (st *steps) recognise() {
	r := &st.now
	if len(r.entries) == 0 || len(r.entries) == mostRequests {
		return
	}
	hash := hashSizes(r.entries)
	for k, p := range st.programs {
		if p.is(r, hash) {
			r.program, p.proven, p.used = p, true, st.epoch
			p.merge(r, false)
			st.use(k)
			return
		}
	}
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
	p := learn(r, hash)
	st.settled = 0
	r.program, p.used = p, st.epoch
	p.merge(r, false)
	if len(st.programs) == mostKnown {
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

// enough is how large the arena must be for the programs of the last steps.
func (st *steps) enough() (size uint64) {
	for _, p := range st.programs {
		if st.epoch-p.used <= recentSteps {
			size = max(size, p.size)
		}
	}
	return size
}

// unplaced lists the programs that wait for a placement, that of the last step first.
func (st *steps) unplaced(reserved uint64) (list []*stepProgram) {
	for _, p := range st.programs {
		if !p.proven && p.used+1 != st.epoch { // it came once, and is not expected again
			continue
		}
		if p.dirty || p.placed != nil || p.slots == nil && p.needs <= reserved {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(x, y *stepProgram) int { return cmp.Compare(y.used, x.used) })
	return list
}

// planned serves a request from the plan, or returns nil. The caller holds sh.mu, which is released and taken again if the arena must grow.
func (a *Caching) planned(sh *shard, size uint64) *block {
	st := sh.steps
	if st.fresh && size >= st.firstSize {
		st.fresh = false
		sh.mu.Unlock()
		err := a.begin(sh, size)
		sh.mu.Lock()
		st.failed = err
	}
	s := st.serve(size)
	if s == nil {
		return nil
	}
	if s.end > st.arena.mapped {
		p, arranged, epoch, next := st.program, st.arranged, st.epoch, st.next
		sh.mu.Unlock()
		err := a.extendArena(sh, s.end)
		sh.mu.Lock()
		// Another goroutine may have been given a later slot meanwhile, which has a part of this one, or the slot may be no more.
		changed := st.program != p || st.arranged != arranged || st.epoch != epoch || st.next != next
		if err != nil || changed || s.end > st.arena.mapped || !st.vacant(p, s) {
			st.refused++
			return nil
		}
	}
	st.served++
	s.epoch = st.epoch
	s.b.state = stateAllocated
	return s.b
}

// Stats says how the plan does, or how it did before it was closed.
func (p *Plan) Stats() PlanStats {
	if p.absent() {
		return PlanStats{}
	}
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if p.a.plan != p {
		return p.last
	}
	return p.stats()
}

// lastFollowed is the program in force, or the last one that was.
func (st *steps) lastFollowed() *stepProgram {
	if st.program != nil && st.program.slots != nil {
		return st.program
	}
	for _, p := range st.programs { // the last one used first
		if p.slots != nil {
			return p
		}
	}
	return nil
}

// stats is Stats of a plan that is not closed, under the lock of its allocator and no shard's.
func (p *Plan) stats() PlanStats {
	sum := PlanStats{Steps: p.steps}
	for _, sh := range *p.a.shards.Load() {
		sh.mu.Lock()
		if st := sh.steps; st != nil {
			c := st.counts
			sum.Served += c.Served + uint64(st.served)
			sum.Missed += c.Missed + uint64(st.missed)
			sum.Refused += c.Refused + uint64(st.refused)
			sum.Unknown += c.Unknown + uint64(st.unknown)
			sum.Outside += c.Outside
			sum.Placed += c.Placed
			sum.Programs += len(st.programs)
			sum.Arena += st.arena.mapped + st.stitchBytes()
			if q := st.lastFollowed(); q != nil {
				sum.Bound += q.bound
				sum.Size += q.size + st.stitchBytes()
			}
		}
		sh.mu.Unlock()
	}
	return sum
}

// Close ends the plan. Planned blocks in use stay valid; the arenas go back now, or where such blocks are, with EmptyCache once they are freed.
func (p *Plan) Close() error {
	if p.absent() {
		return nil
	}
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plan != p {
		return nil
	}
	p.last = p.stats()
	a.plan = nil
	a.behalf = a.freeSite()
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.steps == nil {
			continue
		}
		sh.mu.Lock()
		sh.steps.leave()
		errs = append(errs, a.takeBack(sh))
		sh.steps.stop()
		sh.mu.Unlock()
	}
	errs = append(errs, a.trimArenas())
	return errors.Join(errs...)
}

// stop forgets all that was learned. Caller holds the shard.
func (st *steps) stop() {
	st.stopped, st.program, st.programs, st.seen, st.counts = true, nil, nil, nil, PlanStats{}
	st.served, st.missed, st.refused, st.unknown, st.futile, st.pause = 0, 0, 0, 0, 0, 0
	st.arranged++
	st.now, st.last = stepRecord{}, stepRecord{}
	st.epoch += 2 // blocks that were recorded are of no step
}
