package nccl

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
)

// follower is a stream that reads what the collectives before a number have left.
type follower struct {
	stream stream
	before uint64
}

// follow is Comm.Follow. An abort lets the kernels of a collective end, and with them the waits of other streams, of which the driver knows no error: so these are told as the collective's own
// stream is.
func (r *rank) follow(s device.Stream) error {
	own, ok := s.(stream)
	if !ok {
		return nil // no stream of the driver's: it waits for none
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutOff != nil {
		return r.cutOff
	}
	if r.closed {
		return r.refuse(comm.Call{Operation: opFollow}, device.ErrClosed, "")
	}
	r.followers = slices.DeleteFunc(r.followers, func(f follower) bool { return f.stream == own || f.stream.Closed() })
	r.followers = append(r.followers, follower{own, r.next})
	return nil
}

// failFollowers tells the streams that read what the collectives from a number on should have left.
func (r *rank) failFollowers(number uint64, cause error) {
	r.mu.Lock()
	r.cutOff = cause
	all := r.followers
	r.followers = nil
	r.mu.Unlock()
	for _, f := range all {
		if f.before > number {
			f.stream.Fail(opFollow, cause)
		}
	}
}
