package comm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// Base is the part of a Comm that all backends have in common: it knows the rank's place, checks arguments, and counts. Backends embed it.
type Base struct{ at *place }

type place struct {
	backend    string
	rank, size int
	device     device.Device
	transport  Transport
	counts     tally
}

// Transport is what a backend does itself. Its functions may be called by several goroutines at once.
type Transport struct {
	// Enqueue puts a call that was checked on a stream of the device. For streams that run Go functions, Order.Submit does it.
	Enqueue func(s device.Stream, c Call) error
	// Barrier is Comm.Barrier with a context that is not nil.
	Barrier func(ctx context.Context) error
	// Follow is Comm.Follow for a stream of the device; nil where each call has waited for its collective, and returned the error. For streams that run Go functions, Order.Follow does it.
	Follow func(s device.Stream) error
}

// NewBase returns the Base of a rank. The error is that of a device which is not there or a place that cannot be.
func NewBase(backend string, rank, size int, dev device.Device, transport Transport) (Base, error) {
	why := isnil.Why("device", dev)
	switch {
	case why != "":
	case transport.Enqueue == nil || transport.Barrier == nil:
		why = "a transport without functions"
	case size < 1 || rank < 0 || rank >= size:
		why = fmt.Sprintf("rank %d of %d", rank, size)
	default:
		return Base{&place{backend: backend, rank: rank, size: size, device: dev, transport: transport}}, nil
	}
	return Base{}, &Error{Backend: backend, Operation: "open", Rank: -1, Peer: -1, Detail: why, Err: device.ErrInvalidValue}
}

// nowhere is the place of a Base that NewBase did not make.
var nowhere = &place{backend: "none"}

func (b Base) place() *place {
	if b.at == nil {
		return nowhere
	}
	return b.at
}

// Rank is Comm.Rank.
func (b Base) Rank() int { return b.place().rank }

// Size is Comm.Size.
func (b Base) Size() int { return b.place().size }

// Device is Comm.Device.
func (b Base) Device() device.Device { return b.place().device }

// Backend is Comm.Backend.
func (b Base) Backend() string { return b.place().backend }

// Stats is Comm.Stats.
func (b Base) Stats() Stats { return b.place().counts.stats() }

// Broadcast is Comm.Broadcast.
func (b Base) Broadcast(s device.Stream, buf Buffer, root int) error {
	return b.place().enqueue(s, Call{Operation: opBroadcast, Dst: buf, Src: buf, Root: root})
}

// AllReduce is Comm.AllReduce.
func (b Base) AllReduce(s device.Stream, dst, src Buffer, op Op) error {
	return b.place().enqueue(s, Call{Operation: opAllReduce, Dst: dst, Src: src, Op: op})
}

// ReduceScatter is Comm.ReduceScatter.
func (b Base) ReduceScatter(s device.Stream, dst, src Buffer, op Op) error {
	return b.place().enqueue(s, Call{Operation: opReduceScatter, Dst: dst, Src: src, Op: op})
}

// AllGather is Comm.AllGather.
func (b Base) AllGather(s device.Stream, dst, src Buffer) error {
	return b.place().enqueue(s, Call{Operation: opAllGather, Dst: dst, Src: src})
}

// AllToAll is Comm.AllToAll.
func (b Base) AllToAll(s device.Stream, dst, src Buffer) error {
	return b.place().enqueue(s, Call{Operation: opAllToAll, Dst: dst, Src: src})
}

// Barrier is Comm.Barrier.
func (b Base) Barrier(ctx context.Context) error {
	p := b.place()
	if p == nowhere {
		return p.fail(opBarrier, device.ErrInvalidValue, "a group that nobody opened")
	}
	if ctx == nil {
		return p.fail(opBarrier, device.ErrInvalidValue, "the context is nil")
	}
	if err := p.transport.Barrier(ctx); err != nil {
		return err
	}
	p.counts.add(Call{Operation: opBarrier}, p.rank, p.size)
	return nil
}

// Follow is Comm.Follow.
func (b Base) Follow(s device.Stream) error {
	p := b.place()
	if p == nowhere {
		return p.fail(opFollow, device.ErrInvalidValue, "a group that nobody opened")
	}
	if why := checkStream(s, p.device); why != "" {
		return p.fail(opFollow, device.ErrInvalidValue, why)
	}
	if closed(s) {
		return p.fail(opFollow, device.ErrClosed, "the stream is closed")
	}
	if p.transport.Follow == nil {
		return nil
	}
	return p.transport.Follow(s)
}

// closed reports whether a stream is known to be closed.
func closed(s device.Stream) bool {
	reporter, ok := s.(device.CloseReporter)
	return ok && reporter.Closed()
}

// enqueue checks what this rank can check alone, and counts what was enqueued.
func (p *place) enqueue(s device.Stream, c Call) error {
	if p == nowhere {
		return p.fail(c.Operation, device.ErrInvalidValue, "a group that nobody opened")
	}
	if why := checkStream(s, p.device); why != "" {
		return p.fail(c.Operation, device.ErrInvalidValue, why)
	}
	if closed(s) {
		return p.fail(c.Operation, device.ErrClosed, "the stream is closed")
	}
	if why := c.check(p.rank, p.size); why != "" {
		return p.fail(c.Operation, device.ErrInvalidValue, why)
	}
	if err := p.transport.Enqueue(s, c); err != nil {
		return err
	}
	p.counts.add(c, p.rank, p.size)
	return nil
}

func (p *place) fail(operation string, err error, detail string) error {
	return &Error{Backend: p.backend, Operation: operation, Rank: p.rank, Peer: -1, Detail: detail, Err: err}
}

// Order numbers the collectives of a rank in the order in which they are enqueued, whatever streams they are on: by the numbers the ranks
// find each other. The zero Order is ready to use.
type Order struct {
	mu   sync.Mutex
	next uint64

	failed atomic.Pointer[error] // of the first collective on a queue that has
}

// Next takes a number for a call that is on no stream.
func (o *Order) Next() uint64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	return o.next - 1
}

// Submit puts run on a stream with the next number, which is used up only if the stream takes it.
func (o *Order) Submit(s device.Executor, operation string, run func(number uint64) error) error {
	if why := isnil.Why("stream", s); why != "" || o == nil || run == nil {
		return &Error{Backend: "none", Operation: operation, Rank: -1, Peer: -1, Detail: why, Err: device.ErrInvalidValue}
	}
	if s.Mode() == device.ExecInline { // runs now: the lock must not be held while it waits for the other ranks
		return s.Submit(operation, func() error { return run(o.Next()) })
	}
	o.mu.Lock() // until it is on the stream, so that numbers and the stream's order are the same
	defer o.mu.Unlock()
	number := o.next
	if err := s.Submit(operation, func() error {
		err := run(number)
		if err != nil {
			o.failed.CompareAndSwap(nil, &err)
		}
		return err
	}); err != nil {
		return err
	}
	o.next++
	return nil
}

// failure is the error of the first collective on a queue that has failed so far.
func (o *Order) failure() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Follow is Comm.Follow of a backend whose collectives Submit enqueues. A stream that runs no Go functions has none of them behind it.
func (o *Order) Follow(s device.Stream) error {
	if why := isnil.Why("stream", s); why != "" || o == nil {
		return &Error{Backend: "none", Operation: opFollow, Rank: -1, Peer: -1, Detail: why, Err: device.ErrInvalidValue}
	}
	executor, ok := s.(device.Executor)
	if !ok {
		return nil
	}
	if err := o.failure(); err != nil || executor.Mode() != device.ExecQueued { // an inline stream has waited: what has failed is known
		return err
	}
	return executor.Submit(opFollow, o.failure)
}
