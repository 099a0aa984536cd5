package data

import (
	"context"
	"errors"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// ahead makes batches in goroutines, before the loop takes them. The loop's goroutine puts jobs into a channel, workers take them from it, and
// each job's own channel says when it is done; the loop takes them in the order in which it put them. There are never more jobs than the
// channel has room for, so nobody waits to put one.
//
// A batch is allocated and uploaded on the loader's stream. The loop's stream waits for the event after it, and the loop's tensors are
// handles that work there: their uses are recorded with the allocator (tensor.On), so that the memory can be released as soon as the
// work that uses it is enqueued.
type ahead struct {
	l     *Loader
	exec  tensor.Exec // of the workers
	outer context.Context
	ctx   context.Context // ends also when the loop is left
	end   context.CancelFunc

	more  func() (*job, bool)
	jobs  chan *job
	queue []*job // put and not yet taken, in order
	wg    sync.WaitGroup
	mu    sync.Mutex // of more, jobs and queue: Close may come while another goroutine waits for a batch
}

// ahead starts the workers.
func (l *Loader) ahead(ctx context.Context, jobs func() (*job, bool)) (*ahead, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	// A data set may have tensors that were enqueued on the loop's stream.
	if err := order(l.exec.Stream(), l.side); err != nil {
		return nil, err
	}
	exec, err := tensor.On(l.exec.Device(), tensor.WithAllocator(l.exec.Allocator()), tensor.WithStream(l.side))
	if err != nil {
		return nil, err
	}
	a := &ahead{l: l, exec: exec, outer: ctx, more: jobs, jobs: make(chan *job, l.prefetch)}
	a.ctx, a.end = context.WithCancel(ctx)
	a.wg.Add(l.workers)
	for range l.workers {
		go a.work()
	}
	return a, nil
}

// open makes the workers' stream, of the first loop.
func (l *Loader) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed.Load():
		return errClosed()
	case l.side != nil:
		return nil
	}
	s, err := l.exec.Device().NewStream()
	if err == nil {
		l.side = s
	}
	return err
}

// work is a worker.
func (a *ahead) work() {
	defer a.wg.Done()
	for j := range a.jobs {
		a.do(j)
	}
}

// errExit is what a job fails with whose function has ended the worker.
var errExit = errors.New("a function of the program has called runtime.Goexit")

func (a *ahead) do(j *job) {
	j.err = &BatchError{j.number, j.index, &PanicError{Value: errExit}} // unless it returns
	defer close(j.done)
	err := a.l.make(a.ctx, a.exec, j)
	if err == nil {
		if j.ready, err = mark(a.exec.Stream()); err != nil {
			releaseAll(j.tensors)
			j.tensors = nil
		}
	}
	j.err = err
}

// fill gives the workers something to do.
func (a *ahead) fill() {
	for len(a.queue) < cap(a.jobs) && a.more != nil {
		j, ok := a.more()
		if !ok {
			a.more = nil
			return
		}
		j.done = make(chan struct{})
		a.queue = append(a.queue, j)
		a.jobs <- j
	}
}

func (a *ahead) next() (*Batch, error) {
	if a.l.closed.Load() {
		return nil, errClosed()
	}
	if err := a.outer.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs == nil {
		return nil, errClosed()
	}
	a.fill()
	if len(a.queue) == 0 {
		return nil, nil
	}
	j := a.queue[0]
	a.mu.Unlock()
	select {
	case <-j.done:
	case <-a.outer.Done():
	}
	a.mu.Lock()
	switch {
	case a.jobs == nil:
		return nil, errClosed()
	case a.outer.Err() != nil:
		return nil, a.outer.Err()
	}
	if j.err != nil {
		if err := a.outer.Err(); err != nil { // why the job failed, perhaps
			return nil, err
		}
		return nil, j.err
	}
	b, err := a.take(j)
	if err != nil {
		return nil, err // the job is still in the queue, and stop releases what it has
	}
	a.queue = a.queue[1:]
	a.fill()
	return b, nil
}

// take orders the loop's stream behind the upload and makes the loop's handles.
func (a *ahead) take(j *job) (*Batch, error) {
	if err := a.l.exec.Stream().Wait(j.ready); err != nil {
		return nil, err
	}
	b := &Batch{Tensors: make([]*tensor.Tensor, len(j.tensors)), Index: j.index, Number: j.number}
	for i, t := range j.tensors {
		b.Tensors[i] = t.On(a.l.exec)
	}
	j.drop()
	return b, nil
}

// drop gives back what a job has made.
func (j *job) drop() {
	releaseAll(j.tensors)
	j.tensors = nil
	if j.ready != nil {
		_ = j.ready.Close() // an event that cannot be closed belongs to a device that is lost or closed
		j.ready = nil
	}
}

func (a *ahead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs == nil {
		return
	}
	a.end()
	close(a.jobs)
	a.wg.Wait()
	for _, j := range a.queue {
		j.drop()
	}
	a.jobs, a.queue, a.more = nil, nil, nil
}

// mark is an event that stands for what is on s now.
func mark(s device.Stream) (device.Event, error) {
	e, err := s.Device().NewEvent()
	if err != nil {
		return nil, err
	}
	if err := s.Record(e); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// order makes later work on after wait for what is on before now, without blocking the caller.
func order(before, after device.Stream) error {
	if before.ID() == after.ID() {
		return nil
	}
	e, err := mark(before)
	if err != nil {
		return err
	}
	return errors.Join(after.Wait(e), e.Close())
}
