package eventqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// queue has the outstanding entries of one stream, the oldest first.
type queue[B any] struct {
	stream  device.Stream
	dev     device.ID
	id      device.StreamID
	entries []entry[B]
	head    int  // entries before it are done
	late    int  // entries of which the event is to be recorded
	stuck   bool // the first entry was asked in this round and has not completed
}

// entry is one block waiting for one stream. Without an event (it could not be made or recorded), it waits for all work on the
// stream.
type entry[B any] struct {
	event   device.Event
	block   B
	number  uint64 // in the order of adding, over all streams
	capture uint64 // wait for its end instead; 0 is none
	late    bool   // the event is to be recorded when the stream is out of its capture
}

// shift takes the first entry off. The room before head is used again once it is most of a long queue, so that one which never
// runs dry does not grow for ever.
func (q *queue[B]) shift() entry[B] {
	e := q.entries[q.head]
	q.entries[q.head] = entry[B]{} // keeps neither event nor block alive
	q.head++
	if q.head > 1024 && q.head > len(q.entries)/2 {
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
	return e
}

// done reports whether the stream has come to the first entry. A closed one has: closing waits for its work.
func (q *queue[B]) done() bool {
	e := &q.entries[q.head]
	switch {
	case e.capture != 0:
		return streams.Capture(q.stream) != e.capture
	case e.late:
		return false
	}
	var done bool
	var err error
	if e.event != nil {
		done, err = e.event.Done()
	} else {
		done, err = q.stream.Done()
	}
	return done || errors.Is(err, device.ErrClosed)
}

// wait waits until the stream has come to the first entry. It is not called while anything is being captured, so what waited for
// the end of a capture has arrived.
func (q *queue[B]) wait() error {
	e := &q.entries[q.head]
	if e.capture != 0 {
		return nil
	}
	return Tail{q.stream, e.event}.Wait()
}

func (q *queue[B]) flaw(what string) string {
	return fmt.Sprintf("the queue of stream %d %s", q.id, what)
}

// Tail is the last entry of a queue.
type Tail struct {
	stream device.Stream
	event  device.Event // nil: all work on the stream
}

// Tails returns the last entry of each queue: to wait for all entries without the owner's lock. Meanwhile an event may arrive, and
// be used again for something later; then the wait is longer than it need be.
func (qs *Queues[B]) Tails() (tails []Tail) {
	for _, q := range qs.list {
		tails = append(tails, Tail{q.stream, q.entries[len(q.entries)-1].event})
	}
	return tails
}

// Wait waits for the stream to come there.
func (t Tail) Wait() error {
	if t.event != nil {
		return streams.IgnoreClosed(t.event.Synchronize(context.Background()))
	}
	return streams.IgnoreClosed(t.stream.Synchronize(context.Background()))
}
