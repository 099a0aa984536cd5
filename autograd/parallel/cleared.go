package parallel

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// ZeroGrad, and what is left where it comes while gradients are in buckets: of passes in NoSync, and in a backward pass, when a hook calls it. It does what it does in one process, or is an error of all ranks.

// cleared releases the gradient of a parameter besides its own: the part that the rank has, which may be none, and what waits to be summed. What a pass that sums has put to that may be under way to the other ranks, and is an error.
func (d *DataParallel) cleared(q *param, part *piece) {
	q.unsent = false
	if part != nil {
		part.unheard = false
		autograd.DropGrad(key, part.p)
	}
	switch {
	case !q.kept || d.installing && !q.owed(): // the parameter's own was all
		return
	case d.installing || q.arrived > 0 && !d.noSync:
		d.tooLate = q
		return
	}
	q.kept = false // the next gradient is not added to what is there
	b := q.bucket
	for _, other := range b.params {
		if other.kept {
			return
		}
	}
	b.drop()
}

// clearedPart notes that a part was cleared while the bucket has something of its parameter: an optimizer clears those of which this rank has parts, and cannot know of the others.
func (d *DataParallel) clearedPart(q *param) {
	switch {
	case d.installing && !q.owed() || d.arrivals > 0 && !q.kept: // the part's own was all
	case d.installing || q.arrived > 0 && !d.noSync:
		d.tooLate = q
	case d.waits():
		d.halfCleared = true
	}
}

// give begins or ends the time in which parameters that are used get their sums. Hooks may release and set those that were given; what is not given yet is due.
func (d *DataParallel) give(begins bool, used usage) {
	d.installing = begins
	due := func(q *param) bool { return begins && used.some(q) }
	for _, q := range d.params {
		q.due = due(q) && d.set.stage == 0
	}
	for _, b := range d.buckets {
		for _, c := range b.pieces { // of others this rank is given nothing
			c.of.due = due(c.of)
		}
	}
}

// owed reports whether a sum is due that earlier passes are part of.
func (q *param) owed() bool { return q.due && q.carried }

// unsettable is why SetGrad would be lost, or come to the sum of the ranks, where in one process it replaces what has come; "" if it does what it does there. A gradient that has not come yet is added to it, as ever.
func (d *DataParallel) unsettable(q *param) string {
	switch {
	case d.installing && q.due:
		return "parameter " + excerpt.Quote(q.name) + ": the backward pass under way has yet to give it what the ranks have summed: a post-accumulate hook sets the gradient of its own parameter, or call it when Backward has returned"
	case d.set.stage > 0:
		return d.waiting(q)
	case q.kept && !d.installing:
		return "parameter " + excerpt.Quote(q.name) + ": its gradient has come to those that the ranks sum in the backward pass under way: return another one in its own hook, or call it when Backward has returned"
	}
	return d.untrainable(q)
}

// stillSummed refuses to sum what ZeroGrad has left. It is asked where a pass begins, and where a backward pass puts gradients to those that wait: ZeroGrad may have come in between.
func (d *DataParallel) stillSummed(op string) error {
	if q := d.tooLate; q != nil {
		return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name,
			Detail: "ZeroGrad came within the backward pass, after its gradient had come to those that are summed over the ranks: call it before Backward, or after it"})
	}
	half := d.halfCleared && d.waits()
	if d.halfCleared = half; !half {
		return nil
	}
	return d.fatal(op, d.mistake(op, "ZeroGrad of an optimizer, or of a part, came while gradients of passes in NoSync waited to be summed, of which it has this rank's parts alone: call DataParallel.ZeroGrad or the model's"))
}
