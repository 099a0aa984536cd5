package cuda

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// capture is a graph capture that goes on: the streams that are part of it. The driver knows that too, but asking it costs a
// call, and a wrong question ends the capture.
//
// Captures are of the relaxed kind. The others forbid some calls to the thread that captures, or to all others, and must
// be ended on the thread where they began; goroutines have no such thread. What could harm a capture is refused here,
// before the driver sees it.
type capture struct {
	id     uint64
	origin *Stream        // where it began, and must end: the driver refuses the end on another stream of it
	mu     sync.Mutex     // guards what follows; taken after Stream.looking and Device.waiting
	ended  bool           // for a Wait that comes late with a mark of it
	parts  []*Stream      // the origin first; none leaves before the end
	clocks []captureClock // of each part: the order of what is captured
	memory []*graphMemory // allocated in it
}

// lastCapture numbers captures.
var lastCapture atomic.Uint64

// end lets the streams go.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, s := range c.parts {
		s.capture.Store(nil)
		s.device.captures.Add(-1)
	}
}

// name says which graph the capture makes.
func (c *capture) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var operations uint64
	for i, s := range c.parts {
		operations += s.work.position() - c.clocks[i].base
	}
	return fmt.Sprintf("graph %d of %d operations", c.id, operations)
}

// Capturing reports whether the stream is part of a capture.
func (s *Stream) Capturing() bool { return s.capture.Load() != nil }

// CaptureID is the number of the capture that the stream is part of, or 0.
func (s *Stream) CaptureID() uint64 {
	if c := s.capture.Load(); c != nil {
		return c.id
	}
	return 0
}

// Capturing reports whether any stream of the device is part of a capture.
func (d *Device) Capturing() bool { return d.orAbsent().captures.Load() != 0 }

// notCapturing refuses what would end a capture.
func (s *Stream) notCapturing(call string) error {
	if s.Capturing() {
		return s.device.fail(call, device.ErrInvalidValue, "stream %d is being captured: its work does not run", s.id)
	}
	return nil
}

func (d *Device) notCapturing(call string) error {
	if d.captures.Load() != 0 {
		return d.fail(call, device.ErrInvalidValue, "a stream of the device is being captured: its work does not run")
	}
	return nil
}

// BeginCapture begins to put the stream's work into a graph. The default stream cannot be captured.
func (s *Stream) BeginCapture() error {
	const call = "BeginCapture"
	s.looking.Lock() // nobody asks for this stream's progress from here on until it says that it is being captured
	defer s.looking.Unlock()
	d := s.device
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	switch {
	case s.handle == 0:
		return d.fail(call, device.ErrInvalidValue, "the default stream cannot be captured")
	case s.Capturing():
		return d.fail(call, device.ErrInvalidValue, "stream %d is being captured already", s.id)
	case !d.library.Has(driver.StreamBeginCapture, driver.StreamEndCapture, driver.GraphInstantiateWithFlags,
		driver.GraphLaunch, driver.GraphExecDestroy, driver.GraphDestroy, driver.GraphGetNodes):
		return d.fail(call, device.ErrUnavailable, "graphs need a driver of CUDA 11.4 or newer")
	}
	d.waiting.Lock() // and nobody waits for the whole device, of which this stream is part
	defer d.waiting.Unlock()
	b.Add(driver.StreamBeginCapture, s.handle, driver.CaptureRelaxed)
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "stream %d", s.id)
	}
	c := &capture{id: lastCapture.Add(1), origin: s}
	c.join(s, nil) // under both locks: whoever looks next sees the capture
	return nil
}

// EndCapture ends the capture that BeginCapture began on this stream.
func (s *Stream) EndCapture() (device.Graph, error) {
	const call = "EndCapture"
	d := s.device
	b, err := s.begin(call)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	c := s.capture.Load()
	if c == nil || c.origin != s {
		return nil, d.fail(call, device.ErrInvalidValue, "no capture began on stream %d", s.id)
	}
	defer c.end() // not before the driver has ended it: until then a wait for one of its streams would be a mistake
	b.Add(driver.StreamEndCapture, s.handle, b.Out(0))
	c.mu.Lock() // an allocation is part of the graph, or it comes after the capture's end: see allocate
	f, r := b.Run()
	c.ended = true
	c.mu.Unlock()
	handle := uintptr(b.Value(0))
	if r == driver.Success {
		g := &Graph{device: d, handle: handle, left: d.left(c), name: c.name()}
		d.keepCode(&g.closed, loaded{driver.GraphDestroy, handle, nil})
		return g, nil
	}
	if !r.CaptureViolation() && !r.Sticky() { // the call did not get as far as ending the capture
		d.abandon(s, s.begin)
	}
	return nil, d.failed(f, r, "stream %d; the capture is over", s.id)
}

// abandon ends a capture of which nobody wants the graph. There is nobody to tell of an error.
func (d *Device) abandon(s *Stream, begin func(call string) (*driver.Batch, error)) {
	b, err := begin("EndCapture")
	if err != nil {
		return
	}
	defer b.Release()
	b.Add(driver.StreamEndCapture, s.handle, b.Out(0))
	b.Run() // a capture that was invalidated ends with an error, and has no graph
	if handle := uintptr(b.Value(0)); handle != 0 {
		b.Reset()
		b.Add(driver.CtxSetCurrent, d.context.Load()) // another crossing, perhaps on another thread
		b.Add(driver.GraphDestroy, handle)
		b.Run()
	}
}

// endCaptures ends the captures that began on the device's streams. It is part of the device's end.
func (d *Device) endCaptures() {
	for _, s := range d.streams() {
		if c := s.capture.Load(); c != nil && c.origin == s {
			d.abandon(s, d.beginLast)
			c.end()
		}
	}
}
