package parallel

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// Gradients arrive, each in one part or in several, and go into their buckets.

// take is the sink of a parameter's gradient.
func (d *DataParallel) take(g *autograd.Graph, q *param, t *tensor.Tensor) (bool, error) {
	known := autograd.WatchesPasses(key, g, passes{d, g})
	if known { // else nobody tells of the end of the pass
		d.reached.Store(true)
	}
	if err := d.barred(g, q); err != nil { // by a hook since the pass has begun
		return false, err
	}
	if d.set.stage == 0 && d.noSync {
		if !known { // its end is not told
			d.summed = true
		}
		q.unsent = true
		return false, nil
	}
	const op = "Backward"
	if !d.inUse.CompareAndSwap(false, true) {
		return false, d.twice(op)
	}
	defer d.inUse.Store(false)
	b := q.bucket
	if b.done {
		return false, d.wrong(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: d.lateDetail()})
	}
	if d.set.stage > 0 && autograd.HasPostHooks(key, q.p) {
		return false, d.hooked(op, q.name)
	}
	if err := d.stillSummed(op); err != nil {
		return false, err
	}
	if err := b.put(q, t, d.on, d.comm.Size(), d.set.stage); err != nil {
		return false, d.wrong(op, err)
	}
	t.Release()
	q.arrived++
	d.arrivals++
	if q.finished || q.arrived != d.expected(q) {
		return true, nil
	}
	q.finished = true // once, also where the second run of a checkpoint has another use of it
	d.completed = append(d.completed, q)
	if b.pending--; b.pending > 0 {
		return true, nil
	}
	d.complete(b)
	if d.noSync {
		return true, nil
	}
	return true, d.reduceReady()
}

// barred is why a backward pass over g may have no gradient for q: it would be this rank's alone. It is asked before the pass begins, when no hook was called and everything is as it was, and again where the gradient comes, as Data may have been called since then.
func (d *DataParallel) barred(g *autograd.Graph, q *param) error {
	const op = "Backward"
	switch {
	case d.inside:
		return d.mistake(op, withinWhole)
	case d.set.stage == 0 && d.noSync, autograd.WatchesPasses(key, g, passes{d, g}):
		return nil
	}
	return &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: unknownGraph}
}

// unknownGraph is why: the pass reduces nothing.
const unknownGraph = "it has a gradient from a graph whose forward pass was not run by Run or Forward: call DataParallel.Forward in place of the model's, and add a penalty of the parameters to the loss, in one backward pass"

// lateDetail is why a part of a gradient came too late.
func (d *DataParallel) lateDetail() string {
	if !d.set.parts {
		return "another part of its gradient has come after it was reduced, as of checkpointed regions that share it, of more forward passes than came since the last backward pass, or of a use in Whole: ask for GradientsInParts, an option of Data"
	}
	return "another part of its gradient has come after it was reduced: passes before, from which GradientsInParts learns, had fewer parts: make the pass with most of them first"
}

// expected is in how many parts the gradient of a parameter comes, 0 if that is not known. What was learned with other numbers of uses says nothing of this pass.
func (d *DataParallel) expected(q *param) int {
	switch {
	case !d.set.parts:
		return max(q.uses, 1)
	case q.uses != q.learned:
		return 0
	}
	return q.expected
}

// put adds a gradient to the bucket, and with ZeRO 0 what earlier passes have left.
func (b *bucket) put(q *param, t *tensor.Tensor, e tensor.Exec, ranks, stage int) error {
	slot, err := b.slot(q, e, ranks, stage)
	if err != nil {
		return err
	}
	defer slot.Release()
	if q.kept {
		return slot.AddInPlace(t, 1)
	}
	if err := slot.CopyFrom(t); err != nil {
		return err
	}
	q.kept = true
	return b.addEarlier(q, slot)
}

// addEarlier moves what earlier passes have left in Grad into the bucket.
func (b *bucket) addEarlier(q *param, slot *tensor.Tensor) error {
	have := q.p.Grad()
	if have == nil {
		return nil
	}
	h := have.On(slot.Exec())
	defer h.Release()
	if err := slot.AddInPlace(h, 1); err != nil {
		return err
	}
	autograd.DropGrad(key, q.p) // ZeroGrad would take from the bucket what was put there
	q.carried = true
	return nil
}

// slot is the place of a parameter's gradient in the bucket's array, which is made for the first one.
func (b *bucket) slot(q *param, e tensor.Exec, ranks, stage int) (*tensor.Tensor, error) {
	if b.grad == nil {
		n := b.count
		if stage > 0 {
			n = b.padded(ranks)
		}
		t, err := tensor.Empty(e, b.dtype, n)
		if err != nil {
			return nil, err
		}
		b.grad = t
		mark(t, memmeter.Gradient)
	}
	return view(b.grad, q.offset, q.p.Shape(), e)
}

// view is a parameter's place in a flat array, under e.
func view(of *tensor.Tensor, offset int, shape tensor.Shape, e tensor.Exec) (*tensor.Tensor, error) {
	run, err := of.Narrow(0, offset, shape.Len())
	if err != nil {
		return nil, err
	}
	defer run.Release()
	t, err := run.View(shape...)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	return t.On(e), nil
}

// learnParts notes in how many parts gradients have come, where that is more than was known, or of more uses. A pass of fewer is reduced at its end: the next one may have them again.
func (d *DataParallel) learnParts() {
	for _, q := range d.params {
		if q.arrived == 0 {
			continue
		}
		if q.expected == 0 {
			d.completed = append(d.completed, q)
		}
		if q.arrived > q.expected || q.uses > q.learned {
			q.expected, q.learned = max(q.expected, q.arrived), q.uses
		}
	}
}
