package cuda

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// Profile is the times of what was enqueued on a device's streams while it ran: kernels, products of cuBLAS, copies, fills and launches of
// graphs. See StartProfile. Its methods may be called at any time, by any goroutine; before Stop they tell of what was seen to be
// done so far, at a wait or when the profile had too many operations under way.
type Profile struct {
	device *Device

	mu       sync.Mutex           // the last lock that anybody takes: see profiler
	empty    time.Duration        // between two timing events with nothing between them
	totals   map[Operation]*Total // as large as a program has different operations; spans refer to its entries
	streams  map[device.StreamID]*streamTotal
	spans    []span
	unkept   int // operations beyond profileLimits.spans
	captured int
	lost     int // enqueued on a stream and not timed
	waits    int // for the oldest operation, when too many were under way
	failures int
	failure  error  // the first
	seen     uint64 // operations, of all kinds: see version
}

// span is one operation.
type span struct {
	operation        *Total // of the same kind; its times are not the span's
	stream           device.StreamID
	called, returned time.Duration // on the host, since the system's epoch
	begin, took      time.Duration // on the device, whose clock is not the host's; begin is put on the same scale (profileclock.go)
}

// streamTotal is the operations of one stream.
type streamTotal struct {
	count       int
	busy        time.Duration // the sum of times, which do not overlap
	first, last time.Duration // begin of the first operation, end of the last
}

// Total is all operations of a profile that are equal.
type Total struct {
	Operation
	Count    int
	Time     time.Duration // the device's, of all
	Min, Max time.Duration // of one
}

// Mean is the time of one operation.
func (t *Total) Mean() time.Duration {
	if t.Count == 0 {
		return 0
	}
	return t.Time / time.Duration(t.Count)
}

// add counts t's operations, too.
func (t *Total) add(u *Total) {
	if t.Count == 0 || u.Min < t.Min {
		t.Min = u.Min
	}
	t.Max = max(t.Max, u.Max)
	t.Count += u.Count
	t.Time += u.Time
}

// StartProfile begins to time what is enqueued on the device's streams, each operation by two events of the driver around it, until Stop.
// Several profiles may run at a time, each of its own region. A device has no profile on its own unless ProfileVariable asks for one,
// and its operations then pay nothing for it.
//
// An error means that the device cannot be used, or cannot make what a profile needs. From then on nothing that goes wrong in a
// profile fails an operation: it is counted, and WriteTotals tells it.
func (d *Device) StartProfile() (*Profile, error) {
	d = d.orAbsent()
	const call = "StartProfile"
	b, err := d.begin(call) // makes the context, which may start the profile that the environment asks for
	if err != nil {
		return nil, err
	}
	b.Release()
	p := newProfile(d)
	if err := d.startProfile(p); err != nil {
		return nil, err
	}
	return p, nil
}

func newProfile(d *Device) *Profile {
	return &Profile{device: d, totals: map[Operation]*Total{}, streams: map[device.StreamID]*streamTotal{}}
}

// startProfile lets p have what is enqueued on the streams from now on. The device has a context.
func (d *Device) startProfile(p *Profile) error {
	// The lock is held through the driver's calls, so that two that start at once share one profiler. Operations do not take it.
	d.profiling.Lock()
	defer d.profiling.Unlock()
	r := d.profiler.Load()
	if r == nil {
		var err error
		if r, err = newProfiler(d); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.empty = r.empty
	p.mu.Unlock()
	r.attach(p) // before operations find the profiler: one without profiles would time them for nobody
	d.profiler.Store(r)
	return nil
}

// Stop ends the profile after waiting for the operations in it that are under way; what other goroutines enqueue on streams meanwhile may
// or may not be part of it. A second Stop does nothing. Closing the device stops its profiles.
func (p *Profile) Stop() {
	if !p.absent() {
		p.device.stopProfiles(p)
	}
}

// absent reports whether there is no profile: a nil pointer, or a zero value, which StartProfile did not make.
func (p *Profile) absent() bool { return p == nil || p.device == nil }

// writable says what is wrong with the arguments of a call that writes the profile to w.
func (p *Profile) writable(call string, w io.Writer) error {
	if p.absent() {
		return &device.Error{Call: call, Detail: "the profile is nil or a zero value", Err: device.ErrInvalidValue}
	}
	if why := isnil.Why("writer", w); why != "" {
		return p.device.fail(call, device.ErrInvalidValue, "%s", why)
	}
	return nil
}

// stopProfiles stops profiles; those that do not run are left as they are.
func (d *Device) stopProfiles(list ...*Profile) {
	d.profiling.Lock()
	defer d.profiling.Unlock()
	r := d.profiler.Load()
	if r == nil {
		return
	}
	if r.detach(list) {
		d.profiler.Store(nil) // an operation that has loaded it finds it closed, and is not timed
		r.close()
	}
}

// endProfiles stops all profiles of the device.
func (d *Device) endProfiles() {
	if r := d.profiler.Load(); r != nil {
		d.stopProfiles(r.attached()...)
	}
}

// Totals returns the operations of the profile, equal ones as one, those that took the longest first.
func (p *Profile) Totals() []Total {
	if p.absent() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Total, 0, len(p.totals))
	for _, t := range p.totals {
		list = append(list, *t) // copies: entries go on counting
	}
	return sorted(list)
}

// sorted puts those that took the longest first.
func sorted(list []Total) []Total {
	slices.SortFunc(list, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.label(), b.label()), cmp.Compare(a.Shape(), b.Shape()))
	})
	return list
}

// add takes an operation that is done. Its operation is o.
func (p *Profile) add(o *Operation, s span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	s.operation = p.totals[*o]
	if s.operation == nil {
		s.operation = &Total{Operation: *o}
		p.totals[*o] = s.operation
	}
	s.operation.add(&Total{Count: 1, Time: s.took, Min: s.took, Max: s.took})
	t := p.streams[s.stream]
	if t == nil {
		t = &streamTotal{first: s.begin} // streams read their operations in order: the first one that comes is the first
		p.streams[s.stream] = t
	}
	t.count++
	t.busy += s.took
	t.last = s.begin + s.took
	if len(p.spans) >= p.device.system.profiles.limits.spans {
		p.unkept++
		return
	}
	p.spans = append(p.spans, s)
}

// miss counts operations that were not timed.
func (p *Profile) miss(captured, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.captured += captured
	p.lost += lost
	p.seen += uint64(captured + lost)
}

// fail counts something that went wrong.
func (p *Profile) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.failure == nil {
		p.failure = err
	}
}

// waited counts a wait of the profile's own.
func (p *Profile) waited() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits++
}

// version changes with everything that the profile sees.
func (p *Profile) version() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen + uint64(p.failures)
}
