package parallel

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Whole runs f with all parameters whole, on all ranks, as to save the model, or to load values into it: what f changes of the parameters, the same on all ranks, or
// replaces by tensors of the same type on the device, goes to the ranks' parts when it returns, also with an error. With MasterWeights, elements that have the value that they had keep
// their float32. What copies a model (nn.Save, nn.Clone, nn.EMA and its Update, nn.SoftUpdate, a checkpoint.Module) is an error elsewhere when the parameters are not those of the last update. A parameter is replaced by Parameter.Release, which releases its gradient too, with ZeRO 1 to 3 that of the rank's part, and SetTensor of the other.
//
// f has no collectives of its own unless all ranks run it. All ranks may evaluate in it (Forward and Run without gradients), also what it has changed; Whole within Whole is the same one. f does not train: an
// optimizer's step is an error there, and a pass that trains, a backward pass and, with ZeRO 1 to 3, a clip end the group. With ZeRO 0 parameters always are whole.
func (d *DataParallel) Whole(f func() error) error {
	const op = "Whole"
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case f == nil:
		return d.mistake(op, "the function is nil")
	}
	if d.forward {
		return d.fatal(op, d.mistake(op, "the forward pass of Run is under way, which with ZeRO 3 gathers the parameters itself: call it before or after"))
	}
	if d.inside && !d.closed && d.broken == nil {
		return f()
	}
	done := false
	defer d.guard(op, &done)
	err := d.wholly(op, f)
	done = true
	return err
}

// withinWhole is why what trains is refused there: with ZeRO 1 to 3 the ranks' parts get what f has changed when it returns, and a rank that steps has its own part of the update alone.
const withinWhole = "within Whole the model is read or loaded, and not trained: do it after Whole has returned"

// wholly is Whole.
func (d *DataParallel) wholly(op string, f func() error) error {
	if err := d.whole(op); err != nil {
		return err
	}
	d.inside = true
	defer func() { d.inside = false }()
	if d.set.stage == 0 {
		return f()
	}
	if d.set.stage == 3 {
		defer d.vacate(nil)
	}
	before := make([]uint32, len(d.buckets))
	for i, b := range d.buckets {
		before[i] = b.full.Version()
	}
	err := f()
	if d.closed { // f has called Close, or Unshard
		return err
	}
	err = errors.Join(err, d.allBack(op))
	for i, b := range d.buckets {
		if b.full.Version() != before[i] {
			err = errors.Join(err, d.fatal(op, d.adopt(b)))
		}
	}
	return err
}

// allBack is comeBack for all buckets.
func (d *DataParallel) allBack(op string) (err error) {
	for _, b := range d.buckets {
		err = errors.Join(err, d.comeBack(op, b))
	}
	return err
}

// comeBack puts the values of parameters that have other tensors now into the bucket's array, whose views they are again.
func (d *DataParallel) comeBack(op string, b *bucket) (err error) {
	for _, q := range b.params {
		t := q.p.Tensor()
		if t.SharesStorage(b.full) {
			continue
		}
		place, failed := view(b.full, q.offset, q.p.Shape(), d.exec)
		if failed != nil {
			return errors.Join(err, d.fatal(op, failed))
		}
		if why := b.foreign(t); why != "" {
			err = errors.Join(err, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: why + ": change it before Data"})
		} else if failed := copyOver(place, t); failed != nil {
			err = errors.Join(err, d.fatal(op, failed))
		}
		autograd.Put(key, q.p, place, "")
	}
	return err
}

// foreign is why the array cannot have a value in it, "" if it can.
func (b *bucket) foreign(t *tensor.Tensor) string {
	switch {
	case t == nil:
		return "the function has released it"
	case t.DType() != b.dtype:
		return fmt.Sprintf("it is of %v now, and was of %v", t.DType(), b.dtype)
	case t.Device().ID() != b.full.Device().ID():
		return fmt.Sprintf("it is on %v now, and was on %v", t.Device().ID(), b.full.Device().ID())
	}
	return ""
}

// copyOver copies from whatever stream src is on.
func copyOver(dst, src *tensor.Tensor) error {
	if err := order(src.Exec().Stream(), dst.Exec().Stream()); err != nil {
		return err
	}
	return dst.CopyFrom(src)
}

// adopt takes the rank's part of a bucket's array as what is trained from now on.
func (d *DataParallel) adopt(b *bucket) error {
	if d.set.stage == 3 { // else the part is a view
		n := b.shard(d.comm.Size())
		part, err := b.full.Narrow(0, d.comm.Rank()*n, n)
		if err != nil {
			return err
		}
		defer part.Release()
		if err := b.shard_.CopyFrom(part); err != nil {
			return err
		}
	}
	if b.master != nil {
		if err := b.widen(); err != nil {
			return err
		}
		b.rounded = b.master.Version()
	}
	b.gathered = b.version() // all ranks have done the same
	return nil
}

// widen brings the float32 values up to date with the shard, where they do not round to what it has.
func (b *bucket) widen() error {
	var made []*tensor.Tensor
	var failed error
	keep := func(t *tensor.Tensor, err error) *tensor.Tensor {
		failed = errors.Join(failed, err)
		made = append(made, t)
		return t
	}
	defer func() {
		for _, t := range made {
			t.Release()
		}
	}()
	rounded := keep(b.master.To(b.dtype))
	wide := keep(b.shard_.To(tensor.Float32))
	if failed != nil {
		return failed
	}
	same := keep(rounded.Eq(b.shard_))
	if failed != nil {
		return failed
	}
	if now := keep(tensor.Where(same, b.master, wide)); failed == nil {
		failed = b.master.CopyFrom(now)
	}
	return failed
}
