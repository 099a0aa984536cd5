package memory

import (
	"errors"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory/internal/text"
	pkgerrors "github.com/pkg/errors"
)

// Graph is captured work together with its memory: PyTorch's CUDAGraph. The addresses that the work uses are part of it, so
// what was allocated during the capture came from a private pool, which serves nobody else until the graph is closed.
// Replays of one graph, and of graphs that share a pool, must run one after the other; those that share a pool, in the order
// in which they were captured.
type Graph struct {
	exec device.GraphExec
	pool *Pool
	kept []CaptureKeeper

	mu     sync.Mutex
	closed bool
}

// CaptureOption changes what CaptureGraph does.
type CaptureOption func(*captureOptions)

type captureOptions struct {
	pool    *Pool
	keep    []beginKeeping
	planned bool
}

// CaptureKeeper keeps what captured work uses besides memory of the device, such as pinned host memory.
type CaptureKeeper interface {
	End()           // the capture is over: no more is kept, what is stays so
	Release() error // the graph is closed
}

type beginKeeping = func(capturing func(device.Stream) bool) (CaptureKeeper, error)

// CapturePool makes the capture take its memory from p, of the same allocator, which other graphs may use too.
func CapturePool(p *Pool) CaptureOption { return func(o *captureOptions) { o.pool = p } }

// CaptureKeeping makes the graph keep what begin's result keeps. begin is called when the capture has begun, with a function that
// says which streams are part of it. Keep of package memory/pinned is such an option.
func CaptureKeeping(begin func(capturing func(device.Stream) bool) (CaptureKeeper, error)) CaptureOption {
	return func(o *captureOptions) { o.keep = append(o.keep, begin) }
}

// CaptureGraph captures the work that work enqueues on s, and on streams that join the capture, as a Graph. None of it runs.
// Meanwhile requests for memory on these streams are served by a private pool, and the rules of a capture hold: work must not
// wait for these streams, memory freed while other streams use it is not reused before the end (with ReuseInCapture: before
// the capture has joined them), and a request for which the device has no memory fails at once, without giving the cache back
// first, because that waits. Requests on other streams go on as ever, except for that last point.
//
// Blocks that work allocates and does not free stay the caller's; freeing them later returns them to the graph's pool. It
// fails with device.ErrUnavailable if s cannot be captured, with work's error, or with the driver's; the capture is over then
// and its memory can be given back by EmptyCache. If work panics the same is done, and the panic passes through. work may call
// the allocator as it likes.
func (a *Caching) CaptureGraph(s device.Stream, work func() error, opts ...CaptureOption) (*Graph, error) {
	if a.absent() {
		return nil, argumentErr("CaptureGraph", text.NilAllocator)
	}
	if work == nil {
		return nil, argumentErr("CaptureGraph", text.NilFunction)
	}
	if why := isnil.Why("stream", s); why != "" {
		return nil, argumentErr("CaptureGraph", "%s", why)
	}
	stream, ok := s.(device.Capturer)
	if !ok {
		return nil, &device.Error{Device: a.id, Call: "CaptureGraph", Detail: "its streams have no graphs", Err: device.ErrUnavailable}
	}
	var o captureOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	for _, begin := range o.keep {
		if begin == nil {
			return nil, argumentErr("CaptureKeeping", text.NilFunction)
		}
	}
	g := &Graph{pool: o.pool}
	if g.pool == nil {
		g.pool = a.capturePool()
	} else if err := g.pool.Retain(); err != nil {
		return nil, err
	}
	if err := a.captureOrRelease(g, stream, work, o); err != nil {
		return nil, err
	}
	return g, nil
}

// captureOrRelease captures, and lets go of the graph's memory if that fails or work panics.
func (a *Caching) captureOrRelease(g *Graph, s device.Capturer, work func() error, o captureOptions) (err error) {
	done := false
	defer func() {
		a.pollEvents(nil) // what was freed in the capture and waited for its end
		if o.planned {
			err = errors.Join(err, a.endPlanned(g.pool))
		}
		if !done {
			err = errors.Join(err, g.release())
		}
	}()
	if o.planned {
		if err := a.planCapture(g.pool, s); err != nil {
			return err
		}
	}
	err = a.capture(g, s, work, o.keep)
	done = err == nil
	return err
}

// capturePool makes a pool for a capture, with one use.
func (a *Caching) capturePool() *Pool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastPool[0]++
	return a.addPool(&Pool{a: a, limit: unlimited}, PoolID{a.lastPool[0], 0})
}

// capture sets g.exec. However it ends, the capture is over and no request is routed any more.
func (a *Caching) capture(g *Graph, s device.Capturer, work func() error, keep []beginKeeping) error {
	if err := s.BeginCapture(); err != nil {
		return err
	}
	id, open := s.CaptureID(), true
	a.captures.Add(1)
	end := func() (device.Graph, error) {
		open = false
		a.captures.Add(-1)
		return s.EndCapture()
	}
	defer func() {
		if open { // work failed, or panicked
			if graph, err := end(); err == nil {
				_ = closeCaptured(graph) // the error that is told is the first one
			}
		}
	}()
	part := func(x device.Stream) bool {
		c, ok := x.(device.Capturer)
		return ok && c.CaptureID() == id
	}
	if err := a.BeginRoute(g.pool, part); err != nil {
		return err
	}
	defer func() { _ = a.EndRoute(g.pool) }() // cannot fail: it was begun, and nobody else knows of it
	defer func() {
		for _, c := range g.kept {
			c.End()
		}
	}()
	for _, begin := range keep {
		c, err := begin(part)
		if err != nil {
			return err
		}
		if c != nil {
			g.kept = append(g.kept, c)
		}
	}
	if err := work(); err != nil {
		return err
	}
	graph, err := end()
	if err != nil {
		return err
	}
	g.exec, err = graph.Instantiate()
	if err = errors.Join(err, closeCaptured(graph)); err != nil && g.exec != nil {
		err = errors.Join(err, closeCaptured(g.exec)) // nobody gets a graph beside an error
		g.exec = nil
	}
	return err
}

// closeCaptured closes a graph of the driver's. If that refuses it is asked once more, because nobody has the graph to do so later.
func closeCaptured(g interface{ Close() error }) error {
	if g.Close() == nil {
		return nil
	}
	return g.Close()
}

// inCapture reports whether any stream of the device is being captured: by the allocator, or as the driver knows. Then the allocator waits for nothing.
func (a *Caching) inCapture() bool {
	if a.captures.Load() != 0 {
		return true
	}
	d, ok := a.driver.(interface{ Capturing() bool })
	return ok && d.Capturing()
}

// Pool is where the graph's memory comes from, to give to other captures.
func (g *Graph) Pool() *Pool {
	if g == nil {
		return nil
	}
	return g.pool
}

// Replay enqueues the captured work on a stream.
func (g *Graph) Replay(s device.Stream) error {
	if g == nil || g.exec == nil {
		return argumentErr("Replay", nilGraph)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return pkgerrors.WithStack(&device.Error{Device: g.pool.a.id, Call: "Replay", Detail: "the graph is closed", Err: device.ErrClosed})
	}
	return g.exec.Launch(s)
}

// Close ends the graph; its replays must be done. Its memory, as far as no block holds it and no other graph shares the pool,
// goes back to the device with the next EmptyCache, or sooner under pressure. Closing twice is harmless.
func (g *Graph) Close() error {
	if g == nil || g.exec == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	if err := closeCaptured(g.exec); err != nil {
		return err
	}
	g.closed = true
	return g.release()
}

// release lets go of the memory.
func (g *Graph) release() error {
	var errs []error
	for _, c := range g.kept {
		errs = append(errs, c.Release())
	}
	return errors.Join(append(errs, g.pool.Release())...)
}
