package kernels

import (
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/internal/timeline"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Launch enqueues one call on its stream. The memory of its views must stay allocated until the stream has passed it; the Call
// itself may be used again as soon as Launch returns. On streams that execute inline (the host's default stream) the work is
// done when Launch returns; on all others an error of the work itself is reported by the next call that waits
// for it. Nothing runs on a device that was closed: that is a device.ErrClosed.
func Launch(c *op.Call) error {
	if invariants.Enabled {
		if err := op.Check(c); err != nil {
			return err
		}
	}
	d := c.Key()
	if d == dtype.Invalid && c.Op.Valid() && len(c.Out) == 0 {
		return nil // an optimizer without tensors
	}
	id := c.Stream.Device().ID()
	r := timeline.Active()
	if r != nil {
		r.Launch(uint8(id.Kind), id.Index)
	}
	f, ok := Lookup(id.Kind, c.Op, d)
	if !ok {
		return &MissingError{Op: c.Op, DType: d, Device: id}
	}
	e, ok := c.Stream.(device.Executor)
	if !ok {
		return timed(c, f) // a device with its own launches: f enqueues the work on the stream
	}
	switch e.Mode() {
	case device.ExecInline:
		if err := e.Submit(c.Op.String(), nothing); err != nil { // the memory of a closed device is gone
			return err
		}
		return timed(c, f)
	case device.ExecQueued:
		if j, ok := e.(device.JointExecutor); ok && c.Op.Elementwise() {
			return j.SubmitJoint(c.Op.String(), newChained(c, f))
		}
		copied := c.Clone()
		return e.Submit(c.Op.String(), func() error { return timed(copied, f) })
	default:
		if r == nil {
			return e.Submit(c.Op.String(), nothing)
		}
		return timed(c, func(c *op.Call) error { return e.Submit(c.Op.String(), nothing) })
	}
}

// timed runs a call and tells who records how long it took: on the host the work, elsewhere the call that enqueues it.
func timed(c *op.Call, f func(*op.Call) error) error {
	r := timeline.Active()
	if r == nil {
		return f(c)
	}
	id := c.Stream.Device().ID()
	begin := time.Now()
	err := f(c)
	r.Operation(uint8(id.Kind), id.Index, uint64(c.Stream.ID()), c.Op.String(), begin, time.Since(begin))
	return err
}

// nothing is what a device without storage does with a kernel, and what asks a stream whether it takes work.
func nothing() error { return nil }
