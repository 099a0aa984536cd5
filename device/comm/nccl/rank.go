package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
)

// rank is one rank of a group.
type rank struct {
	comm.Base
	lib         *libnccl.Library
	device      gpu
	options     Options
	group       Group
	talk        *talk
	issuing     chan struct{} // holds one token while a call of NCCL's is made: they come one at a time, and in the same order as their numbers
	over        chan struct{} // closed when the group has ended by a fault
	aborted     chan struct{} // closed when NCCL's communicator is gone after that
	stop        chan struct{} // closed by Close, for the watcher
	watched     chan struct{} // closed when the watcher has ended
	closing     sync.Once
	closeErr    error
	meeting     meeting
	remoteSince time.Time // when the watcher first heard that some rank is gone

	asking sync.Mutex // held while the communicator is asked about itself, which ends when it is not; before mu

	mu      sync.Mutex // no driver call is made under it
	handle  uintptr    // of the communicator; 0 before and after
	fault   *comm.Fault
	told    bool // the program knows of it: a call or a stream has failed by it, or it is the program's own
	closed  bool
	next    uint64                // number of the next collective
	history [remembered]comm.Call // by number
	pending []*pending            // not known to be done, by number
	idle    []*pending            // to be used again, for their events

	followers []follower // see follow
	cutOff    error      // of the first collective that the fault has cut off
}

// remembered is how many calls a rank can tell of when it is asked.
const remembered = 256

func newRank(lib *libnccl.Library, d gpu, group Group, options Options) *rank {
	return &rank{lib: lib, device: d, group: group, options: options, issuing: make(chan struct{}, 1), over: make(chan struct{}),
		aborted: make(chan struct{}), stop: make(chan struct{}), watched: make(chan struct{})}
}

// join meets the others, first by the Group's way and the talk, then in NCCL.
func (r *rank) join(ctx context.Context, group Group) (err error) {
	if r.talk, err = r.meet(ctx, group); err != nil {
		return err
	}
	if err = r.initialise(r.talk.id); err == nil {
		err = r.meeting.open(r.device)
	}
	if err == nil {
		return nil
	}
	if f := r.ended(); f != nil { // that of another rank came first
		return f.On(backend, group.Rank, "Open")
	}
	r.end(r.libraryFault(err), true)
	var own *comm.Error
	if errors.As(err, &own) {
		return err
	}
	return &comm.Error{Backend: backend, Operation: "Open", Rank: group.Rank, Peer: -1, Err: err}
}

// initialise makes the communicator. The call returns at once, and what it has begun is asked about until the time limit.
func (r *rank) initialise(id [libnccl.UniqueIDBytes]byte) error {
	result, err := r.begin(id)
	if err == nil && result == libnccl.InProgress {
		result, err = r.poll("Open")
	}
	if err != nil {
		return err
	}
	if result != libnccl.Success {
		return r.failed("Open", libnccl.CommInitRankConfig, result)
	}
	return nil
}

// begin makes the call, as one who issues: an end of the group meanwhile finds the communicator.
func (r *rank) begin(id [libnccl.UniqueIDBytes]byte) (libnccl.Result, error) {
	r.issuing <- struct{}{}
	defer func() { <-r.issuing }()
	if err := r.usable("Open"); err != nil {
		return 0, err
	}
	init := r.lib.Init(r.group.Size, r.group.Rank, id)
	status, err := r.device.CallForeign(init.Func, init.Args...)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = init.Comm()
	return libnccl.Result(int32(status)), nil
}

// failed is the error of a call of the library.
func (r *rank) failed(operation string, f libnccl.Func, result libnccl.Result) *comm.Error {
	return &comm.Error{Backend: backend, Operation: operation, Rank: r.group.Rank, Peer: -1, Err: comm.ErrLibrary,
		Detail: fmt.Sprintf("%v: %s", f, r.explain(result))}
}

// libraryFault is the fault of a call that NCCL or the driver has refused. On this rank it holds the driver's error, on the others its text.
func (r *rank) libraryFault(err error) *comm.Fault {
	f := &comm.Fault{Peer: r.group.Rank, Err: comm.ErrLibrary, Detail: err.Error()}
	var own *comm.Error
	if errors.As(err, &own) && own.Backend == backend {
		f.Detail = own.Detail
	} else {
		f.Err = &libraryCause{err}
	}
	return f
}

// libraryCause is comm.ErrLibrary that wraps an error whose text is told as the detail.
type libraryCause struct{ cause error }

func (l *libraryCause) Error() string   { return comm.ErrLibrary.Error() }
func (l *libraryCause) Unwrap() []error { return []error{comm.ErrLibrary, l.cause} }

// explain is what the library says of a result.
func (r *rank) explain(result libnccl.Result) string {
	r.asking.Lock()
	defer r.asking.Unlock()
	return r.lib.Explain(result, r.communicator())
}

// forget takes the communicator out of use, to be ended.
func (r *rank) forget() (handle uintptr) {
	r.asking.Lock()
	defer r.asking.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	handle, r.handle = r.handle, 0
	return handle
}

func (r *rank) communicator() uintptr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}

// invoke makes a call of the library in the device's context.
func (r *rank) invoke(f libnccl.Func, args ...uintptr) (libnccl.Result, error) {
	status, err := r.device.CallForeign(r.lib.Address(f), args...)
	return libnccl.Result(int32(status)), err
}

// asyncError is what the communicator has come to.
func (r *rank) asyncError() (libnccl.Result, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	handle := r.communicator()
	if handle == 0 {
		return libnccl.Success, nil
	}
	out := libnccl.NewOut()
	result, err := r.invoke(libnccl.CommGetAsyncError, handle, libnccl.Out(out))
	runtime.KeepAlive(out)
	if err != nil || result != libnccl.Success {
		return result, err
	}
	return libnccl.Result(*out), nil
}

// poll waits until the communicator has done what it was told, for no longer than the time limit, and until the group ends.
func (r *rank) poll(operation string) (libnccl.Result, error) {
	began := time.Now()
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		result, err := r.asyncError()
		if r.ended() != nil { // the communicator may be gone
			return result, r.usable(operation)
		}
		if err != nil || result != libnccl.InProgress {
			return result, err
		}
		if time.Since(began) > r.options.TimeLimit {
			f := &comm.Fault{Peer: -1, Err: comm.ErrTimeout, Detail: fmt.Sprintf("NCCL has worked on it for %v", r.options.TimeLimit)}
			return result, f.On(backend, r.group.Rank, operation)
		}
		select {
		case <-r.over:
			return result, r.usable(operation)
		case <-time.After(wait):
		}
	}
}

// ended is the fault that ended the group.
func (r *rank) ended() *comm.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// usable returns why no calls can be made any more.
func (r *rank) usable(operation string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fault != nil:
		r.told = true
		return r.fault.On(backend, r.group.Rank, operation)
	case r.closed:
		return &comm.Error{Backend: backend, Operation: operation, Rank: r.group.Rank, Peer: -1, Err: device.ErrClosed}
	}
	return nil
}

// Abort is Comm.Abort.
func (r *rank) Abort(cause error) {
	r.mu.Lock()
	r.told = true // also of a fault that came before: the program is at its end
	r.mu.Unlock()
	r.end(&comm.Fault{Peer: r.group.Rank, Err: comm.AbortCause(cause)}, true)
}

// Close is Comm.Close. All ranks must call it, as NCCL ends together: a rank waits for the others up to the time limit. After a fault it waits
// for nobody, and returns it if nothing has told the program of it, such as that the others have given this rank up.
func (r *rank) Close() error {
	r.closing.Do(func() {
		r.closeErr = r.finish()
		close(r.stop)
		<-r.watched
		r.closeErr = errors.Join(r.closeErr, r.release())
	})
	return r.closeErr
}

// finish ends NCCL's communicator with the other ranks, unless a fault has.
func (r *rank) finish() error {
	r.issuing <- struct{}{}
	defer func() {
		r.mu.Lock()
		r.closed = true // before the next call may be made: there is no communicator for it
		r.mu.Unlock()
		<-r.issuing
	}()
	c := comm.Call{Operation: opClose}
	if r.ended() != nil {
		return r.news(c.Operation)
	}
	number := r.note(c)
	r.talk.closing(number) // who makes other calls is told at once
	result, err := r.invoke(libnccl.CommFinalize, r.communicator())
	if err == nil && result == libnccl.InProgress {
		result, err = r.poll(c.Operation)
	}
	if r.ended() != nil {
		return r.usable(c.Operation)
	}
	if err == nil && result != libnccl.Success {
		err = r.failed(c.Operation, libnccl.CommFinalize, result)
	}
	if err != nil {
		r.blame(number, c, err)
		return r.usable(c.Operation)
	}
	r.talk.leave()
	if result, err = r.last(libnccl.CommDestroy, r.forget()); err == nil && result != libnccl.Success {
		err = r.failed(c.Operation, libnccl.CommDestroy, result)
	}
	return err
}

// news is the fault, if the program does not know of it.
func (r *rank) news(operation string) error {
	r.mu.Lock()
	known := r.told
	r.mu.Unlock()
	if known {
		return nil
	}
	return r.usable(operation)
}

// last makes the call that ends the communicator. If it fails it is made once more: then there is nothing left to do.
func (r *rank) last(f libnccl.Func, handle uintptr) (libnccl.Result, error) {
	result, err := r.invoke(f, handle)
	if err != nil || result != libnccl.Success {
		result, err = r.invoke(f, handle)
	}
	return result, err
}

// blame ends the group for a call that this rank could not make, or that was not done in time, unless it has ended.
func (r *rank) blame(number uint64, c comm.Call, err error) {
	if r.ended() == nil {
		f := r.libraryFault(err)
		if errors.Is(err, comm.ErrTimeout) {
			f = r.talk.investigate(number, c.String(), r.options.TimeLimit)
		}
		if f != nil {
			r.end(f, true)
		}
	}
	<-r.over // nil: another rank's fault is on its way
}

// abortPatience is how long Close waits for NCCL's kernels to end after an abort.
const abortPatience = 10 * time.Second

// release gives back what the rank holds, when its communicator has ended.
func (r *rank) release() error {
	if r.ended() != nil {
		select {
		case <-r.aborted:
		case <-time.After(abortPatience):
			return &comm.Error{Backend: backend, Operation: "Close", Rank: r.group.Rank, Peer: -1, Err: comm.ErrLibrary,
				Detail: fmt.Sprintf("ncclCommAbort has not returned within %v: what the group holds of the device is left", abortPatience)}
		}
	}
	if r.talk != nil {
		r.talk.close()
	}
	r.mu.Lock()
	all := append(r.pending, r.idle...)
	r.pending, r.idle = nil, nil
	r.mu.Unlock()
	var errs []error
	for _, p := range all {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, r.meeting.close())...)
}
