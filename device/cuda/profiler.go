package cuda

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// profiler times the operations of a device for its profiles. Each operation is enqueued on its stream between two timing events, in one
// crossing (timing). What is done is read later, by waits, which have the time, and when many operations are under way (drain).
//
// Locks are taken in this order: Stream.looking, use, Stream.timing, mu, Profile.mu.
type profiler struct {
	device *Device
	clock  clock         // guarded by mu, once it has been opened
	empty  time.Duration // between two events with nothing between them
	limit  int           // operations under way

	// use is read-locked from an operation's first event to its last, and locked by what wants no operation to be between.
	use sync.RWMutex

	mu       sync.Mutex // held for calls that ask the driver, and given up for those that wait
	closed   bool       // no profile is left: nothing more is timed
	profiles []*Profile // that run; never changed, only replaced
	made     int        // timings that exist, at most limit
	free     []*timing  // of those, not in use
	pending  map[device.StreamID]*pending
	number   uint64 // of the last operation that was timed
}

// pending is the operations of a stream that are under way, in order.
type pending struct {
	list []*timing
	end  time.Duration // of the last one that was read
}

// timing is two events of the driver, and the operation that they are around at present.
type timing struct {
	profiler    *profiler
	stream      *Stream
	first, last uintptr // the events
	looking     bool    // whether finish unlocks Stream.looking

	operation        Operation
	profiles         []*Profile // that want it
	number           uint64     // over all streams, in the order in which operations were seen to be enqueued
	base             *timeBase  // that was the clock's when it began
	called, returned time.Duration
	broken           bool // an event was not recorded
}

// newProfiler makes the clock, and measures what an empty pair of events takes.
func newProfiler(d *Device) (*profiler, error) {
	p := &profiler{device: d, limit: d.system.profiles.limits.timings, pending: map[device.StreamID]*pending{}}
	err := p.clock.open(d)
	if err == nil {
		p.empty, err = p.clock.set()
	}
	if err != nil {
		p.clock.close()
		return nil, err
	}
	return p, nil
}

// time begins to time what is about to be enqueued on the stream. It returns nil if that is not timed: no profile runs, or the stream is
// being captured, so that it does not run now. The methods of a nil timing do as without profiles.
func (s *Stream) time() *timing {
	p := s.device.profiler.Load()
	if p == nil {
		return nil
	}
	s.looking.RLock() // no capture begins meanwhile: events in it would not be recorded, and asking for them would end it
	t := p.timing(s)
	if t == nil {
		s.looking.RUnlock()
		return nil
	}
	t.looking = true
	return t
}

// timeLooking is time for callers that hold s.looking.
func (s *Stream) timeLooking() *timing {
	p := s.device.profiler.Load()
	if p == nil {
		return nil
	}
	return p.timing(s)
}

// timing takes two events and the stream's timing lock.
func (p *profiler) timing(s *Stream) *timing {
	p.use.RLock()
	// Under s.looking: what is captured now stays so until the operation is enqueued.
	if s.Capturing() {
		p.miss(1, 0)
		p.use.RUnlock()
		return nil
	}
	t := p.take() // before the stream's lock: it may wait for an operation of another goroutine on the same stream
	if t == nil {
		p.use.RUnlock()
		return nil
	}
	s.timing.Lock() // until finish: no other operation of the stream comes between the two events
	t.stream, t.called = s, p.clock.now()
	return t
}

// begin adds the first event to the batch.
func (t *timing) begin(b *driver.Batch) {
	if t != nil {
		b.Add(driver.EventRecord, t.first, t.stream.handle)
	}
}

// end adds the last event.
func (t *timing) end(b *driver.Batch) {
	if t != nil {
		b.Add(driver.EventRecord, t.last, t.stream.handle)
	}
}

// run is Batch.Run, but for the events: if one cannot be recorded, the rest of the batch runs all the same.
func (t *timing) run(b *driver.Batch) (driver.Func, driver.Result) {
	f, r := b.Run()
	if t == nil {
		return f, r
	}
	// A profile never fails an operation: without an event it has no time, and that is counted.
	for r != driver.Success && f == driver.EventRecord {
		t.broken = true
		t.profiler.fail(t.profiles, f, r)
		f, r = b.Resume()
	}
	t.returned = t.profiler.clock.now()
	return f, r
}

// finish ends what time began. done says that the operation is on the stream.
func (t *timing) finish(done bool) {
	if t == nil {
		return
	}
	p, s, looking := t.profiler, t.stream, t.looking
	p.put(t, done)    // it may be another operation's from here on
	s.timing.Unlock() // in the order opposite to that of timing and time
	p.use.RUnlock()
	if looking {
		s.looking.RUnlock()
	}
}

// put keeps an operation until it is done, or gives the events back.
func (p *profiler) put(t *timing, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !done || t.broken {
		if done { // it runs, without a time; one that was not enqueued is nobody's
			p.lose(t.profiles, 1)
		}
		p.recycle(t)
		return
	}
	p.number++
	t.number = p.number
	q := p.pending[t.stream.id]
	if q == nil {
		q = new(pending)
		p.pending[t.stream.id] = q
	}
	q.list = append(q.list, t)
}

// recycle lets others have the events. Caller holds p.mu.
func (p *profiler) recycle(t *timing) {
	t.base.users--
	*t = timing{profiler: p, first: t.first, last: t.last} // all else goes, so that a free timing keeps neither streams nor profiles alive
	p.free = append(p.free, t)
}

// take returns a timing for an operation that begins now, or nil if there is none to be had. When half of what there may be is under
// way, it looks for some that are done; when all are, it waits for the oldest.
func (p *profiler) take() *timing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.clock.tick()
	if len(p.free) == 0 && p.made >= p.limit/2 {
		p.read(4) // a few of each stream, so that no operation pays for all that is done
	}
	for range 2 { // while the lock is given up for the wait another goroutine may take what became free
		if len(p.free) == 0 && p.made == p.limit {
			p.waitForOldest()
			p.read(p.limit)
		}
	}
	if len(p.free) == 0 && p.made < p.limit {
		p.make()
	}
	n := len(p.free)
	if n == 0 {
		p.lose(p.profiles, 1)
		return nil
	}
	t := p.free[n-1]
	p.free = p.free[:n-1]
	t.profiles, t.base = p.profiles, p.clock.base
	t.base.users++ // until recycle
	return t
}

// make makes a timing. Caller holds p.mu.
func (p *profiler) make() {
	t := &timing{profiler: p}
	for _, e := range []*uintptr{&t.first, &t.last} {
		handle, f, r := p.device.rawEvent()
		if r != driver.Success {
			p.fail(p.profiles, f, r)
			p.device.destroyEvents(t.first)
			return
		}
		*e = handle
	}
	p.made++
	p.free = append(p.free, t)
}

// waitForOldest waits for the operation that was enqueued on its stream first. Caller holds p.mu, which it gives up meanwhile.
func (p *profiler) waitForOldest() {
	oldest := p.oldest()
	if oldest == nil {
		return
	}
	// What is needed is copied: without the lock a reader may recycle the timing. Its event may then be another operation's, a later one, and
	// the wait is longer than it need be.
	event, profiles := oldest.last, oldest.profiles
	p.mu.Unlock()
	defer p.mu.Lock()
	f, r := p.device.rawCall(driver.EventSynchronize, event)
	for _, x := range profiles {
		x.waited()
	}
	if r != driver.Success {
		p.fail(profiles, f, r)
	}
}

// oldest is the first operation that is under way, or nil. Caller holds p.mu.
func (p *profiler) oldest() (first *timing) {
	for _, q := range p.pending {
		if len(q.list) > 0 && (first == nil || q.list[0].number < first.number) {
			first = q.list[0]
		}
	}
	return first
}

// drain reads all that is done.
func (p *profiler) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read(p.limit)
}

// read reads operations that are done, up to so many of each stream. Caller holds p.mu.
func (p *profiler) read(most int) {
	for _, q := range p.pending {
		n := 0
		for n < len(q.list) && n < most && p.readOne(q, q.list[n]) { // in order: behind one that is not done none is
			p.recycle(q.list[n])
			n++
		}
		q.list = slices.Delete(q.list, 0, n)
	}
}

// readOne reads an operation, and reports false if it is not done. Caller holds p.mu.
func (p *profiler) readOne(q *pending, t *timing) bool {
	b, err := p.device.beginProfile()
	if err != nil {
		p.lose(t.profiles, 1)
		return true
	}
	defer b.Release()
	b.Add(driver.EventQuery, t.last)
	b.Add(driver.EventElapsedTime, b.Out(0), t.first, t.last)
	b.Add(driver.EventElapsedTime, b.Out(1), t.base.event, t.first) // the base was waited for, or found done, before it became one
	f, r := b.Run()
	if r == driver.NotReady {
		return false
	}
	if r != driver.Success {
		p.fail(t.profiles, f, r)
		p.lose(t.profiles, 1)
		return true
	}
	s := span{stream: t.stream.id, called: t.called, returned: t.returned}
	s.took = max(milliseconds(uint32(b.Value(0))), 0)
	// The two times are rounded apart from each other; operations of one stream do not overlap for that.
	s.begin = max(t.base.at+milliseconds(uint32(b.Value(1))), q.end)
	q.end = s.begin + s.took
	for _, x := range t.profiles {
		x.add(&t.operation, s)
	}
	return true
}

// attach makes a profile run.
func (p *profiler) attach(x *Profile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.profiles = append(slices.Clone(p.profiles), x) // operations under way have the list as it was when they began
}

func (p *profiler) attached() []*Profile {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.profiles
}

// detach ends profiles, and reports whether none is left. It waits for what they have under way.
func (p *profiler) detach(list []*Profile) (last bool) {
	p.mu.Lock()
	rest := slices.DeleteFunc(slices.Clone(p.profiles), func(x *Profile) bool { return slices.Contains(list, x) })
	changed := len(rest) < len(p.profiles)
	p.profiles = rest
	p.mu.Unlock()
	if !changed {
		return false
	}
	p.use.Lock() // what was begun for them is on its stream
	p.mu.Lock()
	p.closed = len(rest) == 0
	upTo := p.number // what begins from here on is not theirs, and is not waited for
	p.mu.Unlock()
	p.use.Unlock()
	p.settle(upTo)
	return len(rest) == 0
}

// settle waits until all operations up to a number are read. What cannot be waited for is lost.
func (p *profiler) settle(upTo uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read(p.limit)
	// Each wait should make the oldest operation another one. Where the driver fails three times in a row, the rest has no times.
	for tries := 0; tries < 3; {
		t := p.oldest()
		if t == nil || t.number > upTo {
			return
		}
		at := t.number
		if _, r := p.unlocked(t.last); r != driver.Success {
			tries++
		}
		p.read(p.limit)
		if again := p.oldest(); again == nil || again.number > at {
			tries = 0
		} else {
			tries++
		}
	}
	for _, q := range p.pending {
		for _, t := range q.list {
			p.lose(t.profiles, 1)
			p.recycle(t)
		}
		q.list = nil
	}
}

// unlocked waits for an event without p.mu, which the caller holds.
func (p *profiler) unlocked(event uintptr) (driver.Func, driver.Result) {
	p.mu.Unlock()
	defer p.mu.Lock()
	return p.device.rawCall(driver.EventSynchronize, event)
}

// close gives the events back. No operation is timed any more.
func (p *profiler) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.free {
		p.device.destroyEvents(t.first, t.last)
	}
	p.free = nil
	p.clock.close()
}

// miss counts operations that are not timed.
func (p *profiler) miss(captured, lost int) {
	for _, x := range p.attached() {
		x.miss(captured, lost)
	}
}

// lose counts operations whose time is not known.
func (p *profiler) lose(profiles []*Profile, n int) {
	for _, x := range profiles {
		x.miss(0, n)
	}
}

// fail counts a call of the driver that did not work.
func (p *profiler) fail(profiles []*Profile, f driver.Func, r driver.Result) {
	if len(profiles) == 0 {
		return
	}
	err := p.device.fail(f.String(), Result(r), "in a profile")
	for _, x := range profiles {
		x.fail(err)
	}
}

// beginProfile is begin for profiles. They also read their events when the device ends, behind the gate: end waits for their locks before it
// gives up the context.
func (d *Device) beginProfile() (*driver.Batch, error) {
	if d.closed.Load() && d.context.Load() != 0 {
		return d.beginLast("profile")
	}
	return d.begin("profile")
}

// rawCall is Device.call for a profile, whose errors are nobody else's.
func (d *Device) rawCall(f driver.Func, args ...uintptr) (driver.Func, driver.Result) {
	b, err := d.beginProfile()
	if err != nil {
		var result Result // the driver's, if it was asked; a device that is closed or lost counts as any error
		errors.As(err, &result)
		return f, max(driver.Result(result), driver.InvalidValue)
	}
	defer b.Release()
	b.Add(f, args...)
	return b.Run()
}

// rawEvent makes a timing event that is nobody else's.
func (d *Device) rawEvent() (handle uintptr, f driver.Func, r driver.Result) {
	b, err := d.beginProfile()
	if err != nil {
		return 0, driver.EventCreate, driver.InvalidContext
	}
	defer b.Release()
	b.Add(driver.EventCreate, b.Out(0), 0) // without flags: the kind that notes the time, and for which waits spin
	f, r = b.Run()
	return uintptr(b.Value(0)), f, r
}

// destroyEvents gives events back. If the driver refuses it is asked once more: then there is nothing left to do.
func (d *Device) destroyEvents(events ...uintptr) {
	for _, e := range events {
		if e == 0 {
			continue
		}
		if _, r := d.rawCall(driver.EventDestroy, e); r != driver.Success {
			d.rawCall(driver.EventDestroy, e)
		}
	}
}
