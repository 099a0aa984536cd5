package host

import (
	"context"
	"runtime/debug"

	"github.com/cistern-ml/cistern/device"
)

// task says what a piece of work does.
type task uint8

const (
	taskCall     task = iota // call fn
	taskToDevice             // copy staged to dst
	taskToHost               // copy src to out
	taskCopy                 // copy n bytes from src to dst
	taskFill                 // set n bytes at dst to value
	taskWait                 // wait until queue on has finished position at
	taskJoint                // run joint, with what follows it
)

// work is one entry of a queue. One struct for all tasks keeps the queue a plain slice, without an allocation per entry.
type work struct {
	task      task
	value     byte
	operation string // named in errors
	fn        func() error
	joint     device.Joint
	dst, src  device.Ptr
	n         uint64
	staged    []byte // a copy of the caller's bytes, who may change them
	out       []byte // the caller's, who is waiting
	on        *queue
	at        uint64
}

// run does the work on the calling goroutine. Its error, or its panic, is that of the operation.
func (w *work) run(id device.ID) (err error) {
	defer recovered(id, w.operation, &err)
	switch w.task {
	case taskCall:
		return launchError(id, w.operation, w.fn())
	case taskToDevice:
		copy(Bytes(w.dst, uint64(len(w.staged))), w.staged)
	case taskToHost:
		copy(w.out, Bytes(w.src, uint64(len(w.out))))
	case taskCopy:
		move(w.dst, w.src, w.n)
	case taskFill:
		fill(Bytes(w.dst, w.n), w.value)
	case taskWait:
		return w.on.wait(context.Background(), w.at)
	case taskJoint:
		return launchError(id, w.operation, w.joint.Run(nil))
	}
	return nil
}

// call is run for a function that is not on a queue.
func call(id device.ID, operation string, fn func() error) (err error) {
	defer recovered(id, operation, &err)
	return launchError(id, operation, fn())
}

func launchError(id device.ID, operation string, err error) error {
	if err == nil {
		return nil
	}
	return device.LaunchError(id, operation, err)
}

// recovered is deferred: it makes a panic the error of the operation.
func recovered(id device.ID, operation string, err *error) {
	if value := recover(); value != nil {
		*err = device.LaunchError(id, operation, &device.PanicError{Value: value, Stack: debug.Stack()})
	}
}
