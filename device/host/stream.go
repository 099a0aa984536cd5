package host

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

// This file is the device.Executor side of a queue: each call checks its arguments and enqueues work.

func (q *queue) ID() device.StreamID   { return q.id }
func (q *queue) Device() device.Device { return q.device }
func (q *queue) Mode() device.ExecMode { return device.ExecQueued }

// Submit enqueues fn behind the work that is already on the stream.
func (q *queue) Submit(operation string, fn func() error) error {
	_, err := q.put(work{task: taskCall, operation: operation, fn: fn})
	return err
}

// CopyToDevice copies src before it returns, and the copy to dst when its turn comes.
func (q *queue) CopyToDevice(dst device.Ptr, src []byte) error {
	const call = "CopyToDevice"
	if err := q.device.check(call, dst, uint64(len(src))); err != nil {
		return err
	}
	_, err := q.put(work{task: taskToDevice, operation: call, dst: dst, staged: append([]byte(nil), src...)})
	return err
}

// CopyToHost waits for the stream and the copy.
func (q *queue) CopyToHost(dst []byte, src device.Ptr) error {
	const call = "CopyToHost"
	if err := q.device.check(call, src, uint64(len(dst))); err != nil {
		return err
	}
	at, err := q.put(work{task: taskToHost, operation: call, src: src, out: dst})
	if err != nil {
		return err
	}
	if err := q.wait(context.Background(), at); err != nil {
		return err
	}
	return q.take(at)
}

func (q *queue) Copy(dst, src device.Ptr, n uint64) error {
	if err := q.device.checkCopy(dst, src, n); err != nil {
		return err
	}
	_, err := q.put(work{task: taskCopy, operation: "Copy", dst: dst, src: src, n: n})
	return err
}

func (q *queue) Fill(dst device.Ptr, value byte, n uint64) error {
	if err := q.device.check("Fill", dst, n); err != nil {
		return err
	}
	_, err := q.put(work{task: taskFill, operation: "Fill", dst: dst, value: value, n: n})
	return err
}

// Record makes e stand for the last work put here.
func (q *queue) Record(e device.Event) error {
	own, err := q.device.own("Record", e)
	if err != nil {
		return err
	}
	if err := q.open("Record"); err != nil {
		return err
	}
	return own.record(q, q.position())
}

// Wait enqueues a wait for the work of e on the stream, if that is not done and not on this stream anyway. An error of that work
// is left to those who wait on its stream.
func (q *queue) Wait(e device.Event) error {
	const call = "Wait"
	own, err := q.device.own(call, e)
	if err != nil {
		return err
	}
	if err := q.open(call); err != nil {
		return err
	}
	on, at, err := own.point(call)
	if err != nil || on == nil || on == q || on.finished(at) {
		return err
	}
	_, err = q.put(work{task: taskWait, operation: call, on: on, at: at})
	return err
}

// Done reports whether the stream has finished all its work. While Close waits for it, it has not.
func (q *queue) Done() (bool, error) {
	if err := q.open("Stream.Done"); err != nil {
		if q.closing() {
			return false, nil
		}
		return false, err
	}
	return q.finished(q.position()), nil
}

// Synchronize waits for the work put here so far, also if the stream is refused because Close waits for it as well.
func (q *queue) Synchronize(ctx context.Context) error {
	const call = "Stream.Synchronize"
	if err := q.open(call); err != nil {
		if waitErr := q.wait(ctx, q.position()); waitErr != nil {
			return q.device.fail(call, waitErr, "stream %d", q.id)
		}
		return err
	}
	at := q.position()
	if err := q.wait(ctx, at); err != nil {
		return q.device.fail(call, err, "stream %d", q.id)
	}
	return q.take(at)
}

// Close lets the work finish and returns its error. Nothing more can be enqueued on the stream from the moment of the call, but that it
// is closed is said when the work is done. Another Close waits as well.
func (q *queue) Close() error {
	q.mu.Lock()
	already := q.mu.closed
	q.mu.closed = true
	q.settle()
	at := q.mu.put
	q.forget()
	q.mu.Unlock()
	if err := q.wait(context.Background(), at); err != nil || already {
		return err
	}
	q.device.remove(q)
	return q.take(at)
}

// Closed reports whether Close was called and the work is done.
func (q *queue) Closed() bool { return q.ended.Load() }

// closing reports whether Close waits for the work.
func (q *queue) closing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.closed && q.mu.done < q.mu.put
}

// open returns an error if the stream or its device is closed.
func (q *queue) open(call string) error {
	q.mu.Lock()
	closed := q.mu.closed
	q.mu.Unlock()
	if closed || q.device.closed.Load() {
		return q.device.fail(call, device.ErrClosed, "stream %d", q.id)
	}
	return nil
}
