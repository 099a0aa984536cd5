package fit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Program builds a model on t.Device, takes training steps with batches of t.Batch, one for each that t.Steps gives, and releases everything; a program of several phases has a loop for each. In the first step the
// optimizer makes its state, and where blocks lie may change for many steps more: a batch that survives three can fail in the twentieth. A program that counts
// its steps itself is taken at its word, and the report says so. What it does not release is given back by force. It ends early,
// with any error, when ctx is done. One trial runs at a time.
type Program func(ctx context.Context, t Trial) error

// Trial is what a Program is to try.
type Trial struct {
	// Device is a simulated one, made for this trial. memory.For gives its allocator, which layers, graphs and optimizers use unless told otherwise.
	Device device.Device
	Batch  int
	Settings

	watch *watch // nil in a trial that no search has made
}

// Settings are the measures of a trial. The program takes the first two: its graphs are made with amp.Autocast(Precision) if Half is true, with an
// amp.GradScaler to take the steps of float16, and its layers are nn.Checkpointed if Checkpoint is. Expandable is a setting of the allocator, which has it already.
type Settings struct {
	Precision  tensor.DType // Float32 is without autocast
	Checkpoint bool
	Expandable bool // expandable_segments:True
}

// Half reports whether the precision is a half one: float16 or bfloat16.
func (s Settings) Half() bool { return s.Precision == tensor.Float16 || s.Precision == tensor.BFloat16 }

// String is as in "float16, checkpointed, expandable segments".
func (s Settings) String() string {
	text := s.Precision.String()
	if s.Checkpoint {
		text += ", checkpointed"
	}
	if s.Expandable {
		text += ", expandable segments"
	}
	return text
}

// outcome is what came of a trial.
type outcome struct {
	oom       error // nil if the batch fits
	allocated int64
	reserved  int64
	reads     uint64 // copies to the host
	steps     int    // that were taken by Trial.Steps
	loops     []int  // the same by loop
	steady    bool
	left      bool // the program has left a loop early
	reset     bool // the program has reset the allocator's peaks
	report    *memreport.Report
}

// try runs the program on a device of its own. With a plan it takes as many steps as that has for each loop, and says what the memory was for. The error is one
// that has nothing to do with the size of memory.
func (s *search) try(ctx context.Context, t Trial, plan *[]int) (o outcome, err error) {
	if err := ctx.Err(); err != nil {
		return o, err
	}
	dev := sim.New(s.capacity)
	dev.Occupy(s.occupied)
	defer func() {
		if ended := end(dev); ended != nil {
			err = errors.Join(err, ended)
		}
	}()
	a, err := s.allocator(dev, t.Settings)
	if err != nil {
		return o, err
	}
	var failed failures
	a.OnOOM(failed.add)
	t.watch = &watch{ctx: ctx, alloc: a, most: s.steps, failed: &failed}
	if plan != nil {
		t.watch.plan, t.watch.exact = *plan, true
		recording, err := memreport.Start(dev)
		if err != nil {
			return o, err
		}
		defer func() {
			if o.report = recording.Stop(); err == nil {
				o.measured(o.report)
			}
		}()
	} else {
		t.watch.tape = new(tape)
		stop, err := memory.StartTape(training.Key{}, a, t.watch.tape.add)
		if err != nil {
			return o, err
		}
		defer stop()
	}
	t.Device = dev
	err = s.program(ctx, t)
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	if t.watch.misused != nil {
		return o, t.watch.misused
	}
	stats := a.Stats()
	if o.oom, err = ranOut(dev, failed.first(), stats, err); err != nil {
		return o, err
	}
	o.allocated, o.reserved = stats.AllocatedBytes.All.Peak, stats.ReservedBytes.All.Peak
	o.loops, o.steps = t.watch.taken()
	o.steady, o.left = t.watch.steady(), t.watch.left()
	o.reads = dev.Calls().Count[sim.CallCopyToHost]
	return o, nil
}

// measured puts the peaks of a record in the place of the statistics', which a program can reset.
func (o *outcome) measured(r *memreport.Report) {
	allocated, reserved := int64(r.Peak), int64(r.MostReserved)
	o.reset = allocated > o.allocated
	o.allocated, o.reserved = allocated, reserved
}

// failures keeps the first request that failed, of any goroutine of the program.
type failures struct {
	mu  sync.Mutex
	oom *memory.OOMError
}

func (f *failures) add(e *memory.OOMError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.oom == nil {
		f.oom = e
	}
}

func (f *failures) first() *memory.OOMError {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.oom
}

// ranOut divides errors of a program: those for want of the device's memory are oom. So is a request that failed, whatever the program made of the error:
// both are in oom then.
func ranOut(dev device.Device, failed *memory.OOMError, stats memory.Stats, err error) (oom, other error) {
	if e := new(memory.OOMError); errors.As(err, &e) && e.Device == dev.ID() {
		return err, nil
	}
	switch {
	case failed != nil && err != nil:
		return fmt.Errorf("%w: %w", err, failed), nil
	case failed != nil:
		return failed, nil
	case stats.NumOOMs > 0: // of an allocator that the program has made since
		return errors.Join(err, memory.ErrOutOfMemory), nil
	}
	return nil, err
}

// end gives everything back. What the program has not released is no error: the memory was never there.
func end(dev *sim.Device) error {
	err := memory.Drop(dev)
	if leak := new(memory.LeakError); errors.As(err, &leak) {
		err = nil
	}
	return errors.Join(err, dev.Close())
}

// allocator is the device's, with the settings of the environment but for expandable segments.
func (s *search) allocator(dev device.Device, with Settings) (*memory.Caching, error) {
	a, err := memory.For(dev)
	if err != nil {
		return nil, err
	}
	c, ok := a.(*memory.Caching)
	if !ok {
		return nil, argumentErr("the environment asks for an allocator that does not cache, whose figures say nothing of one that does")
	}
	config := c.Config()
	config.ExpandableSegments = false
	s.config = config.String()
	config.ExpandableSegments = with.Expandable
	return c, c.SetConfig(config)
}
