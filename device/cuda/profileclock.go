package cuda

import (
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// clock puts the device's times on the host's scale: times since the system's epoch. The driver tells times between two events as a
// float32 in milliseconds, of which little is left after a minute. So there is a base, an event at a known time, on a stream that has
// no other work, and a new one every now and then, timed from the one before.
type clock struct {
	device *Device
	stream uintptr
	base   *timeBase
	next   *timeBase   // recorded, and not known yet to be done
	old    []*timeBase // earlier ones, which operations that are under way are timed from
}

// timeBase is an event and its time.
type timeBase struct {
	event uintptr
	at    time.Duration // on the device, as the host's clock would have it
	set   time.Duration // when it was recorded, by the host's clock
	users int           // timings that are measured from it, until they are recycled; guarded by profiler.mu
}

// tries is how often the clock is set; the best counts.
const tries = 4

func (c *clock) now() time.Duration { return time.Since(c.device.system.profiles.epoch) }

// open makes the stream and the first base.
func (c *clock) open(d *Device) error {
	c.device = d
	b, err := d.begin("StartProfile")
	if err != nil {
		return err
	}
	defer b.Release()
	// It waits for no other stream, and none for it: a base is reached when the device gets to it, and not behind anybody's work.
	b.Add(driver.StreamCreateWithPriority, b.Out(0), driver.StreamNonBlocking, 0)
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "")
	}
	c.stream = uintptr(b.Value(0))
	return nil
}

// set finds the base's time on the host's clock: between the call that records it and the return of the wait for it. It returns the
// time between two events with nothing between them.
func (c *clock) set() (empty time.Duration, err error) {
	d, shortest := c.device, time.Duration(0)
	for range tries {
		var pair [2]uintptr
		for i := range pair {
			handle, f, r := d.rawEvent()
			if r != driver.Success {
				d.destroyEvents(pair[0])
				return 0, d.failed(f, r, "")
			}
			pair[i] = handle
		}
		before := c.now()
		between, f, r := c.pair(pair)
		took := c.now() - before // the event lies somewhere within: the error is half of that
		if r != driver.Success {
			d.destroyEvents(pair[:]...)
			return 0, d.failed(f, r, "")
		}
		if c.base == nil || between < empty {
			empty = between
		}
		best := &timeBase{event: pair[0], at: before + took/2, set: before}
		if c.base == nil || took < shortest { // the loser's event is destroyed below, whichever it is
			c.base, best, shortest = best, c.base, took
		}
		d.destroyEvents(pair[1])
		if best != nil {
			d.destroyEvents(best.event)
		}
	}
	return max(empty, 0), nil
}

// pair records two events, waits for them, and returns the time between them.
func (c *clock) pair(events [2]uintptr) (between time.Duration, f driver.Func, r driver.Result) {
	b, err := c.device.begin("StartProfile")
	if err != nil {
		return 0, driver.EventRecord, driver.InvalidContext
	}
	defer b.Release()
	// In one crossing, so that no goroutine switch is between the calls: half of their time is the clock's error.
	b.Add(driver.EventRecord, events[0], c.stream)
	b.Add(driver.EventRecord, events[1], c.stream)
	b.Add(driver.StreamSynchronize, c.stream)
	b.Add(driver.EventElapsedTime, b.Out(0), events[0], events[1])
	f, r = b.Run()
	return milliseconds(uint32(b.Value(0))), f, r
}

// tick sees that the base gets no older than it may. What does not work now will the next time. Caller holds profiler.mu, as for all below.
func (c *clock) tick() {
	switch now := c.now(); {
	case c.next != nil: // one at a time
		c.advance()
	case now-c.base.set > c.device.system.profiles.limits.base:
		event, _, r := c.device.rawEvent()
		if r != driver.Success {
			return
		}
		if _, r := c.device.rawCall(driver.EventRecord, event, c.stream); r != driver.Success {
			c.device.destroyEvents(event)
			return
		}
		c.next = &timeBase{event: event, set: now} // not waited for: operations are timed from the old base until a later tick finds it done
	}
}

// advance makes the next base the base if it is done.
func (c *clock) advance() {
	b, err := c.device.beginProfile()
	if err != nil {
		return
	}
	defer b.Release()
	b.Add(driver.EventQuery, c.next.event)
	b.Add(driver.EventElapsedTime, b.Out(0), c.base.event, c.next.event)
	switch _, r := b.Run(); r {
	case driver.Success:
		c.next.at = c.base.at + milliseconds(uint32(b.Value(0))) // on the device's clock: errors of the host's do not add up
		c.old = append(c.old, c.base)
		c.base, c.next = c.next, nil
		c.prune()
	case driver.NotReady:
	default: // the driver failed: the base stays, and the next tick tries again
		c.device.destroyEvents(c.next.event)
		c.next = nil
	}
}

// prune gives back bases from which nothing is measured any more: a profile may run for days, with a new base every other second.
func (c *clock) prune() {
	c.old = slices.DeleteFunc(c.old, func(b *timeBase) bool {
		if b.users > 0 {
			return false
		}
		c.device.destroyEvents(b.event)
		return true
	})
}

// close gives everything back.
func (c *clock) close() {
	d := c.device
	for _, b := range append(c.old, c.base, c.next) {
		if b != nil {
			d.destroyEvents(b.event)
		}
	}
	c.old = nil
	if c.stream == 0 {
		return
	}
	if _, r := d.rawCall(driver.StreamDestroy, c.stream); r != driver.Success { // once more, as with events
		d.rawCall(driver.StreamDestroy, c.stream)
	}
	c.stream = 0
}
