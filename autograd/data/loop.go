package data

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// Batch is what a loop gets of a loader. It is the loop's until the next turn.
type Batch struct {
	Tensors []*tensor.Tensor // as many as an example has arrays, or as the Collate function returned
	Index   []int64          // the numbers of the examples in the data set
	Number  int              // of the batch in the loop, from 0
}

// feed makes the batches of one loop.
type feed interface {
	// next is the next batch, which the caller owns, or nil at the end.
	next() (*Batch, error)
	// stop ends all that is under way and gives back all that was not taken. Stopping twice is harmless.
	stop()
}

// All reads the data set once. The tensors of a batch are released when the next one is taken and when the loop ends; Retain them to keep them
// longer. An error is the last value, with no batch beside it, and Err has it too: when ctx ends, that of ctx.
func (l *Loader) All(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		left := false
		err := l.loop(ctx, func(b *Batch) (bool, error) {
			left = !yield(b, nil)
			return !left, nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// Batches reads the data set once, for data sets of one or two tensors: the first value has the inputs of a batch, the second the targets.
// They are released when the next batch is taken and when the loop ends. After the loop, check Err.
func (l *Loader) Batches() iter.Seq2[*tensor.Tensor, *tensor.Tensor] {
	return func(yield func(x, y *tensor.Tensor) bool) {
		_ = l.loop(context.Background(), func(b *Batch) (bool, error) { // Err has it
			switch len(b.Tensors) {
			case 1:
				return yield(b.Tensors[0], nil), nil
			case 2:
				return yield(b.Tensors[0], b.Tensors[1]), nil
			}
			return false, argumentErr("batches of %d tensors, where Batches gives two; All gives all", len(b.Tensors))
		})
	}
}

// loop is one loop. body returns whether it goes on.
func (l *Loader) loop(ctx context.Context, body func(*Batch) (bool, error)) error {
	if l == nil {
		return errNoLoader()
	}
	l.err = l.ready(ctx)
	if l.err == nil {
		l.err = l.read(ctx, body)
	}
	return l.err
}

// ready is what is wrong before a loop begins.
func (l *Loader) ready(ctx context.Context) error {
	switch {
	case l.invalid != nil:
		return l.invalid
	case l.exec.Stream() == nil:
		return errNoLoader()
	case l.closed.Load():
		return errClosed()
	case ctx == nil:
		return argumentErr("the context is nil")
	case l.underWay() != nil:
		return argumentErr("another loop of the loader is under way")
	}
	return ctx.Err()
}

// begin says which loop is under way, if any.
func (l *Loader) begin(f feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = f
}

func (l *Loader) underWay() feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

func errClosed() error { return fmt.Errorf("data: the loader is closed: %w", device.ErrClosed) }

func (l *Loader) read(ctx context.Context, body func(*Batch) (bool, error)) error {
	plan, err := l.plan()
	if err != nil {
		return err
	}
	jobs, stop := iter.Pull(l.jobs(plan))
	defer stop()
	batches, err := l.feed(ctx, jobs)
	if err != nil {
		return err
	}
	l.begin(batches)
	defer func() {
		batches.stop()
		l.begin(nil)
	}()
	p := Progress{Batches: l.Len()}
	for {
		begin := time.Now()
		b, err := batches.next()
		if err != nil || b == nil {
			return err
		}
		taken := time.Now()
		p.Batch, p.Examples = p.Batch+1, p.Examples+len(b.Index)
		p.Waiting += taken.Sub(begin)
		more, err := lend(b, body)
		p.Working += time.Since(taken)
		if l.progress != nil {
			l.progress(p)
		}
		if err != nil || !more {
			return err
		}
	}
}

// lend lends a batch to the loop's body, and releases it, also if that panics.
func lend(b *Batch, body func(*Batch) (bool, error)) (bool, error) {
	defer releaseAll(b.Tensors)
	return body(b)
}

func releaseAll(ts []*tensor.Tensor) {
	for _, t := range ts {
		t.Release()
	}
}

// feed is how the batches of a loop are made: by the loop itself, or ahead of it.
func (l *Loader) feed(ctx context.Context, jobs func() (*job, bool)) (feed, error) {
	if l.workers == 0 {
		d := &direct{l: l, outer: ctx, jobs: jobs}
		d.ctx, d.end = context.WithCancel(ctx)
		return d, nil
	}
	return l.ahead(ctx, jobs)
}

// direct makes each batch when it is asked for, on the stream of the loop's tensors.
type direct struct {
	l     *Loader
	outer context.Context
	ctx   context.Context // ends also when the loader is closed, which an example that waits must hear of
	end   context.CancelFunc
	jobs  func() (*job, bool)
}

func (d *direct) next() (*Batch, error) {
	if err := d.over(); err != nil {
		return nil, err
	}
	j, ok := d.jobs()
	if !ok {
		return nil, nil
	}
	err := d.l.make(d.ctx, d.l.exec, j)
	if over := d.over(); over != nil { // why it failed, perhaps
		releaseAll(j.tensors)
		return nil, over
	}
	if err != nil {
		return nil, err
	}
	return &Batch{Tensors: j.tensors, Index: j.index, Number: j.number}, nil
}

// over is why there are no more batches.
func (d *direct) over() error {
	if d.l.closed.Load() {
		return errClosed()
	}
	return d.outer.Err()
}

func (d *direct) stop() { d.end() }
