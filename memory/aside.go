package memory

import "errors"

// Steps may go no way that can be known: blocks outlive theirs now and then, by no rule, or lie on one stream or another. A plan learns something else each time: it asks the driver for
// memory again and again, or holds more than the program has in use. So it is looked at how each so many steps went. If they keep going badly the plan stands aside: nothing has places, and
// the caching allocator has all requests. Where that goes no better the plan has its places again, and else after many steps, as the program may have come to rest. That is so with compaction
// only: without it nothing bounds what the caching allocator would hold.

const (
	watched   = 32      // steps that are looked at together
	oneEvent  = 8       // calls of the driver in so many steps in a row have one cause
	mostBad   = 3       // for how badly steps may go until the plan stands aside, see badly
	mostVoid  = 3       // times in a row that nothing is concluded from steps, as new ones were learned
	learning  = 64      // steps of which nothing is concluded, after the plan has begun, and after it has stood aside
	settling  = 16      // steps that the caching allocator has for finding its memory, before it is looked at how that goes
	overBound = 4 * mib // more than the bound of compaction, as pages are whole: at the end of an arena and of what is beside it
)

// For how many steps the plan stands aside, or does not ask again whether it should: twice as many each time.
const (
	firstAside = 1024
	lastAside  = 1 << 20
)

// unrest is how the steps of a plan have gone lately, and what follows from that. Guarded by a.mu.
type unrest struct {
	stand  stand
	left   int    // steps until it is looked at how they went
	now    course // of the steps since
	served course // how they went with places, before the plan stood aside
	calls  int64  // of the driver for memory, until now
	since  int    // steps since the last event
	peak   uint64 // most bytes that were in use at once
	news   int    // programs that were learned in these steps
	void   int    // times in a row that nothing was concluded
	bad    int    // how badly the steps have gone lately
	keeps  int    // for how many steps more nothing is changed
	pause  int    // the last time that keeps was set, to this

	counts PlanStats // until now
}

// stand is what a plan does.
type stand int

const (
	serving stand = iota
	leaving       // it has just stood aside
	trying        // it is looked at how that goes
	aside
)

// course is how some steps went.
type course struct {
	events   int    // times that the driver was asked for memory, or given some
	calls    int64  // of the driver for that
	reserved uint64 // at most, in bytes
	astray   bool   // less than three of four requests were served from places
}

// ended takes in a step, in which most bytes were reserved, and reports whether the plan is to stand aside from now on. Caller holds a.mu and no shard.
func (u *unrest) ended(a *Caching, most uint64) bool {
	u.note(a.dev.NumDeviceAlloc+a.dev.NumDeviceFree, most)
	if u.left--; u.left > 0 {
		return false
	}
	went, news := u.now, u.news
	went.astray = u.strayed(a.plan.stats())
	u.left, u.now, u.news = watched, course{}, 0
	p := a.policy.Load()
	if p.compaction == 0 || !p.expandable {
		return false
	}
	u.peak = max(u.peak, a.allocatedPeak())
	bound := uint64(float64(u.peak)*p.compaction) + overBound
	switch u.stand {
	case leaving:
		u.stand = trying
	case trying:
		u.stand = aside
		if went.worse(u.served, bound) {
			u.stand = serving
		}
	case aside:
		if u.keeps <= 0 {
			u.stand, u.keeps = serving, learning
		}
	case serving:
		return !a.inCapture() && a.roomAside(u.peak) && u.judge(went, news != 0, bound, a.plannedStreams() > 1)
	}
	return false
}

// note counts a step, after so many calls of the driver.
func (u *unrest) note(calls int64, most uint64) {
	u.keeps--
	if u.since++; calls != u.calls && u.since >= oneEvent {
		u.now.events++
		u.since = 0
	}
	u.now.calls += calls - u.calls
	u.now.reserved = max(u.now.reserved, most)
	u.calls = calls
}

// strayed reports whether few requests were served from places since it was asked last. Those whose blocks outlive their step do not count.
func (u *unrest) strayed(s PlanStats) bool {
	served, not := s.Served-u.counts.Served, s.Deviations()+s.Unknown-u.counts.Deviations()-u.counts.Unknown
	u.counts = s
	return 3*not > served
}

// judge takes in how steps went that the plan has served, and reports whether it stands aside. Streams in turn take pages from each other at each turn, for which their plans hold no more than
// is in use: several streams may call the driver.
func (u *unrest) judge(went course, news bool, bound uint64, several bool) bool {
	if u.keeps > 0 {
		return false
	}
	if !news {
		u.void = 0
	} else if u.void < mostVoid && !went.astray {
		u.void++
		return false
	}
	u.bad = max(u.bad+went.badly(bound, several), 0)
	if u.bad < mostBad {
		return false
	}
	u.pause = min(max(2*u.pause, firstAside), lastAside)
	u.stand, u.left, u.served, u.bad, u.keeps = leaving, settling, went, 0, u.pause
	return true
}

// badly is how badly steps went: 2 if something is wrong with them, 1 if they do not rest, and -1 if all is well.
func (c course) badly(bound uint64, several bool) int {
	switch {
	case c.reserved > bound || c.astray || !several && c.calls >= watched/2:
		return 2
	case !several && c.events != 0:
		return 1
	}
	return -1
}

// worse reports whether steps went worse without places than others with them, in bytes and then in calls of the driver. The caching allocator has a page more now and then, and asks for what it
// has not needed before.
func (c course) worse(with course, bound uint64) bool {
	switch {
	case c.reserved > max(with.reserved+with.reserved/16+overBound, bound):
		return true
	case with.reserved > max(c.reserved, bound):
		return false
	}
	return c.calls > 2*with.calls+watched/4
}

// plannedStreams is on how many streams steps are known. Caller holds a.mu and no shard.
func (a *Caching) plannedStreams() (n int) {
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		if sh.steps != nil && len(sh.steps.programs) != 0 {
			n++
		}
		sh.mu.Unlock()
	}
	return n
}

// roomAside reports whether the device, and the limit, leave room for what the caching allocator may need more than a plan, of a program with so much in use at once: it takes whole segments. Or
// a program that fits with its plan would fail without. Caller holds a.mu and no shard.
func (a *Caching) roomAside(peak uint64) bool {
	reserved, need := uint64(a.dev.ReservedBytes.All.Current), peak+peak/4+a.policy.Load().largeSegment
	if need <= reserved {
		return true
	}
	info, err := a.driver.MemInfo()
	return err == nil && info.Free >= need-reserved && a.mayReserve(need-reserved)
}

// standAside takes what the plan has into the caching allocator, and gives back what nobody uses: what that needs is laid out anew. Caller holds a.mu and no shard, and nothing is captured.
func (a *Caching) standAside() error {
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.steps == nil || sh.pool != nil {
			continue
		}
		sh.mu.Lock()
		idle := len(sh.steps.live()) == 0
		if idle {
			errs = append(errs, a.takeBack(sh))
			sh.steps.forgetPlaces()
		}
		sh.mu.Unlock()
		if !idle {
			errs = append(errs, a.adoptFrom(sh, true))
			continue
		}
		_, err := a.trimArena(sh, 0, unlimited)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, a.releaseBeside())...)
}
