package replay

import (
	"context"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// numberedStream is a stream of the recorder's device under the number that the trace gives it. Allocators order streams by
// number, so that must be the trace's, in whatever order the streams are made.
type numberedStream struct {
	device.Stream
	recorder *recorder
	number   uint64
}

func (r *recorder) stream(number uint64) (device.Stream, error) {
	if s := r.streams[number]; s != nil {
		return s, nil
	}
	own, err := r.open(number)
	if err != nil {
		return nil, err
	}
	s := &numberedStream{Stream: own, recorder: r, number: number}
	r.streams[number] = s
	return s, nil
}

// complete waits for the stream. One that the trace has enqueued nothing on need not be made for that.
func (r *recorder) complete(number uint64) error {
	s := r.streams[number]
	if s == nil {
		return nil
	}
	return s.Synchronize(context.Background())
}

// ID returns the trace's number.
func (s *numberedStream) ID() device.StreamID { return device.StreamID(s.number) }

// Record counts the call.
func (s *numberedStream) Record(e device.Event) error {
	own, ok := e.(*countedEvent)
	if !ok {
		return s.Stream.Record(e) // which refuses it
	}
	return s.recorder.enter(sim.Call{Kind: sim.CallEventRecord}, s.Stream.Record(own.Event))
}

// countedEvent counts what is asked of an event.
type countedEvent struct {
	device.Event
	recorder *recorder
}

// NewEvent implements memory.Driver.
func (r *recorder) NewEvent() (device.Event, error) {
	e, err := r.VirtualMemory.NewEvent()
	if r.enter(sim.Call{Kind: sim.CallEventCreate}, err) != nil {
		return nil, err
	}
	return &countedEvent{Event: e, recorder: r}, nil
}

// Done counts the call, and the answer if it is no.
func (e *countedEvent) Done() (bool, error) {
	done, err := e.Event.Done()
	if err == nil && !done {
		e.recorder.counts.EventQueryNotReady++
	}
	return done, e.recorder.enter(sim.Call{Kind: sim.CallEventQuery}, err)
}

// Synchronize counts the call.
func (e *countedEvent) Synchronize(ctx context.Context) error {
	return e.recorder.enter(sim.Call{Kind: sim.CallEventSync}, e.Event.Synchronize(ctx))
}
