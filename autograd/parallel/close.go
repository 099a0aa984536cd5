package parallel

import (
	"context"
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
)

// Close ends the training: the model's parameters are ordinary ones again, and what this rank keeps for it is released, but not the gradients of ZeRO 0. With ZeRO 1 to 3 call
// Unshard in its place, on all ranks, for a model that is used afterwards: without it parameters have no values, with ZeRO 3 at all, and with ZeRO 1 and 2 if no forward pass and no Whole came after the last
// update, of which each rank has its part alone. It waits for the collectives under way, and for no other rank. Gradients of NoSync that wait to be summed are released with ZeRO 1 to 3, and with ZeRO 0 stay as each rank has them: Close
// does not refuse that, as Unshard does. Closing twice is harmless. In a hook of a backward pass it is an error, and ends nothing.
func (d *DataParallel) Close() error {
	if d == nil || d.comm == nil || d.closed {
		return nil
	}
	if d.underWay() {
		return d.mistake("Close", duringPass)
	}
	return d.end()
}

// closedBetween is why a backward pass has no group any more.
const closedBetween = "the DataParallel was closed between the forward and the backward pass"

func (d *DataParallel) end() (err error) {
	d.closed = true
	d.retire()
	if d.side.Stream() != nil {
		err = d.side.Stream().Synchronize(context.Background())
	}
	if d.broken != nil {
		err = nil // told already
	}
	d.vacate(d.graph)
	stale := d.set.stage > 0 && (d.stale || slices.ContainsFunc(d.areWhole(), (*bucket).changed))
	if d.set.joined && d.model != nil {
		d.joinBatchNorms(false)
	}
	for _, q := range d.params {
		autograd.Divert(key, q.p, nil)
		autograd.Shard(key, q.p, nil)
		switch {
		case autograd.Away(key, q.p) != "":
			autograd.Put(key, q.p, nil, lost)
		case stale: // old values beside new ones, other ones on each rank
			autograd.Put(key, q.p, nil, notGathered)
		}
	}
	for _, b := range d.buckets {
		b.drop()
		err = errors.Join(err, b.sharded.release())
	}
	if d.awaited {
		d.cutOff = d.graph
	}
	d.graph = nil
	if d.side.Stream() != nil {
		err = errors.Join(err, d.side.Stream().Close())
	}
	if err != nil {
		err = &Error{Op: "Close", Rank: d.comm.Rank(), Err: err} // one line of what may be several errors
	}
	return err
}
