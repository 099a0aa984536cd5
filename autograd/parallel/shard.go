package parallel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// What ZeRO adds to a bucket: an array of the parameters themselves, of which each rank updates a part.

// sharded is that array.
type sharded struct {
	full   *tensor.Tensor // the parameters one behind the other, as long as all shards. With ZeRO 3 only while they are gathered
	shard_ *tensor.Tensor // the rank's part: of full, or with ZeRO 3 memory of its own
	master *tensor.Tensor // the same in float32; nil without MasterWeights

	gathered uint32 // the version of the rank's part that full has
	since    uint32 // with ZeRO 1 and 2: the version of full since it was last gathered, 0 if it was not
	rounded  uint32 // the version of master that shard_ has

	pieces []*piece // what the rank has of each parameter, in the order of the shard

	ready     device.Event // with ZeRO 3: the gather has finished
	waited    bool         // with ZeRO 3: the graph's stream waits for it
	installed bool         // with ZeRO 3: the parameters have their values
	open      int          // with ZeRO 3: forward passes under way that use it
	saved     int          // with ZeRO 3: what operations have saved of it for backward
	again     bool         // with ZeRO 3: backward will repeat a forward pass that uses it
}

// piece is what a rank has of a parameter.
type piece struct {
	of     *param
	p      *autograd.Parameter // flat
	offset int                 // in the shard

	unheard bool // p has a gradient of its own, as of a penalty, which hooks have not been told
}

func (s *sharded) release() (err error) {
	for _, c := range s.pieces {
		autograd.DropGrad(key, c.p)
		autograd.Put(key, c.p, nil, ended)
	}
	s.full.Release()
	s.shard_.Release()
	s.master.Release()
	if s.ready != nil {
		err = s.ready.Close()
	}
	*s = sharded{}
	return err
}

// flatten moves the parameters of a bucket into one array, of which they are views from then on, as is the rank's part.
func (d *DataParallel) flatten(b *bucket) error {
	full, err := tensor.Empty(d.exec, b.dtype, b.padded(d.comm.Size()))
	if err != nil {
		return err
	}
	b.full = full
	mark(full, memmeter.Parameter)
	if err := full.ZeroInPlace(); err != nil { // what is between parameters is sent, and never read
		return err
	}
	for _, q := range b.params {
		t, err := view(full, q.offset, q.p.Shape(), d.exec)
		if err != nil {
			return err
		}
		if err := t.CopyFrom(q.p.Tensor()); err != nil {
			t.Release()
			return err
		}
		autograd.Put(key, q.p, t, "")
	}
	n := b.shard(d.comm.Size())
	b.shard_, err = full.Narrow(0, d.comm.Rank()*n, n)
	return err
}

// cut makes the pieces of the rank's shard.
func (d *DataParallel) cut(b *bucket) (err error) {
	of := b.shard_
	if d.set.master && b.dtype != tensor.Float32 {
		if b.master, err = b.shard_.To(tensor.Float32); err != nil {
			return err
		}
		mark(b.master, memmeter.Parameter)
		of, b.rounded = b.master, b.master.Version()
	}
	b.gathered = b.version()
	for _, at := range b.parts(d.entries(), d.comm.Rank(), d.comm.Size()) {
		t, err := of.Narrow(0, at.offset, at.count)
		if err != nil {
			return err
		}
		q := b.params[at.span]
		b.pieces = append(b.pieces, &piece{of: q, p: autograd.NewParameter(q.name, t), offset: at.offset})
	}
	return nil
}

// mayShard refuses to leave a rank without anything to update, on all ranks alike.
func (d *DataParallel) mayShard(op string, flats []flat, entries []entry, ranks int) error {
	if d.set.stage == 0 {
		return nil
	}
	for rank := range ranks {
		some := slices.ContainsFunc(flats, func(f flat) bool { return len(f.parts(entries, rank, ranks)) > 0 })
		if !some {
			return d.mistake(op, "ZeRO %d: the model is too small for %d ranks: there is nothing for rank %d to keep", d.set.stage, ranks, rank)
		}
	}
	return nil
}

// flats is the layout of the buckets.
func (d *DataParallel) flats() []flat {
	all := make([]flat, len(d.buckets))
	for i, b := range d.buckets {
		all[i] = b.flat
	}
	return all
}

// ended is why a part has no value after Close.
const ended = "it was the part that a rank has of a model's parameter, and DataParallel.Close has ended that: make optimizers anew"

// takeOfPart hears of a part's gradient, as of a penalty of its elements. It stays where it is, and what is reduced comes to it at the end of the pass, which is when hooks of RegisterPostAccumulateGradHook are called.
func (d *DataParallel) takeOfPart(g *autograd.Graph, c *piece) error {
	switch {
	case d.closed:
		return d.mistake("Backward", closedBetween)
	case d.inside:
		return d.mistake("Backward", withinWhole)
	}
	if !autograd.WatchesPasses(key, g, passes{d, g}) {
		autograd.WatchPasses(key, g, penalties{d, g}) // behind the models of the graph, also those that have run since it was first given
	}
	d.penalized.Store(true)
	c.unheard = true
	return nil
}

// installParts gives the rank's part of the reduced gradients to its pieces, and adds what earlier passes have left there.
func (d *DataParallel) installParts(g *autograd.Graph, b *bucket, used usage) error {
	if b.master != nil {
		wide, err := b.own.To(tensor.Float32)
		if err != nil {
			return err
		}
		mark(wide, memmeter.Gradient)
		b.own.Release()
		b.own = wide
	}
	for _, c := range b.pieces {
		if !used.some(c.of) {
			if err := c.tell(g); err != nil {
				return err
			}
			continue
		}
		c.unheard = false
		run, err := b.own.Narrow(0, c.offset, c.p.Len())
		if err != nil {
			return err
		}
		t := run.On(c.p.Tensor().Exec())
		run.Release()
		if have := c.p.Grad(); have != nil {
			err = t.AddInPlace(have, 1)
		}
		if err == nil {
			c.of.due = false
			err = c.p.SetGrad(t)
		}
		if err != nil {
			t.Release()
			return err
		}
		if err := autograd.CallPostHooks(key, g, c.p); err != nil {
			return err
		}
	}
	return nil
}

// hooked is the error of a hook that would never be called.
func (d *DataParallel) hooked(op, name string) error {
	return &Error{Op: op, Rank: d.comm.Rank(), Parameter: name,
		Detail: fmt.Sprintf("it has a hook of RegisterPostAccumulateGradHook, and with ZeRO %d no gradient of its own: register the hook with what ParametersOf has for it, after Data", d.set.stage)}
}

// unheardHooks refuses hooks of RegisterHook of the parts, which would never be called: they are called with a rank's own gradient, as with ZeRO 0, which is the model's parameter's.
func (d *DataParallel) unheardHooks(op string) error {
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			if autograd.HasHooks(key, c.p) {
				return &Error{Op: op, Rank: d.comm.Rank(), Parameter: c.of.name,
					Detail: fmt.Sprintf("this rank's part of it has a hook of RegisterHook, and with ZeRO %d only what all ranks have summed comes there: register it with the model's parameter, where it sees this rank's gradient, or use RegisterPostAccumulateGradHook", d.set.stage)}
			}
		}
	}
	return nil
}

// round brings the shard up to date with what the optimizer has made of its float32 values.
func (b *bucket) round() error {
	if b.master == nil || b.master.Version() == b.rounded {
		return nil
	}
	t, err := b.master.To(b.dtype)
	if err != nil {
		return err
	}
	defer t.Release()
	if err := b.shard_.CopyFrom(t); err != nil {
		return err
	}
	b.rounded = b.master.Version()
	return nil
}

// refresh gathers parameters that are whole, and of which ranks have changed their parts: by an optimizer's step, or whatever else has written to them. After a pass that trains all ranks do, without asking. At other times they ask
// each other, as one may have changed its part where another has none, and all gather, or none. For the ordinary loop, also with NoSync, that sends nothing.
func (d *DataParallel) refresh(op string, trains bool) error {
	if d.set.stage == 0 || d.inside { // Whole has gathered, and puts what changes there into the parts
		return nil
	}
	for _, b := range d.buckets {
		if err := b.round(); err != nil {
			return err
		}
	}
	whole := d.areWhole()
	if len(whole) == 0 {
		d.stale = false
		return nil
	}
	if !d.stale {
		changed := slices.ContainsFunc(whole, (*bucket).changed)
		if d.summed && trains { // what NoSync has added up makes a step an error
			if !changed {
				return nil
			}
			return d.mistake(op, "this rank's part of the parameters was changed after a pass in NoSync, and before the one that sums the gradients: call Whole, or evaluate, in between, which gathers it")
		}
		if some, err := d.anywhere("question whether parameters have changed", changed); err != nil || !some {
			return err
		}
	}
	return d.gatherAgain(whole)
}

// overwritten says what to do where err is that of a value in a bucket's array that an operation has saved before it was gathered again: a part is a view of the array, so that a graph which uses it before Forward finds it changed in place.
func (d *DataParallel) overwritten(err error) error {
	var changed *autograd.ModifiedError
	if !errors.As(err, &changed) {
		return err
	}
	for _, q := range d.params {
		if b := q.bucket; q.name == changed.Parameter && b.master == nil && changed.Expected < b.since {
			return &Error{Op: "Backward", Rank: d.comm.Rank(), Err: err,
				Detail: "a forward pass has gathered what the ranks have made of the parameters since, in place: compute a penalty of the parts after Forward, and go backward through one forward pass before a step and the next"}
		}
	}
	return err
}

// areWhole are the buckets whose parameters are there whole: with ZeRO 3 those that a pass under way, or one that was dropped, has left.
func (d *DataParallel) areWhole() []*bucket {
	var all []*bucket
	for _, b := range d.buckets {
		if b.full != nil {
			all = append(all, b)
		}
	}
	return all
}

// changed reports whether the rank's part is another one than that which was gathered.
func (b *bucket) changed() bool { return b.version() != b.gathered }

// anywhere reports whether a rank says yes.
func (d *DataParallel) anywhere(op string, own bool) (bool, error) {
	mark := int64(0)
	if own {
		mark = 1
	}
	marks, err := d.gatherNumbers(op, mark)
	if err != nil || !d.exec.Computes() { // a simulated device has no numbers: all ranks are as this one
		return own, err
	}
	return slices.Contains(marks, 1), nil
}

// gatherAgain makes buckets that are whole what the ranks have now.
func (d *DataParallel) gatherAgain(whole []*bucket) error {
	if d.set.stage == 3 {
		for _, b := range whole {
			if err := d.send(b); err != nil {
				return err
			}
		}
		d.stale = false
		return nil
	}
	if err := d.behind(); err != nil {
		return err
	}
	for _, b := range whole {
		if err := d.allGather(fmt.Sprintf("all-gather of bucket %d", b.number), b.full, b.shard_); err != nil {
			return err
		}
		b.gathered, b.since = b.version(), b.full.Version()
	}
	d.stale = false
	if err := d.ahead(); err != nil {
		return err
	}
	return d.settled("Run")
}
