package stepgraph

import (
	"context"
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Func is a training step: forward, backward, and what the optimizer does. It gets a new graph, which is released when it returns, and the inputs as
// leaves of that graph. The values of the variables that it returns are what Run returns; a loss is still there after its Backward, and other
// results need Variable.Keep. Gradients of the modules' parameters are released when it returns.
type Func func(g *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error)

// Step is a training step that is captured and replayed. It is for one goroutine at a time.
type Step struct {
	dev     device.Device
	f       Func
	exec    tensor.Exec
	modules []nn.Module
	options []autograd.Option
	gen     *tensor.Generator
	warm    int
	most    int

	capturer device.Capturer // nil where steps are not captured
	alloc    *memory.Caching // nil likewise
	pool     *memory.Pool    // of all graphs, which run one after the other
	event    device.Event    // orders the stream behind others, again and again
	prepared *replay.Stream

	shapes  []*shaped
	results []*tensor.Tensor // of the last eager run
	stats   Stats
	closed  bool
}

// New makes a step of f on a device. Nothing is run or captured yet. Where a device captures, it makes a stream for the step and brings the
// parameters and buffers of Modules there; they stay the program's.
func New(dev device.Device, f Func, opts ...Option) (*Step, error) {
	const call = "New"
	s := &Step{dev: dev, f: f, warm: 3, most: 4}
	if f == nil {
		return nil, &Error{Call: call, Detail: "the function is nil"}
	}
	exec, err := tensor.On(dev)
	if err != nil {
		return nil, &Error{Call: call, Err: err}
	}
	s.exec = exec
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	for i, m := range s.modules {
		if why := isnil.Why(fmt.Sprintf("module %d", i), m); why != "" {
			return nil, &Error{Call: call, Detail: why}
		}
	}
	if err := s.notDiverted(); err != nil {
		return nil, &Error{Call: call, Err: err}
	}
	if s.gen == nil {
		s.gen = autograd.FreshGenerator()
	}
	if err := s.prepare(); err != nil {
		return nil, &Error{Call: call, Err: errors.Join(err, s.close())}
	}
	return s, nil
}

// prepare makes the stream of a step that can be captured, and brings the modules there.
func (s *Step) prepare() error {
	alloc, ok := s.exec.Allocator().(*memory.Caching)
	if _, captures := s.dev.DefaultStream().(device.Capturer); !captures || !ok {
		return nil // every run is an eager one, on the stream that the program has
	}
	stream, err := s.dev.NewStream()
	if err != nil {
		return err
	}
	capturer, ok := stream.(device.Capturer)
	if !ok {
		return stream.Close()
	}
	s.capturer, s.alloc = capturer, alloc
	if s.exec, err = tensor.On(s.dev, tensor.WithStream(stream), tensor.WithAllocator(alloc)); err != nil {
		return err
	}
	s.prepared = replay.Prepare(stream)
	s.pool = alloc.NewPool()
	if s.event, err = s.dev.NewEvent(); err != nil {
		return err
	}
	if err := s.behind(s.dev.DefaultStream()); err != nil { // the modules' first values may be on their way
		return err
	}
	for _, m := range s.modules {
		if err := m.To(s.dev, nn.WithStream(stream), nn.WithAllocator(alloc)); err != nil {
			return err
		}
	}
	return nil
}

// Run takes a step: it replays the graph of the inputs' shapes and types, or captures one first, or runs eagerly. The package comment says when.
// What it returns is the step's, and valid until the next Run or Close.
//
// If the step cannot be captured, the error is an *Error that says why, and nothing was changed. What the step does not allow (*tensor.CaptureError) is the same
// error in every later Run of these shapes; else the next Run tries again. Eager goes on without a graph.
func (s *Step) Run(in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := s.usable("Run", in); err != nil {
		return nil, err
	}
	sh, err := s.shapedFor(in)
	if err != nil {
		return nil, &Error{Call: "Run", Err: err}
	}
	if sh == nil {
		return s.eager("Run", nil, in)
	}
	if sh.refused != nil {
		return nil, sh.refused
	}
	if sh.graph != nil && !sh.current() {
		if err := s.drop(sh); err != nil {
			return nil, &Error{Call: "Run", Err: err}
		}
	}
	if sh.graph == nil && sh.ran < s.warmth() {
		return s.eager("Run", sh, in)
	}
	if sh.graph == nil {
		if err := s.capture(sh); err != nil {
			return nil, err
		}
	}
	return s.replay(sh, in)
}

// warmth is how many eager runs come before a capture: as many as were asked for before the first, and one where the program has run already with inputs of
// other shapes.
func (s *Step) warmth() int {
	if s.stats.Captures > 0 {
		return min(1, s.warm)
	}
	return s.warm
}

// Eager takes a step without a graph, whatever the shapes: as Run does where nothing is captured.
func (s *Step) Eager(in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := s.usable("Eager", in); err != nil {
		return nil, err
	}
	return s.eager("Eager", nil, in)
}

// Captures reports whether the step is captured on its device. Else each Run is an eager one: on the host, on a simulated device, and with an
// allocator that has no cache.
func (s *Step) Captures() bool { return s != nil && s.capturer != nil }

// Exec is the stream on which the step works, and its allocator: what else the step changes, such as an average of the parameters, is made under it.
func (s *Step) Exec() tensor.Exec {
	if s == nil {
		return tensor.Exec{}
	}
	return s.exec
}

// usable refuses steps and inputs that are not there.
func (s *Step) usable(call string, in []*tensor.Tensor) error {
	switch {
	case s == nil || s.f == nil:
		return &Error{Call: call, Detail: "the step was not made by New"}
	case s.closed:
		return &Error{Call: call, Detail: "the step is closed", Err: device.ErrClosed}
	}
	for i, t := range in {
		if t == nil || t.Released() {
			return &Error{Call: call, Detail: fmt.Sprintf("input %d", i), Err: &tensor.ReleasedError{Op: call, Nil: t == nil}}
		}
	}
	return nil
}

// Close waits for the step's work and gives everything back that the step holds: graphs, their memory, inputs and results. The parameters of
// Modules, the state of optimizers and the scale of a GradScaler that the step has used go on on the default stream. Closing twice is harmless.
func (s *Step) Close() error {
	if s == nil || s.f == nil || s.closed {
		return nil
	}
	return s.close()
}

func (s *Step) close() (err error) {
	s.closed = true
	s.dropResults()
	if s.capturer == nil {
		return nil
	}
	note := func(e error) { err = errors.Join(err, e) }
	note(s.capturer.Synchronize(context.Background()))
	for _, sh := range s.shapes {
		note(s.drop(sh))
		sh.release()
	}
	s.shapes = nil
	if s.prepared != nil {
		s.prepared.End()
	}
	for _, m := range s.modules {
		note(s.home(m))
	}
	if s.pool != nil {
		note(s.pool.Release())
	}
	if s.event != nil {
		note(s.event.Close())
	}
	note(s.capturer.Close())
	return err
}

// home brings a module back to the default stream, unless it is nowhere or elsewhere by now.
func (s *Step) home(m nn.Module) error {
	for _, p := range m.Parameters() {
		if t := p.Tensor(); t == nil || t.Exec().Stream() != device.Stream(s.capturer) {
			return nil
		}
	}
	return m.To(s.dev, nn.WithAllocator(s.alloc))
}

// behind makes later work of the step come after what is on another stream now.
func (s *Step) behind(other device.Stream) error {
	if s.capturer == nil || other.ID() == s.exec.Stream().ID() {
		return nil
	}
	if err := other.Record(s.event); err != nil {
		return err
	}
	return s.exec.Stream().Wait(s.event)
}

// behindInputs is behind for the default stream, on which an evaluation may still read the parameters, and for those of the inputs.
func (s *Step) behindInputs(in []*tensor.Tensor) error {
	home := s.dev.DefaultStream()
	if err := s.behind(home); err != nil {
		return err
	}
	for _, t := range in {
		if other := t.Exec().Stream(); t.Device().ID() == s.dev.ID() && other.ID() != home.ID() {
			if err := s.behind(other); err != nil {
				return err
			}
		}
	}
	return nil
}
