package host

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// Device is the processor, or a part of its memory, as a device. It implements device.VirtualMemory and
// device.PinnedMemory; its streams implement device.Executor.
type Device struct {
	id          device.ID
	capacity    uint64
	checkBounds bool
	shared      bool // the process-wide device: never closed
	inline      inline
	closed      atomic.Bool
	exact       atomic.Bool // SetExactConvolutions

	mu struct {
		sync.Mutex
		memory  extent.Set        // what Malloc returned, and the pages of Map; sizes are whole pages
		ranges  map[uint64]uint64 // what Reserve returned: address to bytes
		pinned  map[uint64]uint64 // what AllocPinned returned: address to bytes
		queues  []*queue          // open streams, by ID
		streams device.StreamID   // the last ID given out
	}
	busy atomic.Int32 // len(mu.queues), so that Free need not lock when there are none
}

var (
	_ device.VirtualMemory = (*Device)(nil)
	_ device.PinnedMemory  = (*Device)(nil)
	_ device.Executor      = (*inline)(nil)
	_ device.Executor      = (*queue)(nil)
)

// Option changes a new Device.
type Option func(*Device)

// Capacity sets how many bytes may be mapped at a time. Zero means the machine's memory.
func Capacity(bytes uint64) Option {
	return func(d *Device) {
		if bytes > 0 {
			d.capacity = bytes
		}
	}
}

// CheckBounds makes copies and fills fail with ErrInvalidValue when they reach outside live memory. Otherwise such a copy
// is a fault that ends the program, as any access to memory that is not mapped.
func CheckBounds() Option { return func(d *Device) { d.checkBounds = true } }

// next is the index of the device that New makes. The process-wide device is 0.
var next atomic.Int64

// New returns a new host device that belongs to the caller.
func New(options ...Option) *Device {
	return open(int(next.Add(1)), options...)
}

// Default returns the process-wide host device, "host". It is shared by all who ask: its Close only waits for its work.
var Default = sync.OnceValue(func() *Device {
	d := open(0)
	d.shared = true
	return d
})

func open(index int, options ...Option) *Device {
	d := &Device{id: device.ID{Kind: device.Host, Index: index}, capacity: machineMemory()}
	for _, option := range options {
		if option != nil {
			option(d)
		}
	}
	d.inline.device = d
	d.mu.ranges = make(map[uint64]uint64)
	d.mu.pinned = make(map[uint64]uint64)
	return d
}

// ID returns the device's name in this process.
func (d *Device) ID() device.ID { return d.orAbsent().id }

// Properties returns the facts. The processor's name is the operating system's, or the architecture if that says nothing.
func (d *Device) Properties() device.Properties {
	d = d.orAbsent()
	return device.Properties{
		Name:        processorName(),
		TotalMemory: d.capacity,
		Alignment:   osmem.PageSize(),
		Processors:  runtime.NumCPU(),
	}
}

// DefaultStream returns stream 0, which runs its work inline.
func (d *Device) DefaultStream() device.Stream { return &d.orAbsent().inline }

// NewStream returns a new asynchronous stream.
func (d *Device) NewStream() (device.Stream, error) {
	d = d.orAbsent()
	if d.closed.Load() {
		return nil, d.fail("NewStream", device.ErrClosed, "")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.streams++
	q := &queue{device: d, id: d.mu.streams}
	d.mu.queues = append(d.mu.queues, q)
	d.busy.Store(int32(len(d.mu.queues)))
	return q, nil
}

// remove forgets a stream that was closed.
func (d *Device) remove(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.queues = slices.DeleteFunc(d.mu.queues, func(other *queue) bool { return other == q })
	d.busy.Store(int32(len(d.mu.queues)))
}

// queues returns the open streams in the order of their IDs.
func (d *Device) queues() []*queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.queues)
}

// NewEvent returns an event that counts as complete until it is recorded.
func (d *Device) NewEvent() (device.Event, error) {
	d = d.orAbsent()
	if d.closed.Load() {
		return nil, d.fail("NewEvent", device.ErrClosed, "")
	}
	return &event{device: d}, nil
}

// Synchronize waits for the work of all streams, in the order of their IDs, and returns the first error.
func (d *Device) Synchronize(ctx context.Context) error {
	d = d.orAbsent()
	if d.closed.Load() {
		return d.fail("Synchronize", device.ErrClosed, "")
	}
	var first error
	for _, q := range d.queues() {
		at := q.position()
		if err := q.wait(ctx, at); err != nil {
			return d.fail("Synchronize", err, "")
		}
		if first == nil { // the errors of the other streams stay where they are, so that none goes unheard
			first = q.take(at)
		}
	}
	return first
}

// quiesce waits for the work that was enqueued on the streams so far: memory that is about to go may be in use by it. It tells
// nobody's errors.
func (d *Device) quiesce() {
	if d.busy.Load() == 0 {
		return
	}
	for _, q := range d.queues() {
		_ = q.wait(context.Background(), q.position()) // cannot fail: the context never ends
	}
}

// Close waits for all work and gives all memory back, also what nobody freed. It returns the first error of the work that
// nobody was told yet.
func (d *Device) Close() error {
	d = d.orAbsent()
	if d.shared {
		return d.Synchronize(context.Background())
	}
	if d == absent {
		return noDevice("Close")
	}
	if d.closed.Swap(true) {
		return nil
	}
	var first error
	for _, q := range d.queues() {
		if err := q.Close(); err != nil && first == nil {
			first = err
		}
	}
	if err := d.releaseAll(); err != nil && first == nil {
		first = err
	}
	return first
}

// fail makes the error of a call.
func (d *Device) fail(call string, err error, format string, values ...any) error {
	if d == absent {
		return noDevice(call)
	}
	return &device.Error{Device: d.id, Call: call, Detail: fmt.Sprintf(format, values...), Err: err}
}
