package parallel

import (
	"context"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// ZeRO 3: the parameters of a unit are there while they are used.
//
// In the forward pass a unit's parameters are gathered when its module begins, and released when the module's scope ends: what operations save of them for backward is packed as a place in
// the unit's array (packed.go), so that nothing else holds the memory. Backward gathers them again when the first node of the unit unpacks what it saved, and releases them when the last of
// their gradients has come. While a unit computes, the next one is on its way: by the order of the last forward pass, which is that of all ranks. So
// two units are there at most, besides the model's own parameters.

// gathering is the state of it.
type gathering struct {
	layout   []entry
	root     []*bucket // of the model itself
	byModule map[autograd.Located][]*bucket
	sequence []*bucket // in the order of the last forward pass
	walked   []*bucket // so far in this one
	forward  bool      // Run is under way
	runs     *autograd.Graph
	holders  map[*autograd.Parameter]*bucket
	lent     []*bucket // that have been gathered again for a use outside of their units, until the forward pass has ended
}

// gather makes a bucket's parameters whole, on the communication stream, if they are not.
func (d *DataParallel) gather(b *bucket) error {
	if b.full != nil {
		return nil
	}
	full, err := tensor.Empty(d.on, b.dtype, b.padded(d.comm.Size()))
	if err != nil {
		return err
	}
	b.full = full
	mark(full, memmeter.Parameter)
	return d.send(b)
}

// send makes a bucket's array what the ranks have now.
func (d *DataParallel) send(b *bucket) error {
	b.waited = false
	if err := d.behind(); err != nil { // the last step, and earlier work on what is now the memory of full
		return err
	}
	if err := d.allGather(fmt.Sprintf("all-gather of unit %d", b.number), b.full, b.shard_); err != nil {
		return err
	}
	b.gathered = b.version()
	return d.side.Stream().Record(b.ready)
}

// use gathers a bucket, and makes what comes on the graph's stream wait for it.
func (d *DataParallel) use(b *bucket) error {
	if err := d.gather(b); err != nil {
		return err
	}
	if err := d.on.Stream().Wait(b.ready); err != nil {
		return err
	}
	b.waited = true
	return d.comm.Follow(d.on.Stream())
}

// place gives the parameters of a bucket their values.
func (d *DataParallel) place(b *bucket) error {
	if b.installed {
		return nil
	}
	for _, q := range b.params {
		t, err := view(b.full, q.offset, q.p.Shape(), d.exec)
		if err != nil {
			return err
		}
		autograd.Put(key, q.p, t, "")
	}
	b.installed = true
	return nil
}

// unplace takes them away. The graph's leaves would hold the memory: gradients still reach them.
func (d *DataParallel) unplace(g *autograd.Graph, b *bucket) {
	for _, q := range b.params {
		if autograd.Forget(key, g, q.p) && b.unit > 0 {
			q.uses++
		}
		if b.installed {
			autograd.Put(key, q.p, nil, away)
		}
	}
	b.installed = false
}

// free gives the memory of a bucket's parameters back. What was sent for and not used may still be under way.
func (d *DataParallel) free(b *bucket) {
	if !b.waited {
		_ = d.meet() // it has waited, also if there is an error, which the next wait has too
	}
	b.full.Release()
	b.full = nil
}

// vacate takes all parameters away that are gathered, at the end of a pass.
func (d *DataParallel) vacate(g *autograd.Graph) {
	if d.set.stage != 3 {
		return
	}
	for _, b := range d.buckets {
		if b.full != nil {
			d.unplace(g, b)
			d.free(b)
		}
		b.open = 0
	}
}

// leaveBackward is vacate for a bucket whose gradients are there: no node reads its parameters any more.
func (d *DataParallel) leaveBackward(b *bucket) {
	if b.full == nil || b.open > 0 {
		return
	}
	d.unplace(d.graph, b)
	d.free(b)
}

// runSharded is Run for ZeRO 3.
func (d *DataParallel) runSharded(g *autograd.Graph, f func() *autograd.Variable) *autograd.Variable {
	for _, b := range d.root {
		err := d.use(b)
		if err == nil {
			err = d.place(b)
		}
		if err != nil {
			return g.Refuse(pass, d.fatal("Run", err))
		}
	}
	d.forward, d.walked, d.runs = true, nil, g
	defer func() {
		for _, b := range d.lent {
			d.leave(g, b)
		}
		d.forward, d.runs, d.lent = false, nil, nil
		if !g.GradEnabled() || g.Err() != nil {
			d.vacate(g)
		}
	}()
	v := autograd.WatchModules(key, g, watcher{d}, func() *autograd.Variable { return g.SavedTensors(packer{d}, f) })
	d.sequence = d.walked
	if err := d.settled("Run"); err != nil {
		return g.Refuse(pass, d.fatal("Run", err))
	}
	return v
}

// watcher is told of the forward passes of modules.
type watcher struct{ d *DataParallel }

// Enter gathers the parameters of a unit, and sends for those of the next.
func (w watcher) Enter(g *autograd.Graph, m autograd.Located) error {
	again := w.d.forward && g != w.d.runs && w.d.runs.GradEnabled() // in a checkpoint's graph
	if again {
		for _, b := range w.d.buckets { // also units around the checkpoint, whose parameters it may use
			b.again = b.again || b.open > 0
		}
	}
	for _, b := range w.d.byModule[m] {
		b.again = again
		if err := w.d.enter(b); err != nil {
			return w.d.fatal("Run", err)
		}
	}
	return nil
}

func (d *DataParallel) enter(b *bucket) error {
	if err := d.use(b); err != nil {
		return err
	}
	if err := d.place(b); err != nil {
		return err
	}
	b.open++
	if !d.forward { // a checkpoint repeats it
		return d.prefetchBefore(b)
	}
	d.walked = append(d.walked, b)
	at := len(d.walked)
	if at >= len(d.sequence) || d.sequence[at-1] != b {
		return nil
	}
	return d.gather(d.sequence[at])
}

// prefetchBefore sends for the unit that backward comes to next.
func (d *DataParallel) prefetchBefore(b *bucket) error {
	for at := len(d.sequence) - 1; at > 0; at-- {
		if d.sequence[at] != b {
			continue
		}
		if before := d.sequence[at-1]; before.saved > 0 || before.again {
			return d.gather(before)
		}
		return nil
	}
	return nil
}

// Leave takes the parameters of a unit away when its forward pass has ended.
func (w watcher) Leave(g *autograd.Graph, m autograd.Located) {
	for _, b := range w.d.byModule[m] {
		w.d.leave(g, b)
	}
}

func (d *DataParallel) leave(g *autograd.Graph, b *bucket) {
	if b.open == 0 { // Enter has failed
		return
	}
	if b.open--; b.open > 0 {
		return
	}
	d.unplace(g, b)
	if d.forward {
		d.free(b) // in backward its nodes come next
	}
}

// Repeat gathers the units around a checkpoint that runs once more for backward: their modules do not begin again. In the order of the units, which is that of all ranks.
func (w watcher) Repeat(g *autograd.Graph, used []*autograd.Parameter) (done func(), err error) {
	d := w.d
	if d.closed {
		return nil, d.mistake("Backward", closedBetween)
	}
	var opened []*bucket
	done = func() {
		for _, b := range opened {
			d.leave(g, b)
		}
	}
	for _, b := range d.buckets {
		if b.unit == 0 || !slices.ContainsFunc(used, func(p *autograd.Parameter) bool { return d.holders[p] == b }) {
			continue
		}
		if err := d.enter(b); err != nil {
			done()
			return nil, d.wrong("Backward", err)
		}
		opened = append(opened, b)
	}
	return done, nil
}

// lend gathers the unit of a parameter once more that the forward pass uses when the unit has run, as a model that multiplies by the weight of its embedding in the end. Until that pass has ended it stays, as nobody says when it was used last. What is used before its unit runs is an error, as is
// what no module tells of: it would be whole in all passes, and nobody would know.
func (d *DataParallel) lend(p *autograd.Parameter) error {
	b := d.holders[p]
	if b == nil || b.installed || !d.forward || !slices.Contains(d.walked, b) {
		return nil
	}
	if err := d.enter(b); err != nil {
		return d.fatal("Run", err)
	}
	d.lent = append(d.lent, b)
	return nil
}

// packer keeps of what operations save the place in a unit's array instead of the memory.
type packer struct{ d *DataParallel }

// Pack implements autograd.SavedTensorHooks.
func (k packer) Pack(t *tensor.Tensor, _ bool) (autograd.Packed, error) {
	at := slices.IndexFunc(k.d.buckets, func(b *bucket) bool { return b.full != nil && t.SharesStorage(b.full) })
	if at < 0 {
		return nil, nil
	}
	place := tensor.PlaceIn(key, t)
	k.d.buckets[at].saved++
	return packed{k.d, k.d.buckets[at], place.At, k.d.buckets[at].version()}, nil
}

// packed is such a place.
type packed struct {
	d  *DataParallel
	b  *bucket
	at func(base *tensor.Tensor, e tensor.Exec) (*tensor.Tensor, error)

	version uint32 // of the values
}

// version counts the changes of what the rank has of the values.
func (b *bucket) version() uint32 {
	if b.master != nil {
		return b.master.Version()
	}
	return b.shard_.Version()
}

// Unpack implements autograd.Packed: it gathers the unit, and sends for the one that comes next.
func (p packed) Unpack(e tensor.Exec) (*tensor.Tensor, error) {
	if p.d.closed {
		return nil, p.d.mistake("Backward", closedBetween)
	}
	if now := p.b.version(); now != p.version { // what was gathered for the forward pass is gone, and what would be gathered now is something else
		return nil, &Error{Op: "Backward", Rank: p.d.comm.Rank(), Err: autograd.ErrModified,
			Detail: fmt.Sprintf("the parameters of unit %d are at version %d, and the forward pass has used version %d, before an optimizer's step or the like", p.b.number, now, p.version)}
	}
	err := p.d.use(p.b)
	if err == nil && !p.d.forward {
		err = p.d.prefetchBefore(p.b)
	}
	if err != nil {
		return nil, p.d.wrong("Backward", err)
	}
	return p.at(p.b.full, e)
}

// Release implements autograd.Packed. It holds no memory.
func (p packed) Release() { p.b.saved-- }

// whole gathers all parameters.
func (d *DataParallel) whole(op string) error {
	switch {
	case d.closed:
		return d.mistake(op, "the DataParallel is closed")
	case d.broken != nil:
		return d.broken
	}
	d.on = d.exec
	err := d.refresh(op, false)
	if d.set.stage == 3 {
		for _, b := range d.buckets {
			if err == nil {
				err = d.use(b)
			}
			if err == nil {
				err = d.place(b)
			}
		}
	}
	if err == nil { // also on streams that are queues: what is read now must be what the group has made
		err = d.wrong(op, d.side.Stream().Synchronize(context.Background()))
	}
	if err != nil {
		d.vacate(nil)
	}
	return d.fatal(op, err)
}

// Unshard is Close for a model that is used, or trained, without the group from then on: its parameters have all of their values, on all ranks. Calling it again is harmless; after Close, which has left a
// sharded model (ZeRO 1 to 3) without values, it is an error. While gradients of NoSync wait to be summed over the ranks it is one too, of all ranks (with ZeRO 0 of each that has some), and the group goes on.
func (d *DataParallel) Unshard() error {
	const op = "Unshard"
	if d == nil || d.comm == nil {
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	}
	if d.unsharded || d.closed && d.set.stage == 0 { // the model has its values
		return nil
	}
	if !d.closed && d.underWay() {
		return d.mistake(op, duringPass)
	}
	if !d.closed && d.broken == nil { // else whole has an error
		if err := d.mayLeave(op); err != nil {
			return err
		}
	}
	if err := d.whole(op); err != nil {
		return err
	}
	d.unsharded = true
	for _, b := range d.buckets {
		b.full.Release() // the parameters hold the memory
		b.full = nil
	}
	return d.Close()
}
