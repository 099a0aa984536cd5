package host

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/failures"
)

// queue is an asynchronous stream. Work gets positions 1, 2, 3, ... in the order in which it is enqueued, and is finished in
// that order, so one number says how far the stream has come: an event is a position, and waiting is waiting for a number.
type queue struct {
	device *Device
	id     device.StreamID
	ended  atomic.Bool // closed, and the work is done. Set under mu

	mu struct {
		sync.Mutex
		pending []work // put and not yet taken by the goroutine; its last entry has position put
		spare   []work // the slice that the goroutine emptied last, to be used again
		put     uint64 // position of the last work put here
		done    uint64 // position of the last work finished
		failed  failures.List
		waiting []waiter
		serving bool // a goroutine runs serve; true whenever done < put
		closed  bool
	}
}

// waiter is somebody who waits for a position. done is closed when it is reached.
type waiter struct {
	at   uint64
	done chan struct{}
}

// put appends w and returns its position.
func (q *queue) put(w work) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed || q.device.closed.Load() {
		return 0, q.device.fail(w.operation, device.ErrClosed, "stream %d", q.id)
	}
	q.mu.pending = append(q.mu.pending, w)
	q.mu.put++
	if !q.mu.serving {
		q.mu.serving = true
		go q.serve()
	}
	return q.mu.put, nil
}

// serve runs the work until there is none left. Only one goroutine per queue does so at a time.
func (q *queue) serve() {
	// Work that touches memory which is gone fails as an operation and does not end the program.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var batch []work
	var next int
	returned := false
	defer func() {
		if !returned { // batch[next] ended this goroutine with runtime.Goexit; another one goes on behind it
			q.finish(1, device.LaunchError(q.device.id, batch[next].operation, &device.PanicError{}))
			rest := slices.Clone(batch[next+1:])
			q.mu.Lock()
			q.mu.pending = append(rest, q.mu.pending...)
			q.mu.Unlock()
			go q.serve()
		}
	}()
	for batch = q.takeBatch(nil); batch != nil; batch = q.takeBatch(batch) {
		for next = 0; next < len(batch); {
			n, err := q.run(batch[next:])
			q.finish(n, err)
			next += n
		}
	}
	returned = true
}

// takeBatch gives back the last batch, emptied, and takes all pending work. It returns nil, and ends the service, if there
// is none.
func (q *queue) takeBatch(last []work) []work {
	clear(last) // the work's references end with it
	q.mu.Lock()
	defer q.mu.Unlock()
	if last != nil {
		q.mu.spare = last[:0]
	}
	if len(q.mu.pending) == 0 {
		q.mu.serving = false
		q.forget()
		return nil
	}
	batch := q.mu.pending
	q.mu.pending, q.mu.spare = q.mu.spare, nil
	return batch
}

// forget gives up the room for work of a stream that was closed and has none: an event may keep the queue for long. The caller has
// the lock.
func (q *queue) forget() {
	if q.mu.closed && !q.mu.serving {
		q.mu.pending, q.mu.spare = nil, nil
	}
}

// settle notes that a stream which was closed has done its work. The caller has the lock.
func (q *queue) settle() {
	if q.mu.closed && q.mu.done == q.mu.put {
		q.ended.Store(true)
	}
}

// finish marks the next n positions as finished, the error as that of the first of them, and wakes those who wait for them.
func (q *queue) finish(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.mu.failed.Add(q.mu.done+1, err)
	}
	q.mu.done += uint64(n)
	q.settle()
	if len(q.mu.waiting) == 0 {
		return
	}
	q.mu.waiting = slices.DeleteFunc(q.mu.waiting, func(w waiter) bool {
		if w.at > q.mu.done {
			return false
		}
		close(w.done)
		return true
	})
}

// position is the position of the last work put here.
func (q *queue) position() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.put
}

// finished reports whether the stream has come to position at.
func (q *queue) finished(at uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.done >= at
}

// take returns the first error of the work up to position at that nobody was told yet.
func (q *queue) take(at uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.failed.Take(at)
}

// wait blocks until the stream has come to position at. It fails only with the error of ctx, and not if the work is done.
func (q *queue) wait(ctx context.Context, at uint64) error {
	q.mu.Lock()
	if q.mu.done >= at {
		q.mu.Unlock()
		return nil
	}
	w := waiter{at: at, done: make(chan struct{})}
	q.mu.waiting = append(q.mu.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiting = slices.DeleteFunc(q.mu.waiting, func(o waiter) bool { return o.done == w.done })
	if q.mu.done >= at {
		return nil
	}
	return ctx.Err()
}
