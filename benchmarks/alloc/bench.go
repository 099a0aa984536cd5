package main

import (
	"errors"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
)

// instance is a subject made ready for a workload.
type instance interface {
	// run does the workload n times on each thread and returns how long that took, from the start of all to the end of the last.
	run(n int) (time.Duration, error)
	// driverBytes is what has been taken from a driver that is not real, 0 for a real one.
	driverBytes() uint64
	close() error
}

// pool is what is asked of an allocator; B is its handle.
type pool[B any] interface {
	Alloc(bytes uint64, s device.Stream) (B, error)
	Free(b B) error
}

// bench drives one allocator.
type bench[B any] struct {
	pool      pool[B]
	streams   []device.Stream // one for each thread
	reserved  func() uint64
	closePool func() error

	workers []*worker[B]
	fences  []B
}

// worker is one thread.
type worker[B any] struct {
	pool   pool[B]
	stream device.Stream
	ops    []replay.Op
	blocks []B
	begin  func() error // called each time, if it is not nil
}

// start makes the workers and the holes, and runs the workload once, so that all pools are warm.
func start[B any](w workload, b *bench[B]) (instance, error) {
	// The slots of each worker end in some that are not used: workers write theirs all the time, and what is measured is the
	// allocator, not cache lines that two threads share because their slots happen to lie side by side.
	const apart = 8
	for _, s := range b.streams {
		b.workers = append(b.workers, &worker[B]{pool: b.pool, stream: s, ops: w.ops, blocks: make([]B, w.slots, w.slots+apart)})
	}
	err := b.makeHoles(w.holes)
	if err == nil {
		_, err = b.run(1)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// makeHoles allocates the holes, each followed by a block that stays, and frees them.
func (b *bench[B]) makeHoles(sizes []uint64) error {
	const fence = device.MiB + 512 // large enough for the pool of the holes
	holes := make([]B, len(sizes))
	for i, size := range sizes {
		var err error
		if holes[i], err = b.pool.Alloc(size, b.streams[0]); err != nil {
			return err
		}
		f, err := b.pool.Alloc(fence, b.streams[0])
		if err != nil {
			return err
		}
		b.fences = append(b.fences, f)
	}
	for _, h := range holes {
		if err := b.pool.Free(h); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench[B]) run(n int) (time.Duration, error) {
	if len(b.workers) == 1 {
		begin := time.Now()
		err := b.workers[0].loop(n)
		return time.Since(begin), err
	}
	errs := make([]error, len(b.workers))
	gate := make(chan struct{})
	var done sync.WaitGroup
	for i, w := range b.workers {
		done.Go(func() {
			<-gate
			errs[i] = w.loop(n)
		})
	}
	begin := time.Now()
	close(gate)
	done.Wait()
	return time.Since(begin), errors.Join(errs...)
}

// loop is what is timed.
func (w *worker[B]) loop(n int) error {
	for range n {
		if w.begin != nil {
			if err := w.begin(); err != nil {
				return err
			}
		}
		for i := range w.ops {
			op := &w.ops[i]
			if op.Kind == trace.Alloc {
				b, err := w.pool.Alloc(op.Bytes, w.stream)
				if err != nil {
					return err
				}
				w.blocks[op.Slot] = b
			} else if err := w.pool.Free(w.blocks[op.Slot]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench[B]) driverBytes() uint64 { return b.reserved() }

func (b *bench[B]) close() error {
	var errs []error
	for _, f := range b.fences {
		errs = append(errs, b.pool.Free(f))
	}
	return errors.Join(append(errs, b.closePool())...)
}
