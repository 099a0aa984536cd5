package parallel

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// What functions of other packages are told of parameters whose gradients ranks share out, ZeRO 1 to 3. The model's own have no gradients, a part has some of them, and those of passes in NoSync have no part
// until they are summed: a norm, a step or a ZeroGrad that did not know would do something else than with ZeRO 0, and say nothing.

// tellSharding tells autograd of the parameters and the parts.
func (d *DataParallel) tellSharding() {
	if d.set.stage == 0 {
		for _, q := range d.params {
			autograd.Shard(key, q.p, &autograd.Sharding{
				Waiting: func() string { return d.untrainable(q) },
				Refuses: func() string { return d.unsettable(q) },
				Cleared: func() { d.cleared(q, nil) },
				Bars:    func(g *autograd.Graph) error { return d.barred(g, q) },
			})
		}
		return
	}
	parts := map[*param]*piece{}
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			parts[c.of] = c
			autograd.Shard(key, c.p, &autograd.Sharding{
				Part:    fmt.Sprintf("parameter %s is this rank's part of the model's, as it is with ZeRO %d", excerpt.Quote(c.of.name), d.set.stage),
				Waiting: func() string { return d.waiting(c.of) },
				Refuses: func() string { return d.unsettable(c.of) },
				Cleared: func() { c.unheard = false; d.clearedPart(c.of) },
			})
		}
	}
	for _, q := range d.params {
		s := &autograd.Sharding{
			Instead: fmt.Sprintf("parameter %s is the model's, and with ZeRO %d its gradients go to the ranks' parts of it", excerpt.Quote(q.name), d.set.stage),
			Behind:  func() string { return d.behindParts(q) },
			Cleared: func() { d.cleared(q, parts[q]) },
			Bars:    func(g *autograd.Graph) error { return d.barred(g, q) },
		}
		if d.set.stage == 3 {
			s.Away, s.Version = d.whereAway, func() uint32 { return q.bucket.version() }
		}
		autograd.Shard(key, q.p, s)
	}
}

// behindParts is why the model's parameters are not those of the last update, "" if they are, as in Whole. With ZeRO 3 they have no values then, but for those of a pass under way.
func (d *DataParallel) behindParts(q *param) string {
	switch {
	case d.inside, d.set.stage == 3 && q.bucket.installed:
		return ""
	case d.set.stage == 3:
		return "with ZeRO 3 this rank has its part alone: call it in Whole"
	case !d.stale && !slices.ContainsFunc(d.buckets, (*bucket).changed):
		return ""
	}
	return fmt.Sprintf("with ZeRO %d this rank has its part of the last update alone: call it in Whole", d.set.stage)
}

// waits reports whether gradients of passes in NoSync wait to be summed over the ranks.
func (d *DataParallel) waits() bool {
	if d.set.stage == 0 { // they are the parameters' own
		return false
	}
	for _, b := range d.buckets {
		if b.grad != nil {
			return true
		}
	}
	return false
}

// incomplete reports whether the parts do not have all of their gradients: some wait, or are on their way in a pass whose hook asks.
func (d *DataParallel) incomplete() bool {
	return d.waits() || d.set.stage > 0 && d.arrivals > 0 && !d.installing
}

// waiting is the error of what looks at the gradient of a part now, "" if it may.
func (d *DataParallel) waiting(q *param) string {
	if why := d.untrainable(q); why != "" || !d.incomplete() {
		return why
	}
	return "parameter " + excerpt.Quote(q.name) + ": " + d.whyWaits()
}

// whyWaits is the error of gradients that wait: to be summed, or for the end of the pass.
func (d *DataParallel) whyWaits() string {
	if d.underWay() {
		return duringPass
	}
	return unsummed
}

// untrainable is the error of what trains a parameter within Whole, "" elsewhere.
func (d *DataParallel) untrainable(q *param) string {
	if !d.inside {
		return ""
	}
	return "parameter " + excerpt.Quote(q.name) + ": " + withinWhole
}

// midStep is why a checkpoint cannot be written or read now, "" between two steps.
func (d *DataParallel) midStep() string {
	switch {
	case d.noSync:
		return "within NoSync a step is under way: call it when the pass outside of NoSync was made and the step was taken"
	case d.unsummed():
		return unsummed
	case d.awaited && !autograd.IsReleased(key, d.graph):
		return "a forward pass of Run waits for its backward pass: make that first, or release its graph, and evaluate without gradients (autograd.NoGrad)"
	}
	return ""
}

// unsummed is waits, with ZeRO 0 too, where the gradients are the parameters' own.
func (d *DataParallel) unsummed() bool { return d.waits() || d.summed && d.anyGradient() }

// mayLeave refuses to end the group while gradients wait to be summed: ranks that go on alone would differ by them, or have lost them. It is the error of all ranks if it is that of one, and the group goes on: the parameters of ZeRO 3
// would be lost with it. With ZeRO 0 nothing is sent, and nobody waits.
func (d *DataParallel) mayLeave(op string) error {
	waits := d.unsummed()
	if d.set.stage > 0 {
		var err error
		if waits, err = d.anywhere("question whether gradients wait to be summed", waits); err != nil {
			return d.fatal(op, err)
		}
	}
	if !waits {
		return nil
	}
	return d.mistake(op, unsummed)
}

// anyGradient reports whether a parameter of the model has a gradient.
func (d *DataParallel) anyGradient() bool {
	return slices.ContainsFunc(d.params, func(q *param) bool { return q.p.Grad() != nil })
}

const unsummed = "gradients of passes in NoSync wait to be summed over the ranks: make a pass outside of NoSync first, or release them by DataParallel.ZeroGrad"
