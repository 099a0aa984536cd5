package parallel

import (
	"fmt"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// Buckets that have their gradients are reduced on the communication stream, in the order that all ranks have.

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
