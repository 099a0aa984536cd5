package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// DefaultCapacity is the capacity of Open("sim"): that of a large GPU.
const DefaultCapacity = 80 * device.GiB

// Device is a simulated device. It implements device.PageAliasing and device.PinnedMemory; its streams implement
// device.Executor with ExecDiscard.
type Device struct {
	id       device.ID
	capacity uint64
	manual   bool
	observe  func(Call)
	zero     stream // the default stream

	mu struct {
		sync.Mutex
		closed bool

		memory   extent.Set      // allocations and mapped pages; Tag is the segment number
		ranges   extent.Set      // reserved ranges; Tag is the segment number
		aliases  map[uint64]*int // by address of pages that are mapped more than once: how often
		next     uint64          // the address of the next segment
		segments int             // the number of the next segment
		occupied uint64          // by others, see Occupy

		processes []device.Process // see OccupyBy; nil before it
		pinned    map[uintptr]uint64

		streams map[device.StreamID]*stream // open ones; 0 is the default stream
		last    device.StreamID             // the highest ID given out
		events  int                         // open ones

		calls   Calls
		costs   Costs
		elapsed time.Duration
		faults  []fault
		inject  func(Call) error
	}
}

var (
	_ device.PageAliasing  = (*Device)(nil)
	_ device.PinnedMemory  = (*Device)(nil)
	_ device.ProcessLister = (*Device)(nil)
	_ device.Executor      = (*stream)(nil)
)

// Option changes a new Device.
type Option func(*Device)

// ManualStreams makes work on streams finish only when the test says so. See the package comment.
func ManualStreams() Option { return func(d *Device) { d.manual = true } }

// OnCall sets a function that is told of each driver call, in order, when it has been made. It must not call the device.
func OnCall(observe func(Call)) Option { return func(d *Device) { d.observe = observe } }

// WithCosts sets what calls cost, as SetCosts does.
func WithCosts(costs Costs) Option { return func(d *Device) { d.mu.costs = costs } }

// made counts the devices made in this process: the next one's index.
var made atomic.Int64

// New returns a new device with capacity bytes of memory.
func New(capacity uint64, options ...Option) *Device {
	d := &Device{id: device.ID{Kind: device.Sim, Index: int(made.Add(1) - 1)}, capacity: capacity}
	d.mu.next = firstAddress
	d.mu.pinned = make(map[uintptr]uint64)
	d.mu.aliases = make(map[uint64]*int)
	d.zero.device = d
	d.mu.streams = map[device.StreamID]*stream{0: &d.zero}
	for _, option := range options {
		if option != nil {
			option(d)
		}
	}
	return d
}

// ID returns the device's name in this process.
func (d *Device) ID() device.ID { return d.orAbsent().id }

// Properties returns the facts.
func (d *Device) Properties() device.Properties {
	d = d.orAbsent()
	return device.Properties{Name: "simulated device", TotalMemory: d.capacity, Alignment: alignment, Processors: 1}
}

// DefaultStream returns stream 0.
func (d *Device) DefaultStream() device.Stream { return &d.orAbsent().zero }

// NewStream returns a stream with the next ID.
func (d *Device) NewStream() (device.Stream, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallStreamCreate, Segment: none, Stream: d.mu.last + 1}
	if err := d.open(c.Kind); err != nil {
		return nil, err
	}
	if !d.begin(&c) {
		return nil, d.end(&c)
	}
	return d.addStream(c.Stream), d.end(&c)
}

// Stream returns the stream with an ID of the caller's choice, and makes it if there is none. Traces name their streams.
func (d *Device) Stream(id device.StreamID) device.Stream {
	if d = d.orAbsent(); d == absent {
		return &absent.zero
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.mu.streams[id]; s != nil {
		return s
	}
	return d.addStream(id)
}

// addStream makes a stream. The caller holds d.mu.
func (d *Device) addStream(id device.StreamID) *stream {
	s := &stream{device: d, id: id}
	d.mu.streams[id] = s
	d.mu.last = max(d.mu.last, id)
	return s
}

// NewEvent returns an event that counts as complete until it is recorded.
func (d *Device) NewEvent() (device.Event, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallEventCreate, Segment: none}
	if err := d.open(c.Kind); err != nil {
		return nil, err
	}
	if !d.begin(&c) {
		return nil, d.end(&c)
	}
	d.mu.events++
	return &event{device: d}, d.end(&c)
}

// Complete finishes everything enqueued on a stream so far. It is for devices with ManualStreams; for others there is nothing to
// finish. A stream that does not exist is finished.
func (d *Device) Complete(id device.StreamID) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.mu.streams[id]; s != nil {
		s.finish(s.put)
	}
}

// FailWork enqueues work on a stream that fails: the next call that waits for it returns the error of the operation, as for a
// kernel that failed. It does nothing for a stream that does not exist.
func (d *Device) FailWork(id device.StreamID, operation string, err error) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.mu.streams[id]; s != nil {
		s.failed.Add(s.push(), device.LaunchError(d.id, operation, err))
	}
}

// Synchronize finishes the work of all streams and returns the first error, by stream ID.
func (d *Device) Synchronize(ctx context.Context) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallDeviceSync, Segment: none}
	if err := d.open(c.Kind); err != nil {
		return err
	}
	if !d.begin(&c) {
		return d.end(&c)
	}
	for _, s := range d.inOrder() {
		if s.done < s.put && ctx.Err() != nil {
			c.Err = d.fail(c.Kind, ctx.Err(), "")
			return d.end(&c)
		}
		s.finish(s.put)
	}
	for _, s := range d.inOrder() {
		if c.Err = s.failed.Take(s.put); c.Err != nil {
			break // the errors of the other streams stay where they are, so that none goes unheard
		}
	}
	return d.end(&c)
}

// Close finishes all work and gives everything back. It returns the first error of the work that nobody was told yet.
func (d *Device) Close() error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d == absent {
		return noDevice("Close")
	}
	if d.mu.closed {
		return nil
	}
	d.mu.closed = true
	var first error
	for _, s := range d.inOrder() {
		s.finish(s.put)
		s.closed.Store(true)
		if err := s.failed.Take(s.put); first == nil {
			first = err
		}
	}
	d.mu.memory, d.mu.ranges, d.mu.events = extent.Set{}, extent.Set{}, 0
	d.mu.calls.BytesNow = 0
	clear(d.mu.streams)
	clear(d.mu.aliases)
	if err := d.freeAllPinned(); first == nil {
		first = err
	}
	return first
}

// inOrder returns the open streams in the order of their IDs. The caller holds d.mu.
func (d *Device) inOrder() []*stream {
	return slices.SortedFunc(maps.Values(d.mu.streams), func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
}

// open returns an error if the device is closed. The caller holds d.mu.
func (d *Device) open(kind CallKind) error {
	if d.mu.closed {
		return d.fail(kind, device.ErrClosed, "")
	}
	return nil
}

// fail makes the error of a call.
func (d *Device) fail(kind CallKind, err error, format string, values ...any) error {
	if d == absent {
		return noDevice(kind.String())
	}
	return &device.Error{Device: d.id, Call: kind.String(), Detail: fmt.Sprintf(format, values...), Err: err}
}
