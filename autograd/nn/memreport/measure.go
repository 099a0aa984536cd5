package memreport

import (
	"strings"
	"sync"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes what Start and Measure do.
type Option func(*Recording)

// WithAllocator looks at an allocator, a *memory.Caching or a *memory.Pool of one, instead of memory.For(dev).
func WithAllocator(a memory.Allocator) Option { return func(r *Recording) { r.alloc = a } }

// WithModel tells the parameters and buffers of a model from other memory also if no graph uses them, and in a recording that ends before one does.
func WithModel(m nn.Module) Option { return func(r *Recording) { r.models = append(r.models, m) } }

// Recording is a report in the making.
type Recording struct {
	alloc  memory.Allocator
	models []nn.Module
	meter  memmeter.Meter
	stop   func()
	report func() *Report
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
// alive. The error is a *memory.ArgumentError if there is no caching allocator. Several recordings may run at a time.
func Start(dev device.Device, opts ...Option) (*Recording, error) {
	r := new(Recording)
	for _, o := range opts {
		if o != nil {
			o(r)
		}
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
	r.report = sync.OnceValue(r.end)
	for _, m := range r.models {
		markModel(m)
	}
	return r, nil
}

// Stop ends the recording, and returns what it has found. Called again it returns the same report.
func (r *Recording) Stop() *Report {
	if r == nil || r.report == nil {
		return nil
	}
	return r.report()
}

func (r *Recording) end() *Report {
	for _, m := range r.models {
		markModel(m) // with what it has got since
	}
	r.stop()
	return newReport(r.alloc.Device().String(), r.meter.End())
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
