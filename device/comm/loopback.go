package comm

import (
	"context"
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// DefaultTimeLimit is how long a rank waits for the others in a collective if nothing else was said.
const DefaultTimeLimit = 10 * time.Minute

// Loopback returns the Comms of a group within this process: one rank per device, which may be given several times. The devices' streams
// run Go functions (device.Executor): those of host devices, and of simulated ones, where nothing is moved and nobody is waited for. Each
// rank needs a goroutine of its own, or a stream that is a queue: the call on a host's default stream returns when all ranks have made it.
//
// Ranks that share a device share its waits: Device.Free and Synchronize wait for all streams, also for one on which another rank's
// collective waits for this rank, for ever or until the time limit. So memory comes from an allocator above, and streams are waited for.
//
// Calls of the ranks are compared, and sums are made in the order of the ranks. It is for tests, and for several devices of one program.
func Loopback(devices ...device.Device) ([]Comm, error) {
	return LoopbackWithin(DefaultTimeLimit, devices...)
}

// LoopbackWithin is Loopback with a time limit: a rank that waits longer than that for another one in a collective ends the group with
// ErrTimeout. A limit of 0 or less is DefaultTimeLimit.
func LoopbackWithin(limit time.Duration, devices ...device.Device) ([]Comm, error) {
	if limit <= 0 {
		limit = DefaultTimeLimit
	}
	if len(devices) == 0 {
		return nil, &Error{Backend: loopbackName, Operation: "Loopback", Rank: -1, Peer: -1, Detail: "no devices", Err: device.ErrInvalidValue}
	}
	g := newMeetings(len(devices), limit)
	comms := make([]Comm, len(devices))
	for rank, dev := range devices {
		c := &loopback{group: g, rank: rank}
		base, err := NewBase(loopbackName, rank, len(devices), dev, Transport{Enqueue: c.enqueue, Barrier: c.barrier, Follow: c.follow})
		if err != nil {
			return nil, err
		}
		if s, ok := dev.DefaultStream().(device.Executor); !ok || isnil.Value(s) {
			return nil, &Error{Backend: loopbackName, Operation: "Loopback", Rank: rank, Peer: -1,
				Detail: fmt.Sprintf("streams of %v do not run Go functions", dev.ID()), Err: ErrUnavailable}
		}
		c.Base = base
		comms[rank] = c
	}
	return comms, nil
}

const loopbackName = "loopback"

// loopback is one rank of a group within the process.
type loopback struct {
	Base
	group *meetings
	rank  int
	order Order
}

// enqueue lets the ranks meet when the stream comes to the call.
func (l *loopback) enqueue(s device.Stream, c Call) error {
	executor, ok := s.(device.Executor)
	if !ok {
		return &Error{Backend: loopbackName, Operation: c.Operation, Rank: l.rank, Peer: -1, Detail: "the stream runs no Go functions",
			Err: device.ErrInvalidValue}
	}
	if err := l.group.usable(l.rank, c.Operation); err != nil {
		return err
	}
	return l.order.Submit(executor, c.Operation, func(number uint64) error {
		return l.group.meet(context.Background(), number, l.rank, c)
	})
}

// follow is Comm.Follow.
func (l *loopback) follow(s device.Stream) error {
	if l.group.left(l.rank) {
		return &Error{Backend: loopbackName, Operation: opFollow, Rank: l.rank, Peer: -1, Err: device.ErrClosed}
	}
	return l.order.Follow(s)
}

// barrier is a meeting that the caller waits for.
func (l *loopback) barrier(ctx context.Context) error {
	if err := l.group.usable(l.rank, opBarrier); err != nil {
		return err
	}
	return l.group.meet(ctx, l.order.Next(), l.rank, Call{Operation: opBarrier})
}

// Abort is Comm.Abort. It reaches the other ranks at once.
func (l *loopback) Abort(cause error) {
	l.group.end(&Fault{Peer: l.rank, Err: AbortCause(cause)})
}

// Close is Comm.Close. Ranks that wait for this one are told.
func (l *loopback) Close() error {
	l.group.leave(l.rank)
	return nil
}
