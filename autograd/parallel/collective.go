package parallel

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// key opens what other packages of this module have for this one.
var key = training.Key{}

// steps has the norms of many tensors at once.
var steps = tensor.Steps(key)

// collect enqueues a collective on the communication stream, with the memory of tensors as its buffers, and op as their tag: so ranks that gather different units of one size, or are at different models, are told where calls are compared. The caller has put it behind what is on the streams that work on
// the tensors (behind), and has those wait for it (ahead) before it releases them. Then their memory is free for whatever comes next at once: were their use
// recorded instead, it would be so only when the device has come there, and a program that is ahead of its device, as all are, would take new memory for each bucket and unit.
func (d *DataParallel) collect(op string, do func(s device.Stream, b []comm.Buffer) error, ts ...*tensor.Tensor) error {
	at, err := tensor.Addresses(key, d.side, ts...)
	if err != nil {
		return d.wrong(op, err)
	}
	tag, buffers := d.tag(op), make([]comm.Buffer, len(ts))
	for i, t := range ts {
		buffers[i] = comm.Buffer{Ptr: at[i], Count: t.Len(), Type: t.DType(), Tag: tag}
	}
	err = do(d.side.Stream(), buffers) // asynchronous: its own error comes with the next wait for the stream
	runtime.KeepAlive(ts)
	if err != nil {
		return d.wrong(op, err)
	}
	return nil
}

func (d *DataParallel) broadcast(op string, t *tensor.Tensor) error {
	return d.broadcastFrom(op, t, 0)
}

func (d *DataParallel) broadcastFrom(op string, t *tensor.Tensor, root int) error {
	if t.Len() == 0 {
		return nil
	}
	defer tensor.Changed(key, t)
	return d.collect(op, func(s device.Stream, b []comm.Buffer) error { return d.comm.Broadcast(s, b[0], root) }, t)
}

func (d *DataParallel) allReduce(op string, t *tensor.Tensor, how comm.Op) error {
	if t.Len() == 0 {
		return nil
	}
	defer tensor.Changed(key, t)
	return d.collect(op, func(s device.Stream, b []comm.Buffer) error { return d.comm.AllReduce(s, b[0], b[0], how) }, t)
}

func (d *DataParallel) reduceScatter(op string, dst, src *tensor.Tensor) error {
	defer tensor.Changed(key, dst)
	return d.collect(op, func(s device.Stream, b []comm.Buffer) error { return d.comm.ReduceScatter(s, b[0], b[1], comm.Mean) }, dst, src)
}

func (d *DataParallel) allGather(op string, dst, src *tensor.Tensor) error {
	defer tensor.Changed(key, dst)
	return d.collect(op, func(s device.Stream, b []comm.Buffer) error { return d.comm.AllGather(s, b[0], b[1]) }, dst, src)
}

// order makes later work on after wait for what is on before now, without blocking the caller.
func order(before, after device.Stream) error {
	if before.ID() == after.ID() {
		return nil
	}
	e, err := before.Device().NewEvent()
	if err != nil {
		return err
	}
	err = before.Record(e)
	if err == nil {
		err = after.Wait(e)
	}
	return errors.Join(err, e.Close())
}

// wrong is err as that of an operation on this rank.
func (d *DataParallel) wrong(op string, err error) error {
	if err == nil {
		return nil
	}
	if own(err) {
		return err
	}
	return &Error{Op: op, Rank: d.comm.Rank(), Err: err}
}

// own reports whether err is an *Error of this rank already. One within what another rank has ended the group with is that rank's: a group within one process hands it on as it is.
func own(err error) bool {
	switch e := err.(type) {
	case *Error:
		return true
	case *comm.Error:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), own)
	}
	inner := errors.Unwrap(err)
	return inner != nil && own(inner)
}

func (d *DataParallel) mistake(op, format string, args ...any) error {
	return &Error{Op: op, Rank: d.rank(), Detail: fmt.Sprintf(format, args...)}
}

// rank is this one's number; for Predict, which has no group, -1.
func (d *DataParallel) rank() int {
	if d.comm == nil {
		return -1
	}
	return d.comm.Rank()
}

// mark tells meters of memory what an array is for: reports have it in the line of the model.
func mark(t *tensor.Tensor, u memmeter.Use) {
	if t != nil && oplabel.Wanted() {
		tensor.Mark(key, t, u, oplabel.Label{Op: "parallel", Model: true})
	}
}

// markShards does it for what was there before anybody measured.
func (d *DataParallel) markShards() {
	if !oplabel.Wanted() {
		return
	}
	for _, b := range d.buckets {
		for _, t := range []*tensor.Tensor{b.full, b.shard_, b.master} {
			mark(t, memmeter.Parameter)
		}
	}
}
