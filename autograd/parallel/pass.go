package parallel

import (
	"context"
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/memmeter"
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
		q.arrived, q.uses, q.carried = 0, 0, q.kept
	}
}

// take is the sink of a parameter's gradient.
func (d *DataParallel) take(q *param, t *tensor.Tensor) (bool, error) {
	d.reached.Store(true)
	if d.set.stage == 0 && d.noSync && !d.inside {
		return false, nil
	}
	const op = "Backward"
	if !d.inUse.CompareAndSwap(false, true) {
		return false, d.twice(op)
	}
	defer d.inUse.Store(false)
	b := q.bucket
	switch {
	case d.inside:
		return false, d.mistake(op, withinWhole)
	case d.graph == nil:
		return false, d.wrong(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: "it has a gradient from a graph whose forward pass was not run by Run or Forward"})
	case b.done:
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
	if q.arrived != d.expected(q) {
		return true, nil
	}
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

// reduceReady reduces the buckets that are complete and whose turn it is.
func (d *DataParallel) reduceReady() error {
	for d.next < len(d.launch) && d.launch[d.next].pending == 0 {
		if err := d.reduce(d.launch[d.next]); err != nil {
			return err
		}
		d.next++
	}
	return nil
}

// reduce enqueues the reduction of a bucket on the communication stream.
func (d *DataParallel) reduce(b *bucket) error {
	b.done = true
	what := fmt.Sprintf("of bucket %d", b.number)
	if d.set.stage == 0 {
		if err := d.behind(); err != nil {
			return err
		}
		return d.allReduce("all-reduce "+what, b.grad, comm.Mean)
	}
	if err := d.dropReduced(); err != nil {
		return err
	}
	var err error
	shard := b.shard(d.comm.Size())
	if d.set.stage == 1 { // in place: the gradients stay, and the rank's part is in its place
		b.own, err = b.grad.Narrow(0, d.comm.Rank()*shard, shard)
	} else {
		b.own, err = tensor.Empty(d.on, b.dtype, shard)
		mark(b.own, memmeter.Gradient)
	}
	if err != nil {
		return err
	}
	if err := d.behind(); err != nil { // also behind earlier work on what is now the memory of own
		return err
	}
	if err := d.reduceScatter("reduce-scatter "+what, b.own, b.grad); err != nil {
		return err
	}
	if d.set.stage == 1 { // own keeps the memory, and all of it
		b.grad.Release()
		b.grad = nil
		return nil
	}
	d.reduced = b
	return nil
}

// dropReduced releases the whole gradients of the bucket that was reduced before, when the graph's stream has waited for it: it can be one bucket ahead of the communication, and
// not more, so that the gradients of two are there at most.
func (d *DataParallel) dropReduced() error {
	b := d.reduced
	if b == nil {
		return nil
	}
	d.reduced = nil
	err := d.meet()
	b.grad.Release()
	b.grad = nil
	return err
}

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
	p.d.reached.Store(false)
	if !concerned && !p.d.set.unused && !p.d.closed {
		return nil
	}
	return p.d.ended(p.g, err)
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
	return p.d.fatal("Backward", err)
}

// ended is what happens at the end of a backward pass over g.
func (d *DataParallel) ended(g *autograd.Graph, err error) error {
	done := false
	defer d.guard("Backward", &done) // of a hook for reduced gradients
	err = d.endPass(g, err)
	done = true
	return err
}

// endPass is what ended does.
func (d *DataParallel) endPass(g *autograd.Graph, err error) error {
	const op = "Backward"
	if d.closed {
		if err == nil && d.cutOff == g {
			err = d.mistake(op, "the DataParallel was closed between the forward and the backward pass, whose gradients are this rank's alone")
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

// usedAnywhere says of each parameter whether any rank has used it: nil if all are.
func (d *DataParallel) usedAnywhere() (map[*param]bool, error) {
	const op = "all-reduce of the parameters used"
	if !d.set.unused {
		return nil, nil
	}
	marks := make([]int64, len(d.params))
	for i, q := range d.params {
		if q.kept {
			marks[i] = 1
		}
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
	used := make(map[*param]bool, len(marks))
	for i, q := range d.params {
		used[q] = marks[i] != 0
	}
	return used, nil
}

// settled finds the errors of collectives. Where the program's stream runs inline it waits, as the next operation would; on other devices it only looks.
func (d *DataParallel) settled(op string) error {
	if e, ok := d.exec.Stream().(device.Executor); ok && e.Mode() == device.ExecInline {
		return d.wrong(op, d.side.Stream().Synchronize(context.Background()))
	}
	_, err := d.side.Stream().Done()
	return d.wrong(op, err)
}

// installAll is install for all buckets.
func (d *DataParallel) installAll(g *autograd.Graph, used map[*param]bool) error {
	d.mayClear(true)
	defer d.mayClear(false)
	for _, b := range d.buckets {
		if err := d.install(g, b, used); err != nil {
			return err
		}
	}
	return d.stillSummed("Backward")
}

// install gives the reduced gradients of a bucket to its parameters, or to the rank's parts of them, and calls the hooks that wait for that: they may take a step, and
// release the gradient.
func (d *DataParallel) install(g *autograd.Graph, b *bucket, used map[*param]bool) error {
	defer b.drop()
	if d.set.stage > 0 {
		return d.installParts(g, b, used)
	}
	for _, q := range b.params {
		if used != nil && !used[q] {
			continue
		}
		t, err := view(b.grad, q.offset, q.p.Shape(), q.p.Tensor().Exec())
		if err != nil {
			return err
		}
		if err := q.p.SetGrad(t); err != nil {
			t.Release()
			return err
		}
		q.owed = false
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

// learn takes the order in which backward has finished the gradients for the passes that come: rank 0's, on all ranks. It is done once; and not where
// parameters may be unused, because they have no place in it.
func (d *DataParallel) learn() error {
	if d.learned || d.set.unused {
		return nil
	}
	d.learned = true
	if len(d.buckets) == 1 {
		return nil
	}
	index := map[*param]int64{}
	for i, q := range d.params {
		index[q] = int64(i)
	}
	own := make([]int64, 0, len(d.params))
	for _, q := range d.completed {
		own = append(own, index[q])
	}
	if len(own) != len(d.params) { // parameters that earlier passes alone have used
		own = own[:0]
		for _, i := range reversed(len(d.params)) {
			own = append(own, int64(i))
		}
	}
	order, err := d.broadcastNumbers("broadcast of the order of buckets", own)
	if err != nil {
		return err
	}
	if !d.exec.Computes() { // a simulated device has no numbers: all ranks are as this one
		order = own
	}
	return d.rearrange(order)
}

// rearrange makes the buckets anew in an order of the parameters; with ZeRO, where parameters have their places, it changes the order in which they are reduced.
func (d *DataParallel) rearrange(order []int64) error {
	ints, seen := make([]int, len(order)), map[int]bool{}
	for i, v := range order {
		if ints[i] = int(v); v < 0 || int(v) >= len(d.params) || seen[int(v)] {
			return d.mistake("broadcast of the order of buckets", "rank 0 has sent parameter %d at place %d", v, i)
		}
		seen[ints[i]] = true
	}
	d.order = ints
	if d.set.stage == 0 {
		d.bucketBy(ints)
		return nil
	}
	left := map[*bucket]int{}
	d.launch = d.launch[:0]
	for _, i := range ints {
		b := d.params[i].bucket
		if left[b]++; left[b] == len(b.params) {
			d.launch = append(d.launch, b)
		}
	}
	return nil
}

// bucketBy makes the buckets of ZeRO 0 in an order of the parameters.
func (d *DataParallel) bucketBy(order []int) {
	d.setBuckets(bucketed(d.entries(), order, d.set.first, d.set.rest, false))
}

// setBuckets makes the buckets of a layout.
func (d *DataParallel) setBuckets(flats []flat) {
	d.buckets = nil
	for i, f := range flats {
		b := &bucket{flat: f, number: i, pending: len(f.spans)}
		for _, s := range f.spans {
			q := d.params[s.entry]
			q.bucket, q.offset = b, s.offset
			b.params = append(b.params, q)
		}
		d.buckets = append(d.buckets, b)
	}
	d.launch = append([]*bucket(nil), d.buckets...)
}

// entries is what the layout needs to know of the parameters.
func (d *DataParallel) entries() []entry {
	if d.layout != nil {
		return d.layout
	}
	all := make([]entry, len(d.named))
	for i, n := range d.named {
		all[i] = entry{name: n.Name, dtype: n.Parameter.Tensor().DType(), count: n.Parameter.Len()}
	}
	return all
}

// arrange lays the parameters out.
func (d *DataParallel) arrange() error {
	for _, n := range d.named {
		d.params = append(d.params, &param{name: n.Name, p: n.Parameter})
	}
	switch all := reversed(len(d.params)); d.set.stage {
	case 0:
		d.bucketBy(all)
		return nil
	case 3:
		return d.arrangeUnits()
	default:
		d.setBuckets(bucketed(d.entries(), all, d.set.first, d.set.rest, true))
	}
	for _, b := range d.buckets {
		if err := d.flatten(b); err != nil {
			return err
		}
		if err := d.cut(b); err != nil {
			return err
		}
	}
	return d.mayShard("Data", d.flats(), d.entries(), d.comm.Size())
}
