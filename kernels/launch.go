package kernels

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/invariants"
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
	f, ok := Lookup(id.Kind, c.Op, d)
	if !ok {
		return &MissingError{Op: c.Op, DType: d, Device: id}
	}
	e, ok := c.Stream.(device.Executor)
	if !ok {
		return f(c) // a device with its own launches: f enqueues the work on the stream
	}
	switch e.Mode() {
	case device.ExecInline:
		if err := e.Submit(c.Op.String(), nothing); err != nil { // the memory of a closed device is gone
			return err
		}
		return f(c)
	case device.ExecQueued:
		copied := c.Clone()
		return e.Submit(c.Op.String(), func() error { return f(copied) })
	default:
		return e.Submit(c.Op.String(), nothing)
	}
}

// nothing is what a device without storage does with a kernel, and what asks a stream whether it takes work.
func nothing() error { return nil }
