package comm

import (
	"context"
	"fmt"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

const simulatedName = "simulated"

// Simulated returns one rank of a group of which nothing else exists, on a simulated device: calls are checked and counted, nothing is
// moved, nobody is waited for. A program learns from it what rank would hold and send in a group of size, without the others.
func Simulated(dev device.Device, rank, size int) (Comm, error) {
	c := &simulated{}
	base, err := NewBase(simulatedName, rank, size, dev, Transport{Enqueue: c.enqueue, Barrier: c.barrier})
	if err != nil {
		return nil, err
	}
	c.Base = base
	if s, ok := dev.DefaultStream().(device.Executor); !ok || isnil.Value(s) || s.Mode() != device.ExecDiscard {
		return nil, &Error{Backend: simulatedName, Operation: "Simulated", Rank: rank, Peer: -1,
			Detail: fmt.Sprintf("%v has memory of its own: only on simulated devices nothing is moved", dev.ID()), Err: ErrUnavailable}
	}
	return c, nil
}

// simulated is a rank without others.
type simulated struct {
	Base

	mu struct {
		sync.Mutex
		ended  *Fault
		closed bool
	}
}

// enqueue puts a piece of work on the stream, which drops it: waits for streams and events see it.
func (c *simulated) enqueue(s device.Stream, call Call) error {
	if err := c.usable(call.Operation); err != nil {
		return err
	}
	executor, ok := s.(device.Executor)
	if !ok || executor.Mode() != device.ExecDiscard {
		return &Error{Backend: simulatedName, Operation: call.Operation, Rank: c.Rank(), Peer: -1, Detail: "the stream is not simulated",
			Err: device.ErrInvalidValue}
	}
	return executor.Submit(call.Operation, func() error { return nil })
}

func (c *simulated) barrier(ctx context.Context) error {
	if err := c.usable(opBarrier); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &Error{Backend: simulatedName, Operation: opBarrier, Rank: c.Rank(), Peer: -1, Err: err}
	}
	return nil
}

func (c *simulated) usable(operation string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return &Error{Backend: simulatedName, Operation: operation, Rank: c.Rank(), Peer: -1, Err: device.ErrClosed}
	}
	if c.mu.ended != nil {
		return c.mu.ended.On(simulatedName, c.Rank(), operation)
	}
	return nil
}

// Abort is Comm.Abort.
func (c *simulated) Abort(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended == nil {
		c.mu.ended = &Fault{Peer: c.Rank(), Err: AbortCause(cause)}
	}
}

// Close is Comm.Close.
func (c *simulated) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	return nil
}
