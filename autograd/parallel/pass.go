package parallel

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/tensor"
)

// A backward pass, from the first gradient to the last bucket.
//
// Gradients arrive from autograd one by one (take), and go into their bucket's array at once, so that the memory in which backward has made them is free again. When a bucket
// has all of its gradients, it is reduced on the communication stream, while backward goes on; but always in the order that all ranks have. What is left at the end of the pass (ended)
// is reduced then, the streams are joined, and the gradients are given to the parameters.

// bucket is what is sent at once.
type bucket struct {
	flat
	number  int
	params  []*param // those of flat's spans
	pending int      // parameters whose gradients this pass has not finished
	done    bool     // reduced in this pass

	grad *tensor.Tensor // the gradients of this rank; nil while there are none
	own  *tensor.Tensor // the rank's part of the reduced gradients, from the reduction to the end of the pass

	sharded
}

// drop releases the gradients.
func (b *bucket) drop() {
	b.grad.Release()
	b.own.Release()
	b.grad, b.own = nil, nil
	for _, q := range b.params {
		q.kept = false
	}
}

// reset prepares for a pass. What NoSync has left in buckets stays.
func (d *DataParallel) reset() {
	d.next, d.arrivals, d.completed = 0, 0, d.completed[:0]
	for _, b := range d.buckets {
		b.pending, b.done = len(b.params), false
	}
	for _, q := range d.params {
		q.arrived, q.uses, q.finished, q.carried = 0, 0, false, q.kept
	}
}

// underWay reports whether a backward pass is: then it is a hook that asks. One that has failed leaves what has arrived.
func (d *DataParallel) underWay() bool {
	return d.installing || d.arrivals > 0 && d.broken == nil || autograd.InBackward(key, d.graph)
}

// duringPass is why a hook may not call what ends the group, or wants all gradients.
const duringPass = "a backward pass is under way, whose hook has called it: call it when Backward has returned"

// passes is told of the backward passes over a graph.
type passes struct {
	d *DataParallel
	g *autograd.Graph
}

// Reached implements autograd.PassWatcher.
func (p passes) Reached() bool { return p.d.reached.Load() }

// Ended implements it. With several models in the graph, as those of a GAN, a pass concerns those that it has reached, on all ranks the same ones. What it has not reached waits for the pass that does. With FindUnused a rank may rightly
// reach nothing where others do.
func (p passes) Ended(err error, concerned bool) error {
	reached := p.d.reached.Swap(false)
	penalized := p.d.penalized.Swap(false)
	if !concerned && !p.d.set.unused && !p.d.closed {
		return nil
	}
	var alone *Error
	switch {
	case reached:
	case penalized:
		alone = &Error{Op: "Backward", Rank: p.d.comm.Rank(), Detail: "the pass has come to the ranks' parts alone, as that of a penalty does: add it to the loss, in one backward pass"}
	default:
		alone = anotherModel(p.g)
	}
	return p.d.ended(p.g, err, alone)
}

// anotherModel is the error of a pass that has come to parts of a model alone, for the others that have run in the graph: what they miss is not their fault. It is nil if the pass has come to no parts. Those of a
// model that has not run come last among who is told (takeOfPart), so that all are known here.
func anotherModel(g *autograd.Graph) *Error {
	for _, w := range autograd.PassWatchers(key, g) {
		var d *DataParallel
		switch w := w.(type) {
		case passes:
			d = w.d
		case penalties:
			d = w.d
		}
		if d != nil && d.penalized.Load() {
			return &Error{Op: "Backward", Rank: d.comm.Rank(), Parameter: d.firstUnheard(),
				Detail: fmt.Sprintf("the pass has come to this rank's part of it, in a %T, and to no parameter of a model that has run in the graph: add the penalty to a loss, in one backward pass, or compute it in a graph of its own", d.model)}
		}
	}
	return nil
}

// Admit implements it.
func (p passes) Admit(q *autograd.Parameter) error {
	if p.d.closed {
		return nil
	}
	return p.d.newcomer(p.g, q)
}

// Refused implements it: the others wait for the pass that this rank does not make.
func (p passes) Refused(err error) error {
	if p.d.closed {
		return err
	}
	return p.d.fatal("Backward", p.d.overwritten(err))
}

// ended is what happens at the end of a backward pass over g. alone is the error of parameters without a gradient in a pass that has come to parts alone, nil in others.
func (d *DataParallel) ended(g *autograd.Graph, err error, alone *Error) error {
	done := false
	defer d.guard("Backward", &done) // of a hook for reduced gradients
	err = d.endPass(g, err, alone)
	done = true
	return err
}

// endPass is what ended does.
func (d *DataParallel) endPass(g *autograd.Graph, err error, alone *Error) error {
	const op = "Backward"
	if d.closed {
		if err == nil && d.cutOff == g {
			err = d.mistake(op, closedBetween+", whose gradients are this rank's alone")
		}
		d.cutOff = nil
		return err
	}
	d.awaited = false
	if err == nil {
		err = d.broken
	}
	if err == nil {
		err = d.finish(g)
	}
	var unused *UnusedError
	if alone != nil && errors.As(err, &unused) {
		if alone.Parameter == "" { // those that are missing are the penalty's own
			alone.Err = err
		}
		err = alone
	}
	if err != nil && d.side.Stream() != nil {
		if failed := d.meet(); failed != nil {
			err = &Error{Op: op, Rank: d.comm.Rank(), Err: errors.Join(err, failed)}
		}
		d.reduced = nil
	}
	if !d.inside { // Whole takes away what it has gathered
		d.vacate(g)
	}
	if err != nil {
		for _, b := range d.buckets {
			b.drop()
		}
		return d.fatal(op, err)
	}
	d.reset()
	return nil
}

// finish reduces what is left and gives the gradients to the parameters.
func (d *DataParallel) finish(g *autograd.Graph) error {
	if d.summed = d.noSync; d.noSync {
		return nil
	}
	if err := d.unheardHooks("Backward"); err != nil {
		return err
	}
	if err := d.stillSummed("Backward"); err != nil { // hooks may have come after the last gradient
		return err
	}
	if d.set.parts {
		d.learnParts()
	}
	missing, err := d.fill()
	if err != nil {
		return err
	}
	if len(missing) > 0 && !d.set.unused {
		return &UnusedError{Rank: d.comm.Rank(), Parameters: missing}
	}
	for _, b := range d.buckets {
		b.pending = 0
	}
	if err := d.reduceReady(); err != nil {
		return err
	}
	used, err := d.usedAnywhere()
	if err != nil {
		return err
	}
	if err := d.dropReduced(); err != nil {
		return err
	}
	if err := d.ahead(); err != nil {
		return err
	}
	if err := d.settled("Backward"); err != nil {
		return err
	}
	if err := d.installAll(g, used); err != nil {
		return err
	}
	d.stale = d.set.stage == 1 || d.set.stage == 2 || d.set.master
	return d.learn()
}

// fill puts zeros in the place of gradients that have not come, and returns the names of their parameters.
func (d *DataParallel) fill() (missing []string, err error) {
	for _, q := range d.params {
		if q.kept {
			continue
		}
		slot, err := q.bucket.slot(q, d.on, d.comm.Size(), d.set.stage)
		if err != nil {
			return nil, err
		}
		earlier := q.p.Grad() != nil
		if err = slot.ZeroInPlace(); err == nil {
			err = q.bucket.addEarlier(q, slot)
		}
		slot.Release()
		if err != nil {
			return nil, err
		}
		if q.kept = earlier; !earlier {
			missing = append(missing, q.name)
		}
	}
	return missing, nil
}

// usage is what the ranks have of each parameter's gradient at the end of a pass: the most that any has. nil is that all are used.
type usage map[*param]int64

const (
	ofBefore   int64 = 1 + iota // one that was there before, and to which no rank has added
	ofThisPass                  // one of this pass, or of those in NoSync that it sums
)

// some reports whether a rank has a gradient.
func (u usage) some(q *param) bool { return u == nil || u[q] > 0 }

// fresh reports whether passes that are summed now have given one: hooks wait for that.
func (u usage) fresh(q *param) bool { return u == nil || u[q] == ofThisPass }

// usedHere is what this rank has.
func (d *DataParallel) usedHere(q *param) int64 {
	switch {
	case !q.kept:
		return 0
	case d.set.stage == 0 && q.arrived == 0 && !q.unsent: // else what is kept is of passes alone
		return ofBefore
	}
	return ofThisPass
}

// usedAnywhere says of each parameter whether any rank has used it: nil if all are.
func (d *DataParallel) usedAnywhere() (usage, error) {
	const op = "all-reduce of the parameters used"
	if !d.set.unused {
		return nil, nil
	}
	marks := make([]int64, len(d.params))
	for i, q := range d.params {
		marks[i] = d.usedHere(q)
	}
	t, err := tensor.FromSlice(d.side, marks, len(marks))
	if err != nil {
		return nil, err
	}
	defer t.Release()
	if err := d.allReduce(op, t, comm.Max); err != nil {
		return nil, err
	}
	if marks, err = d.read(op, t); err != nil {
		return nil, err
	}
	if !d.exec.Computes() {
		return nil, nil
	}
	used := make(usage, len(marks))
	for i, q := range d.params {
		used[q] = marks[i]
	}
	return used, nil
}

// installAll is install for all buckets.
func (d *DataParallel) installAll(g *autograd.Graph, used usage) error {
	d.give(true, used)
	defer d.give(false, nil)
	for _, b := range d.buckets {
		if err := d.install(g, b, used); err != nil {
			return err
		}
	}
	return d.stillSummed("Backward")
}

// install gives the reduced gradients of a bucket to its parameters, or to the rank's parts of them, and calls the hooks that wait for that: they may take a step, and
// release the gradient.
func (d *DataParallel) install(g *autograd.Graph, b *bucket, used usage) error {
	defer b.drop()
	if d.set.stage > 0 {
		return d.installParts(g, b, used)
	}
	for _, q := range b.params {
		q.unsent = false
		if !used.some(q) {
			continue
		}
		t, err := view(b.grad, q.offset, q.p.Shape(), q.p.Tensor().Exec())
		if err != nil {
			return err
		}
		q.due = false
		if err := q.p.SetGrad(t); err != nil {
			t.Release()
			return err
		}
		if !used.fresh(q) {
			continue
		}
		if err := autograd.CallPostHooks(key, g, q.p); err != nil {
			return err
		}
	}
	return nil
}

// complete is what can be done when backward has finished the gradients of a bucket.
func (d *DataParallel) complete(b *bucket) {
	if d.set.stage == 3 {
		d.leaveBackward(b)
	}
}
