package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/plan"
)

// A captured step asks for what the eager steps before it have asked for, which the plan knows. So the pool of its graph is given one block for all of it before the
// capture begins, and lends it: each request of the capture has its place there, as a planned one of an eager step has in borrowed memory. What is not as expected is
// the pool's affair, as without a plan. When the capture is over the block is the pool's, with what is left in it; replays write where they were captured.

// CapturePlan says that the work is a step that the allocator's plan has just seen on the same stream, whose blocks then have fixed places in the graph's pool too. It
// changes nothing if the allocator has no plan, or that knows no step of the stream. A capture is no step of the plan: before the next one the step must have run as
// it is once more, or what is not as in the step that ran last is the pool's affair.
func CapturePlan() CaptureOption { return func(o *captureOptions) { o.planned = true } }

// planCapture gives the pool of a capture on s a block for the step that the plan has seen last. If there is no memory for it, the pool is as it was.
func (a *Caching) planCapture(pool *Pool, s device.Stream) error {
	p, err := a.lastStep(s)
	if err != nil {
		return err
	}
	if p == nil || pool.source != nil || pool.whole || pool.limit != unlimited {
		return nil
	}
	q, index := p.problem()
	ctx, cancel := context.WithTimeout(context.Background(), placeBudget)
	defer cancel()
	placed, err := plan.Place(ctx, q, plan.Budget(mostImprove), plan.Target(goodPlace))
	if err != nil || placed.Size == 0 {
		return nil // the pool does without
	}
	sh, err := a.shardIn(pool, s)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	home, err := a.lendNew(sh, placed.Size)
	if home == nil {
		return err
	}
	pl := &placement{until: slices.Clone(p.ends)}
	for k, i := range index {
		pl.homes = append(pl.homes, lodger{request: i, home: home, offset: placed.Offsets[k]})
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.perform(p, pl, home)
	return nil
}

// lastStep ends the step that is under way, and returns what the plan knows of it: nil if there is nothing, or no plan. Its error is Plan.Step's.
func (a *Caching) lastStep(s device.Stream) (*stepProgram, error) {
	a.mu.Lock()
	current := a.plan
	a.mu.Unlock()
	if current == nil {
		return nil, nil
	}
	if err := current.Step(); err != nil && !current.Closed() { // meanwhile, perhaps
		return nil, err
	}
	sh, err := a.shardOf(s)
	if err != nil {
		return nil, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.steps == nil || sh.steps.last.program == nil {
		return nil, nil
	}
	return sh.steps.last.program.copy(), nil
}

// copy is a program with the same requests, to be placed and followed elsewhere.
func (p *stepProgram) copy() *stepProgram {
	return &stepProgram{sizes: slices.Clone(p.sizes), ends: slices.Clone(p.ends), stays: slices.Clone(p.stays), brief: make([]brief, len(p.sizes)), seconds: make([]seconds, len(p.sizes)), proven: true}
}

// lendNew takes a block of a size out of a pool and lends it to the plan of a shard; nil if there is no memory. It is counted as free. Caller holds a.mu and no
// shard.
func (a *Caching) lendNew(sh *shard, size uint64) (*block, error) {
	p := a.policy.Load()
	size = p.blockSize(size)
	r := &request{policy: p, shard: sh, kind: p.pool(size), bytes: size, size: size, site: a.behalf, lends: true}
	b, err := a.grow(r)
	if err != nil {
		if errors.Is(err, ErrOutOfMemory) {
			err = nil // then it is taken piece by piece, or the capture says what is missing
		}
		return nil, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.splits(p, b, size) {
		sh.rejoin(b) // see request.finish
		was, bytes := !b.whole(), int64(b.size)
		b = sh.splitFront(b, size)
		if b.seg.vm == nil && was { // one inactive split before, two after
			sh.adjust(b.kind, hotInactiveSplit, 1)
		} else if b.seg.vm == nil {
			sh.adjust(b.kind, hotInactiveSplit, 2)
			sh.adjust(b.kind, hotInactiveSplitBytes, bytes)
		}
	}
	b.state = stateLent
	return b, nil
}

// perform makes the steps of a pool's shard those of a capture, whose program has places in borrowed memory. Caller holds the shard.
func (sh *shard) perform(p *stepProgram, pl *placement, home *block) {
	if sh.steps == nil {
		sh.steps = newSteps(sh) // stopped: nothing is recorded
	}
	st := sh.steps
	st.lent = append(st.lent, home)
	p.arrange(pl, sh, nil)
	st.epoch++
	st.skipped, st.next, st.missed, st.served, st.outside, st.refused, st.unknown = 0, 0, 0, 0, 0, 0, 0
	st.programs = []*stepProgram{p}
	st.arranged++
	st.use(0)
}

// endPlanned gives a pool back what was lent for a capture, which is over, but for what is in use.
func (a *Caching) endPlanned(pool *Pool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.takeBackPool(pool)
}

// takeBackPool is takeBack for the shards of a private pool, whose programs end. Caller holds a.mu and no shard.
func (a *Caching) takeBackPool(pool *Pool) error {
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.pool != pool || sh.steps == nil {
			continue
		}
		sh.mu.Lock()
		sh.steps.leave()
		errs = append(errs, a.takeBack(sh))
		sh.steps.program, sh.steps.programs = nil, nil
		sh.steps.arranged++
		sh.mu.Unlock()
	}
	return errors.Join(errs...)
}
