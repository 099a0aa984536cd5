package memreport

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes what Start and Measure do.
type Option func(*Recording)

// WithAllocator looks at an allocator of the device, a *memory.Caching or a *memory.Pool of one, instead of memory.For(dev). Of a Pool, that is the whole
// allocator that it belongs to, with what is outside of the pool.
func WithAllocator(a memory.Allocator) Option { return func(r *Recording) { r.alloc = a } }

// WithModel tells the parameters and buffers of a model from other memory also if no graph uses them, and in a recording that ends before one does.
// A nil model, also a nil pointer, is an error of Start.
func WithModel(m nn.Module) Option { return func(r *Recording) { r.models = append(r.models, m) } }

// Optimizer is an optimizer of package optim, or what embeds one.
type Optimizer interface {
	Parameters() []*autograd.Parameter
	StateBytes() uint64
}

// stateMarker is an Optimizer that can tell meters of its state.
type stateMarker interface{ MarkState(key training.Key) }

// WithOptimizer tells the state that optimizers have kept since before the recording from other memory also if none of them takes a step in it, as where
// gradients are accumulated, and the values and gradients of their parameters. No optimizer may take a step while the recording starts or stops.
func WithOptimizer(opt ...Optimizer) Option {
	return func(r *Recording) { r.optimizers = append(r.optimizers, opt...) }
}

// Recording is a report in the making.
type Recording struct {
	alloc  memory.Allocator
	models []nn.Module
	meter  memmeter.Meter
	stop   func()
	report func() *Report

	optimizers []Optimizer
}

// Measure reports the memory of what f does: of one step, or of several. An error of f is returned beside the report, which then is of what was done up to
// there; the errors of Start are returned alone.
func Measure(dev device.Device, f func() error, opts ...Option) (*Report, error) {
	if f == nil {
		return nil, &memory.ArgumentError{Call: "memreport.Measure", Detail: "the function is nil"}
	}
	r, err := Start(dev, opts...)
	if err != nil {
		return nil, err
	}
	defer r.Stop() // also when f panics
	err = f()
	return r.Stop(), err
}

// Start begins to record what the allocator of a device does, until Stop. It costs each allocation about a microsecond, and memory for each block that is
// alive. The error is a *memory.ArgumentError if there is no caching allocator, or it is another device's, and the device's own if that is closed. Several
// recordings may run at a time.
func Start(dev device.Device, opts ...Option) (*Recording, error) {
	r := new(Recording)
	r.apply(opts)
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.alloc == nil {
		a, err := memory.For(dev)
		if err != nil {
			return nil, err
		}
		r.alloc = a
	}
	var err error
	if r.stop, err = memory.StartMeter(training.Key{}, r.alloc, &r.meter); err != nil {
		return nil, err
	}
	if err = r.usable(dev); err != nil {
		r.stop()
		return nil, err
	}
	r.report = sync.OnceValue(r.end)
	r.mark()
	return r, nil
}

// apply applies options that are not nil.
func (r *Recording) apply(opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
}

// check refuses what is no model, and what is no optimizer of package optim.
func (r *Recording) check() error {
	for _, m := range r.models {
		if why := isnil.Why("model", m); why != "" {
			return &memory.ArgumentError{Call: "memreport.WithModel", Detail: why}
		}
	}
	for i, o := range r.optimizers {
		if why := isnil.Why("optimizer", o); why != "" {
			return &memory.ArgumentError{Call: "memreport.WithOptimizer", Detail: why}
		}
		if _, ok := o.(stateMarker); !ok {
			return &memory.ArgumentError{Call: "memreport.WithOptimizer", Detail: fmt.Sprintf("argument %d, a %T, is not an optimizer of package optim", i, o)}
		}
	}
	return nil
}

// Add tells a recording of models and optimizers that were made after it began, with the options WithModel and WithOptimizer: they are told from
// other memory then also if the program fails before it uses them. The allocator cannot be changed: that is a *memory.ArgumentError, and so
// is what Start refuses. No optimizer may take a step meanwhile, and Stop must not be called. After Stop it does nothing.
func (r *Recording) Add(opts ...Option) error {
	if r == nil || r.report == nil {
		return &memory.ArgumentError{Call: "memreport.Recording.Add", Detail: "Start has not made the recording"}
	}
	more := new(Recording)
	more.apply(opts)
	if more.alloc != nil {
		return &memory.ArgumentError{Call: "memreport.Recording.Add", Detail: "the allocator of a recording cannot be changed"}
	}
	if err := more.check(); err != nil {
		return err
	}
	more.mark()
	r.models, r.optimizers = append(r.models, more.models...), append(r.optimizers, more.optimizers...)
	return nil
}

// Stop ends the recording, and returns what it has found. Called again it returns the same report.
func (r *Recording) Stop() *Report {
	if r == nil || r.report == nil {
		return nil
	}
	return r.report()
}

func (r *Recording) end() *Report {
	r.mark() // what they have got since
	r.stop()
	return newReport(r.alloc.Device().String(), r.meter.End(), len(r.models) > 0, len(r.optimizers) > 0)
}

// usable refuses an allocator of another device than dev, and one whose device is closed.
func (r *Recording) usable(dev device.Device) error {
	if isnil.Value(dev) { // WithAllocator is enough
		return nil
	}
	if own := r.alloc.Device(); own != dev.ID() {
		return &memory.ArgumentError{Call: "memreport.Start", Detail: fmt.Sprintf("the allocator is of %s, and the device is %s", own, dev.ID())}
	}
	_, err := dev.MemInfo()
	return errors.Wrapf(err, "memreport: %s", dev.ID())
}

// mark tells the meter of models first: state is in the module of its parameter.
func (r *Recording) mark() {
	for _, m := range r.models {
		markModel(m)
	}
	for _, o := range r.optimizers {
		for _, p := range o.Parameters() {
			tensor.Mark(training.Key{}, p.Tensor(), memmeter.Parameter, oplabel.Label{})
			tensor.Mark(training.Key{}, p.Grad(), memmeter.Gradient, oplabel.Label{})
		}
		if m, ok := o.(stateMarker); ok {
			m.MarkState(training.Key{})
		}
	}
}

// markModel tells meters what a model holds.
func markModel(m nn.Module) {
	for _, n := range nn.NamedState(m) {
		markParameter(n.Name, n.Parameter)
	}
	for _, n := range nn.NamedBuffers(m) { // also those that are in no file
		markParameter(n.Name, n.Parameter)
	}
}

func markParameter(path string, p *autograd.Parameter) {
	module := ""
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		module = path[:i]
	}
	tensor.Mark(training.Key{}, p.Tensor(), memmeter.Parameter, oplabel.Label{Op: "parameter", Module: module, Model: module == ""})
	tensor.Mark(training.Key{}, p.Grad(), memmeter.Gradient, oplabel.Label{Op: "gradient", Module: module, Model: module == ""})
}
