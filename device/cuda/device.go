package cuda

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// Device is one GPU.
type Device struct {
	system      *system
	library     *driver.Library
	id          device.ID
	ordinal     uintptr // the driver's number, a CUdevice; what it is asked about by this alone needs no context
	properties  device.Properties
	granularity uint64 // smallest page; 0 if the device has no virtual memory
	pools       bool   // it has stream-ordered memory
	shared      bool   // Close leaves it open: it is that of everybody who called Open

	retaining sync.Mutex                   // held while the context is being made: retaining it twice would want two releases
	context   atomic.Uintptr               // the primary one, 0 until it is needed; each crossing to the driver reads it
	pool      atomic.Uintptr               // of stream-ordered memory; 0 until it is needed
	gate      *driver.Gate                 // shut by Close, which then waits until no call is inside
	closed    atomic.Bool                  // set before the gate is shut
	broken    atomic.Pointer[device.Error] // the first sticky error: later ones only repeat it
	captures  atomic.Int32                 // streams that are part of a capture; changed under capture.mu
	stream    Stream                       // the default one
	reports   reports
	blas      multiplier
	profiler  atomic.Pointer[profiler] // nil while no profile runs
	profiling sync.Mutex               // held while a profile is started or stopped
	names     handleNames

	// waiting is read-locked by waits for the whole device, and locked by what begins a capture or draws a stream into one: a wait that
	// meets a capture in the driver ends it. So a capture begins when such waits are over, which is as long as the device's work
	// takes. Taken after Stream.looking.
	waiting sync.RWMutex

	// mapping is read-locked by Map, and locked by what changes the peers, so that each page is open to each peer. Taken first.
	mapping sync.RWMutex

	// mu guards what the device has handed out. No driver call that may block on the device's work is made under it.
	mu struct {
		sync.Mutex
		lastStream device.StreamID
		open       map[*Stream]struct{}
		events     map[*Event]struct{}         // not closed
		memory     map[device.Ptr]uint64       // sizes of what Malloc returned
		async      map[device.Ptr]*graphMemory // what AllocAsync returned; nil if it is no graph's
		ranges     map[uint64]uint64           // sizes of reserved ranges
		pages      extent.Set                  // mapped; the owner is the range, the tag the driver's handle
		orphans    []page                      // that the driver refused to take back
		code       map[*atomic.Bool]loaded     // modules and graphs, by their own flag that they are closed
		peers      []*Device                   // that may use this device's memory
	}
}

var (
	_ device.Device          = (*Device)(nil)
	_ device.PageAliasing    = (*Device)(nil)
	_ device.PinnedMemory    = (*Device)(nil)
	_ device.PeerCopier      = (*Device)(nil)
	_ device.Launcher        = (*Device)(nil)
	_ device.Reporter        = (*Device)(nil)
	_ device.StreamOrdered   = (*Device)(nil)
	_ device.ProcessLister   = (*Device)(nil)
	_ device.MeasuredKernel  = (*Kernel)(nil)
	_ device.DescribedKernel = (*Kernel)(nil)
	_ device.Stream          = (*Stream)(nil)
	_ device.AsyncCopier     = (*Stream)(nil)
	_ device.CaptureOrder    = (*Stream)(nil)
)

// ID returns the device's name in this process.
func (d *Device) ID() device.ID { return d.orAbsent().id }

// Properties returns the facts.
func (d *Device) Properties() device.Properties { return d.orAbsent().properties }

// DefaultStream returns stream 0, the driver's legacy stream.
func (d *Device) DefaultStream() device.Stream { return &d.orAbsent().stream }

// begin starts a batch of driver calls; the first of them makes the device's context current. The caller releases the batch.
// It makes the context if there is none yet. call is the method, for the error.
func (d *Device) begin(call string) (*driver.Batch, error) {
	// The gate comes before the context is read: until the batch is released, Close can neither give the context back nor destroy
	// what the calls of the batch use.
	b := d.gate.Batch(d.library)
	if b == nil {
		return nil, d.fail(call, device.ErrClosed, "")
	}
	return d.prepare(call, b)
}

// beginLast is begin for the end of the device, behind the gate.
func (d *Device) beginLast(call string) (*driver.Batch, error) {
	return d.prepare(call, d.library.Batch())
}

// prepare makes the context current in a batch. It releases the batch if it fails.
func (d *Device) prepare(call string, b *driver.Batch) (*driver.Batch, error) {
	// The driver would answer with the sticky result again. It is not asked, because its answer does not say what came first.
	if first := d.broken.Load(); first != nil {
		b.Release()
		return nil, d.unusable(call, first)
	}
	handle := d.context.Load()
	if handle == 0 {
		var err error
		if handle, err = d.retain(); err != nil {
			b.Release()
			return nil, err
		}
	}
	// Threads have a current context, goroutines have none: this one may run on another thread than a moment ago, or another library
	// may have set its own context on this thread. Within the batch nothing comes between.
	b.Add(driver.CtxSetCurrent, handle)
	return b, nil
}

// retain takes the primary context.
func (d *Device) retain() (uintptr, error) {
	d.retaining.Lock()
	defer d.retaining.Unlock()
	if handle := d.context.Load(); handle != 0 { // by another goroutine, while this one waited for the lock
		return handle, nil
	}
	b := d.library.Batch() // it names the device and so needs no context
	defer b.Release()
	b.Add(driver.DevicePrimaryCtxRetain, b.Out(0), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "")
	}
	handle := uintptr(b.Value(0))
	d.context.Store(handle)
	d.profileFromEnvironment() // not before: a profile's own calls want the context, too
	return handle, nil
}

// streams lists the open streams, the default one included.
func (d *Device) streams() []*Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.mu.open))
}

// Synchronize waits for all work of the context, that of other libraries included.
func (d *Device) Synchronize(ctx context.Context) error {
	d = d.orAbsent()
	const call = "Synchronize"
	if err := d.notCapturing(call); err != nil {
		return err
	}
	// Before the wait: what others enqueue while it goes on may be behind it, and has not succeeded when it ends.
	streams := d.streams()
	at := make([]uint64, len(streams))
	for i, s := range streams {
		at[i] = s.work.position()
	}
	err := d.await(ctx, call, nil, d.idle, func() error { return d.waitForAll(call) })
	if err != nil {
		return err
	}
	for i, s := range streams {
		s.work.settle(at[i])
	}
	for _, s := range streams {
		if err := s.work.take(); err != nil {
			return err
		}
	}
	return d.waited()
}

// waitForAll waits for all work of the context, unless a stream is being captured.
func (d *Device) waitForAll(call string) error {
	d.waiting.RLock()
	defer d.waiting.RUnlock()
	if err := d.notCapturing(call); err != nil { // one may have begun before the lock was had
		return err
	}
	return d.call(call, driver.CtxSynchronize)
}

// idle reports whether no stream of this package has work.
func (d *Device) idle() (bool, error) {
	for _, s := range d.streams() {
		if done, err := s.Done(); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// call makes one driver call in the device's context.
func (d *Device) call(call string, f driver.Func, args ...uintptr) error {
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	return d.callIn(b, f, args...)
}

// last is call for the end of the device, behind the gate.
func (d *Device) last(f driver.Func, args ...uintptr) error {
	b, err := d.beginLast("Close")
	if err != nil {
		return err
	}
	return d.callIn(b, f, args...)
}

// callIn makes one call in a batch, and releases it.
func (d *Device) callIn(b *driver.Batch, f driver.Func, args ...uintptr) error {
	defer b.Release()
	b.Add(f, args...)
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "")
	}
	return nil
}

// await runs block, which blocks until some work is done, or returns an error of ctx before that. If ctx can end, block runs
// in a goroutine, counted in group, that goes on when ctx has ended: the driver knows no way to stop waiting. If ctx has
// ended already, done says whether that matters.
func (d *Device) await(ctx context.Context, call string, group *sync.WaitGroup, done func() (bool, error), block func() error) error {
	if ctx.Done() == nil {
		return block()
	}
	if ctx.Err() != nil {
		if finished, err := done(); finished || err != nil {
			return err
		}
		return d.fail(call, ctx.Err(), "")
	}
	result := make(chan error, 1) // with room, so that a goroutine to which nobody listens any more ends
	wait := func() { result <- block() }
	if group != nil { // whoever closes the stream or event waits for the group before its handle is destroyed
		group.Go(wait)
	} else { // the context outlives the wait: it is inside the gate
		go wait()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return d.fail(call, ctx.Err(), "")
	}
}

// Close waits for the device's work, and writes the profile that ProfileVariable asks for. A device of Open otherwise stays as it is
// until Shutdown; see there.
func (d *Device) Close() error {
	d = d.orAbsent()
	if d == absent {
		return noDevice("Close")
	}
	if d.closed.Load() {
		return nil
	}
	if d.shared {
		err := d.Synchronize(context.Background())
		return join(err, d.flushProfile())
	}
	if !d.shut() { // somebody else's Close came first, and may be at work still
		return nil
	}
	d.gate.Wait() // calls that are inside end with the context that they began with
	return d.end()
}
