package memory

import (
	"context"
	"errors"
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
// depends on the program keeping to what was learned. With compaction a plan stands aside for many steps where those before went no way that it could learn.
type Plan struct {
	a      *Caching
	wait   time.Duration
	steps  int                 // guarded by a.mu: that were begun
	aside  int                 // guarded by a.mu: of these, for which the plan stood aside
	lately [recentSteps]demand // guarded by a.mu: of the last steps
	last   PlanStats           // guarded by a.mu: when it was closed
	most   uint64              // guarded by a.mu: bytes that were reserved at once in this step
	unrest unrest              // guarded by a.mu
	had    uint64              // guarded by a.mu: and in the one before, if the plan served nothing in it, or refused requests

	// compute is computePlacement. Called by way of it, package plan is part of those programs only that make a plan.
	compute func(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration)
}

// PlanOption changes what NewPlan makes.
type PlanOption func(*Plan)

// PlanWait is how long a step may wait for the placement of what was learned, instead of 50 ms; only one step waits for each. With 0 and less none waits. Half of it, at most 100 ms, goes
// into a better placement than the first.
func PlanWait(d time.Duration) PlanOption { return func(p *Plan) { p.wait = max(d, 0) } }

// PlanStats says how a plan does. All are sums over all steps and streams, but for those that say what is now.
//
// Bound and Size are the most that one of the last 16 steps has. Of a step they are sums over the streams on which it was served: Bound of what each of them has alive
// at once in planned blocks. Streams that are at their fullest at different times of a step have less alive together. Arena is the sum over all streams. It is
// more than Size where memory is kept for steps that come more seldom. Both are less than Bound where blocks lie in what is free between those that stay.
type PlanStats struct {
	Steps    int    // that were begun
	Aside    int    // those of them for which the plan stood aside: with compaction, where the ones before went no way that can be learned
	Served   uint64 // requests that were given the place of the plan
	Outside  uint64 // expected ones whose blocks outlive the step, served by the caching allocator
	Missed   uint64 // requests that were not expected
	Unknown  uint64 // requests of steps that no placement is in force for, which the caching allocator serves
	Refused  uint64 // expected ones whose place was taken, or had no memory
	Programs int    // different steps that are known now
	Placed   int    // placements that were computed
	Arena    uint64 // bytes of memory that the arenas have now
	Bound    uint64 // the least that the last steps need, in bytes
	Size     uint64 // what their programs take of arenas and stitches, in bytes
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
	a.plan = &Plan{a: a, wait: stepWait, compute: computePlacement, unrest: unrest{left: watched, keeps: learning}}
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
	firstParts  = 64    // and all of them
	mostNew     = 6     // programs of a stream that no step has followed yet
	recentSteps = 16    // an arena is as large as the programs of so many steps need, and those that come more seldom: see expects
)

// Step ends a step and begins the next. The first request of the step waits at most 50 ms for the placement of what was learned; a longer one is in force from
// a later step on. An error is one of the driver, when the step that ends began, or says that the plan is closed; a nil plan is none. Blocks in use stay valid, and what other goroutines do meanwhile belongs to either step.
func (p *Plan) Step() error {
	if p == nil {
		return nil
	}
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
	over := &p.lately[p.steps%recentSteps]
	*over = demand{}
	stands := p.unrest.ended(a, p.most)
	if p.unrest.stand != serving {
		p.aside++
	}
	most := p.most
	p.had, p.most = p.most, uint64(a.dev.ReservedBytes.All.Current)
	served, refusals := false, false
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.pool != nil {
			continue
		}
		sh.mu.Lock()
		d := sh.steps.demand()
		over.bound, over.size = over.bound+d.bound, over.size+d.size
		refused := sh.steps.refused != 0
		served, refusals = served || sh.steps.served != 0, refusals || refused
		idle := sh.steps.served == 0
		settled := sh.steps.end()
		p.unrest.news += sh.steps.learned
		sh.steps.learned = 0
		if p := sh.steps.last.program; p != nil && idle {
			p.had = most
		}
		errs = append(errs, sh.steps.failed)
		sh.steps.failed, sh.steps.stopped = nil, false
		if sh.steps.another() {
			errs = append(errs, a.takeBack(sh))
			sh.steps.forget()
		}
		sh.steps.repin(refused)
		sh.steps.beside = uint64(a.dev.ReservedBytes.All.Current) - sh.steps.arena.memory.bytes
		sh.mu.Unlock()
		errs = append(errs, a.shrinkArena(sh))
		if settled || refused && a.aboveBound() { // or it stays: who asks for nothing is asked for nothing
			errs = append(errs, a.returnCached(sh))
		}
	}
	if stands {
		errs = append(errs, a.standAside())
	}
	if served && !refusals {
		p.had = 0
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

// planned serves a request from the plan that serveNext did not serve, or returns nil. The caller holds sh.mu, which is released and taken again if the arena must grow.
func (a *Caching) planned(sh *shard, size uint64) *block {
	st := sh.steps
	if st.stopped && st.program == nil { // nothing has begun
		st.answer = answer{}
		return nil
	}
	first := st.fresh && st.works(size)
	if first {
		st.fresh = false
		sh.mu.Unlock()
		err := a.begin(sh, size)
		sh.mu.Lock()
		st.failed = err
	}
	st.answer = answer{epoch: st.epoch, next: st.next, skipped: st.skipped, entries: len(st.now.entries), first: first}
	s := st.serve(size)
	if s == nil {
		return nil
	}
	if !st.arena.holds(s) {
		p, arranged, epoch, next, said := st.program, st.arranged, st.epoch, st.next, st.answer
		until := p.until[next-1]
		sh.mu.Unlock()
		err := a.extendArena(sh, s.bytes())
		sh.mu.Lock()
		// Another goroutine may have been given a later slot meanwhile, which has a part of this one, or the slot may be no more.
		changed := st.program != p || st.arranged != arranged || st.epoch != epoch || st.next != next
		if err != nil || changed || !st.arena.holds(s) || !st.vacant(p, s) {
			st.answer = said
			st.answer.until = until
			st.decline(&st.refused)
			return nil
		}
	}
	st.served++
	*s.turn = takenIn(st.epoch)
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

// demand is what a step needs and takes.
type demand struct{ bound, size uint64 }

// demand is that of the present step on a stream; none if its plan has served nothing.
func (st *steps) demand() demand {
	if st.served == 0 || st.program == nil || st.program.slots == nil {
		return demand{}
	}
	return demand{st.program.bound, st.program.size + st.stitchBytes()}
}

// stats is Stats of a plan that is not closed, under the lock of its allocator and no shard's.
func (p *Plan) stats() PlanStats {
	sum := PlanStats{Steps: p.steps, Aside: p.aside}
	var now demand
	for _, sh := range *p.a.shards.Load() {
		sh.mu.Lock()
		if st := sh.steps; st != nil {
			c := st.counts
			sum.Served += c.Served + uint64(st.served)
			sum.Missed += c.Missed + uint64(st.missed)
			sum.Refused += c.Refused + uint64(st.refused)
			sum.Unknown += c.Unknown + uint64(st.unknown)
			sum.Outside += c.Outside + uint64(st.outside)
			sum.Placed += c.Placed
			sum.Programs += len(st.programs)
			sum.Arena += st.arena.memory.bytes + st.stitchBytes()
			d := st.demand()
			now.bound, now.size = now.bound+d.bound, now.size+d.size
		}
		sh.mu.Unlock()
	}
	for _, d := range append(p.lately[:], now) {
		sum.Bound, sum.Size = max(sum.Bound, d.bound), max(sum.Size, d.size)
	}
	return sum
}

// Close ends the plan. Planned blocks in use stay valid; the arenas go back now, or where such blocks are, with EmptyCache once they are freed: until then such an
// arena is reserved memory beside what the next plan needs.
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
	st.stopped, st.program, st.programs, st.aside, st.seen, st.counts = true, nil, nil, nil, nil, PlanStats{}
	st.served, st.outside, st.missed, st.refused, st.unknown, st.skipped, st.futile, st.pause = 0, 0, 0, 0, 0, 0, 0, 0
	st.arranged++
	st.now, st.last = stepRecord{}, stepRecord{}
	clear(st.renewed)
	clear(st.firsts)
	st.epoch += 2 // blocks that were recorded are of no step
}
