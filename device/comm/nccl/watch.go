package nccl

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
)

// pending is a collective that was enqueued, between two events.
type pending struct {
	before, after device.Event
	issued        atomic.Bool // after was recorded
	begun         atomic.Bool // the stream has come to it
	since         time.Time   // when the watcher saw that; the watcher's own
	call          comm.Call
	stream        stream
	number        uint64
}

// newPending returns one whose events are free.
func (r *rank) newPending() (*pending, error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		p := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		p.issued.Store(false)
		p.begun.Store(false)
		p.since = time.Time{}
		return p, nil
	}
	r.mu.Unlock()
	before, err := r.device.NewEvent()
	if err != nil {
		return nil, err
	}
	after, err := r.device.NewEvent()
	if err != nil {
		return nil, errors.Join(err, before.Close())
	}
	return &pending{before: before, after: after}, nil
}

func (p *pending) close() error { return errors.Join(p.before.Close(), p.after.Close()) }

// How often the watcher looks: at what is under way, and at NCCL's own state.
const (
	looking   = 5 * time.Millisecond
	listening = 10 // looks
)

// watch follows the collectives until the group ends: it keeps the time limit, and hears NCCL's errors.
func (r *rank) watch() {
	defer close(r.watched)
	ticker := time.NewTicker(looking)
	defer ticker.Stop()
	for looks := 0; ; looks++ {
		select {
		case <-r.stop:
			return
		case <-r.over:
			return
		case <-ticker.C:
		}
		if f := r.overdue(); f != nil {
			r.end(f, true)
			return
		}
		if looks%listening == 0 {
			if f := r.trouble(); f != nil {
				r.end(f, true)
				return
			}
		}
	}
}

// overdue takes out what is done, and returns the fault if the first that is not done has waited for too long.
func (r *rank) overdue() *comm.Fault {
	for {
		r.mu.Lock()
		var p *pending
		if len(r.pending) > 0 {
			p = r.pending[0]
		}
		r.mu.Unlock()
		if p == nil {
			return nil
		}
		done, err := p.done()
		if err != nil {
			return r.libraryFault(err) // the device is lost, most likely
		}
		if !done {
			if p.since.IsZero() || time.Since(p.since) < r.options.TimeLimit {
				return nil
			}
			return r.talk.investigate(p.number, p.call.String(), r.options.TimeLimit)
		}
		r.mu.Lock()
		if r.fault != nil { // who ends the group looks at what is pending: it is not used again
			r.mu.Unlock()
			return nil
		}
		r.pending = slices.Delete(r.pending, 0, 1)
		r.idle = append(r.idle, p)
		r.mu.Unlock()
	}
}

// done asks the events how far the collective is.
func (p *pending) done() (bool, error) {
	if !p.begun.Load() {
		begun, err := p.before.Done()
		if err != nil || !begun {
			return false, err
		}
		p.since = time.Now()
		p.begun.Store(true)
	}
	if !p.issued.Load() {
		return false, nil
	}
	return p.after.Done()
}

// namingGrace is how long the watcher waits for a rank's name when NCCL says that one is gone.
const namingGrace = time.Second

// trouble returns the fault that NCCL itself has noticed.
func (r *rank) trouble() *comm.Fault {
	result, err := r.asyncError()
	switch {
	case err != nil:
		return r.libraryFault(err)
	case result == libnccl.Success || result == libnccl.InProgress:
		return nil
	case result == libnccl.Remote: // the talk knows who it was, a moment later
		if r.remoteSince.IsZero() {
			r.remoteSince = time.Now()
		}
		if time.Since(r.remoteSince) < namingGrace {
			return nil
		}
		return &comm.Fault{Peer: -1, Err: comm.ErrPeer, Detail: r.explain(result)}
	}
	return &comm.Fault{Peer: r.group.Rank, Err: comm.ErrLibrary, Detail: fmt.Sprintf("%v: %s", libnccl.CommGetAsyncError, r.explain(result))}
}

// where says how far this rank is with a collective, for one that waits in it.
func (r *rank) where(number uint64) (called, begun bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number >= r.next {
		return false, false, ""
	}
	if r.next-number <= remembered {
		text = r.history[number%remembered].String()
	}
	for _, p := range r.pending {
		if p.number == number {
			return true, p.begun.Load(), text
		}
	}
	return true, true, text
}

// issuePatience is how long an end waits for a call of NCCL's that is being made.
const issuePatience = time.Second

// end ends the group: streams are told before NCCL lets them go on, with memory that nobody knows the content of.
func (r *rank) end(f *comm.Fault, tell bool) {
	r.mu.Lock()
	if r.fault != nil || r.closed {
		r.mu.Unlock()
		return
	}
	r.fault = f
	r.mu.Unlock()
	if tell && r.talk != nil {
		r.talk.tell(f)
	}
	cut := r.unfinished()
	for _, p := range cut {
		p.stream.Fail(p.call.Operation, f.On(backend, r.group.Rank, p.call.Operation))
	}
	if len(cut) > 0 {
		r.mu.Lock()
		r.told = true // by the streams
		r.mu.Unlock()
		r.failFollowers(cut[0].number, f.On(backend, r.group.Rank, cut[0].call.Operation))
	}
	close(r.over)
	go r.abort()
}

// unfinished are the first collectives that are not known to be done, one of each stream. The fault is set: none is added any more, and as the abort comes later, a complete event is that of a
// collective which was done. Events used again are those of another collective until they are issued.
func (r *rank) unfinished() (list []*pending) {
	r.mu.Lock()
	all := slices.Clone(r.pending)
	r.mu.Unlock()
	for _, p := range all {
		if p.issued.Load() {
			if done, err := p.after.Done(); done && err == nil {
				continue
			}
		}
		if !slices.ContainsFunc(list, func(o *pending) bool { return o.stream == p.stream }) {
			list = append(list, p)
		}
	}
	return list
}

// abort ends NCCL's communicator, and what of it runs on the GPU.
func (r *rank) abort() {
	defer close(r.aborted)
	select {
	case r.issuing <- struct{}{}:
		defer func() { <-r.issuing }()
	case <-time.After(issuePatience): // a call hangs: ncclCommAbort is what ends it
	}
	if handle := r.forget(); handle != 0 {
		_, _ = r.last(libnccl.CommAbort, handle) // there is nobody to tell of an error
	}
}
