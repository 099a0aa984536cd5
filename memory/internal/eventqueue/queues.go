package eventqueue

import (
	"cmp"
	"errors"
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Order is the order in which completed entries arrive.
type Order uint8

const (
	// ByStream empties one queue as far as it goes, then the next, the stream with the highest number first: so PyTorch's
	// allocator walks its hash map of streams.
	ByStream Order = iota
	// ByAge takes what was added first, over all streams that have come so far.
	ByAge
)

// Queues are the outstanding events of an allocator. B is what it calls a block. They have no lock: that of the owner is held for
// each call, and so over the calls of the driver that record and ask events.
type Queues[B any] struct {
	order    Order
	newEvent func(device.Stream) (device.Event, error)

	list  []*queue[B] // those with entries, in the order of ByStream
	spare []*queue[B] // empty ones, to use again: a stream that comes and goes makes no garbage
	pools []pool
	added uint64 // entries that there ever were
	count int    // entries that there are
}

// New makes queues that take their events from newEvent. If it fails, the block waits for all work on the stream instead: it is
// never lost, and never early.
func New[B any](order Order, newEvent func(device.Stream) (device.Event, error)) Queues[B] {
	return Queues[B]{order: order, newEvent: newEvent}
}

// Len is how many entries there are.
func (qs *Queues[B]) Len() int { return qs.count }

// Add makes b wait for the work that is on s now.
func (qs *Queues[B]) Add(s device.Stream, b B) {
	q := qs.of(s)
	qs.push(q, entry[B]{block: b, event: qs.mark(s)})
}

// AddCaptured makes b wait for the end of a capture that s is part of. Captured work does not run, so an event recorded in it never
// completes; but when the capture is over, the graph owns what the work needs.
func (qs *Queues[B]) AddCaptured(s device.Stream, b B, capture uint64) {
	qs.push(qs.of(s), entry[B]{block: b, capture: capture})
}

// AddLate makes b wait for work that is on s, and runs, while s is being captured: an event recorded now would become part of
// the graph, so it is recorded when the capture is over.
func (qs *Queues[B]) AddLate(s device.Stream, b B) {
	q := qs.of(s)
	q.late++
	qs.push(q, entry[B]{block: b, late: true})
}

func (qs *Queues[B]) push(q *queue[B], e entry[B]) {
	e.number = qs.added
	q.entries = append(q.entries, e)
	qs.added++
	qs.count++
}

// mark returns an event recorded on s, or nil.
func (qs *Queues[B]) mark(s device.Stream) device.Event {
	p := qs.pool(s)
	e := p.take()
	if e == nil {
		var err error
		if e, err = qs.newEvent(s); err != nil {
			return nil
		}
	}
	if s.Record(e) != nil {
		p.put(e)
		return nil
	}
	return e
}

// of returns the queue of a stream, which begins if there is none.
func (qs *Queues[B]) of(s device.Stream) *queue[B] {
	dev, id := s.Device().ID(), s.ID()
	at := len(qs.list)
	for i, q := range qs.list { // as many as streams with outstanding events: few
		if q.dev == dev && q.id == id {
			return q
		}
		if q.id < id {
			at = min(at, i)
		}
	}
	q := qs.newQueue()
	q.stream, q.dev, q.id = s, dev, id
	qs.list = append(qs.list, nil)
	copy(qs.list[at+1:], qs.list[at:])
	qs.list[at] = q
	return q
}

func (qs *Queues[B]) newQueue() *queue[B] {
	if n := len(qs.spare); n > 0 {
		q := qs.spare[n-1]
		qs.spare = qs.spare[:n-1]
		return q
	}
	return &queue[B]{}
}

// Poll calls arrive for each entry that the device has come to; it does not block. An event that cannot be asked counts as not
// completed: its error is for those who wait for the stream. arrive must not add entries.
func (qs *Queues[B]) Poll(arrive func(B)) {
	qs.round(arrive, (*queue[B]).done)
}

// Drain waits for each entry in turn and calls arrive for it. Of a stream that fails it leaves the rest, and goes on with the others.
func (qs *Queues[B]) Drain(arrive func(B)) error {
	var errs []error
	qs.round(arrive, func(q *queue[B]) bool {
		err := q.wait()
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	})
	return errors.Join(errs...)
}

// round goes through all queues, each up to the first entry of which passed is false.
func (qs *Queues[B]) round(arrive func(B), passed func(*queue[B]) bool) {
	for _, q := range qs.list {
		q.stuck = false
	}
	for i := qs.next(); i >= 0; i = qs.next() {
		q := qs.list[i]
		if q.late > 0 {
			qs.catchUp(q)
		}
		if q.stuck = !passed(q); !q.stuck {
			arrive(qs.pop(i))
		}
	}
}

// next returns the index of the queue whose turn it is in this round, or -1.
func (qs *Queues[B]) next() int {
	best, oldest := -1, uint64(math.MaxUint64)
	for i, q := range qs.list {
		if q.stuck {
			continue
		}
		if qs.order == ByStream {
			return i
		}
		if n := q.entries[q.head].number; n < oldest {
			best, oldest = i, n
		}
	}
	return best
}

// catchUp records the events that had to wait for the end of the stream's capture, if that is over.
func (qs *Queues[B]) catchUp(q *queue[B]) {
	if streams.Capturing(q.stream) {
		return
	}
	for i := q.head; i < len(q.entries); i++ {
		if e := &q.entries[i]; e.late {
			e.event, e.late = qs.mark(q.stream), false
		}
	}
	q.late = 0
}

// pop takes the first entry off queue i, and the queue away if it was the last.
func (qs *Queues[B]) pop(i int) B {
	q := qs.list[i]
	e := q.shift()
	qs.count--
	if e.event != nil {
		qs.pool(q.stream).put(e.event)
	}
	if q.head == len(q.entries) {
		qs.remove(i)
	}
	return e.block
}

// remove puts queue i, which is empty, aside.
func (qs *Queues[B]) remove(i int) {
	q := qs.list[i]
	q.entries, q.head, q.stream = q.entries[:0], 0, nil
	copy(qs.list[i:], qs.list[i+1:])
	last := len(qs.list) - 1
	qs.list[last] = nil
	qs.list = qs.list[:last]
	qs.spare = append(qs.spare, q)
}

// All yields the block of each entry.
func (qs *Queues[B]) All() iter.Seq[B] {
	return func(yield func(B) bool) {
		for _, q := range qs.list {
			for i := q.head; i < len(q.entries); i++ {
				if !yield(q.entries[i].block) {
					return
				}
			}
		}
	}
}

// Marks yields the block of each entry with the event that it waits for: nil if it waits for the end of a capture, or for all work on
// the stream.
func (qs *Queues[B]) Marks() iter.Seq2[B, device.Event] {
	return func(yield func(B, device.Event) bool) {
		for _, q := range qs.list {
			for _, e := range q.entries[q.head:] {
				if !yield(e.block, e.event) {
					return
				}
			}
		}
	}
}

// Drop takes the entries of some blocks out, wherever they stand, and returns how many those were. Their events are used again: a stream
// that was made to wait for one waits for what it stood for then.
func (qs *Queues[B]) Drop(of func(B) bool) (dropped int) {
	for i := len(qs.list) - 1; i >= 0; i-- {
		q := qs.list[i]
		kept := q.entries[:q.head]
		for _, e := range q.entries[q.head:] {
			if !of(e.block) {
				kept = append(kept, e)
				continue
			}
			dropped++
			if e.event != nil {
				qs.pool(q.stream).put(e.event)
			}
			if e.late {
				q.late--
			}
		}
		clear(q.entries[len(kept):])
		q.entries = kept
		if q.head == len(kept) {
			qs.remove(i)
		}
	}
	qs.count -= dropped
	return dropped
}

// errCaptured is the answer if an event became part of a graph: who waits for it would, too.
var errCaptured = errors.New("the stream is being captured")

// Order makes a stream wait, on the device, for the work that is on another one now.
func (qs *Queues[B]) Order(first, then device.Stream) error {
	p := qs.pool(first)
	e := p.take()
	if e == nil {
		var err error
		if e, err = qs.newEvent(first); err != nil {
			return err
		}
	}
	err := first.Record(e)
	if err == nil && streams.Capturing(first) { // perhaps it began before the event was recorded
		err = errCaptured
	}
	if err == nil {
		err = then.Wait(e)
	}
	p.put(e) // a wait is for what the event stood for when it was called
	return err
}

// Close forgets all entries and gives the events back to their devices.
func (qs *Queues[B]) Close() (errs []error) {
	for _, q := range qs.list {
		for _, e := range q.entries[q.head:] {
			if e.event != nil {
				qs.pool(q.stream).put(e.event)
			}
		}
	}
	for _, p := range qs.pools {
		for _, e := range p.events {
			errs = append(errs, e.Close())
		}
	}
	qs.list, qs.spare, qs.pools, qs.count = nil, nil, nil, 0
	return errs
}

// pool has the events of one device that are not in use.
type pool struct {
	dev    device.ID
	events []device.Event
}

// pool returns the unused events of the stream's device.
func (qs *Queues[B]) pool(s device.Stream) *pool {
	dev := s.Device().ID()
	for i := range qs.pools {
		if qs.pools[i].dev == dev {
			return &qs.pools[i]
		}
	}
	qs.pools = append(qs.pools, pool{dev: dev})
	return &qs.pools[len(qs.pools)-1]
}

func (p *pool) take() device.Event {
	n := len(p.events)
	if n == 0 {
		return nil
	}
	e := p.events[n-1]
	p.events = p.events[:n-1]
	return e
}

func (p *pool) put(e device.Event) { p.events = append(p.events, e) }

// Flaw says which invariant of the queues does not hold, "" if all do: none is empty, no stream has two, each is in the order of
// adding, and together they are counted.
func (qs *Queues[B]) Flaw() string {
	n := 0
	for i, q := range qs.list {
		if q.head >= len(q.entries) {
			return q.flaw("is empty")
		}
		for _, other := range qs.list[:i] {
			if other.dev == q.dev && other.id == q.id {
				return q.flaw("is not the only one")
			}
		}
		if i > 0 && cmp.Less(qs.list[i-1].id, q.id) {
			return q.flaw("is not in its place")
		}
		for j := q.head + 1; j < len(q.entries); j++ {
			if q.entries[j].number <= q.entries[j-1].number {
				return q.flaw("is out of order")
			}
		}
		n += len(q.entries) - q.head
	}
	if n != qs.count {
		return "the queues are counted wrongly"
	}
	return ""
}
