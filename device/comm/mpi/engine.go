package mpi

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/mpi/internal/libmpi"
)

// engine is the goroutine that makes all MPI calls, and what others need to reach it. Fields without a lock are the goroutine's own once
// start has returned.
type engine struct {
	lib        *libmpi.Library
	options    Options
	rank, size int

	jobs   chan job
	aborts chan *comm.Fault
	closes chan struct{}
	gone   chan struct{} // closed when the goroutine has ended

	data    libmpi.Comm // the collectives
	request libmpi.Request
	next    uint64         // number of the collective that is in turn
	waiting map[uint64]job // those that came before their turn
	current *comm.Call     // being done; nil between collectives
	history history        // for answers
	scratch scratch
	talk    talk
	peers   peers
	opening atomic.Value // string: the call of MPI's in which open is

	mu       sync.Mutex
	fault    *comm.Fault // the first one: it ended the group
	told     bool        // the program knows of it: a call has failed by it, or it is the program's own
	closed   bool
	closeErr error
	closing  sync.Once
}

// job is a collective to be done, with addresses of host memory.
type job struct {
	number uint64
	call   comm.Call
	done   chan error // has room for the one answer
}

// start opens MPI in the engine's goroutine.
func start(lib *libmpi.Library, options Options) (*engine, error) {
	e := &engine{
		lib: lib, options: options,
		jobs: make(chan job), aborts: make(chan *comm.Fault), closes: make(chan struct{}), gone: make(chan struct{}),
		waiting: make(map[uint64]job),
	}
	opened, left := make(chan error), make(chan struct{})
	go func() {
		defer close(e.gone)
		// Not unlocked when the group ends: the thread holds what the library keeps for the thread that started it, and ends with it.
		runtime.LockOSThread()
		err := e.open()
		select {
		case <-left: // Open has returned: the others must not wait for this rank
			if err == nil {
				e.end(&comm.Fault{Peer: e.rank, Err: comm.ErrTimeout, Detail: "it has come to Open too late"})
			}
			return
		case opened <- err:
		}
		if err == nil {
			e.serve()
		}
	}()
	limit := options.opening()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-opened:
		return e, err
	case <-timer.C:
	}
	close(left)
	return nil, e.notStarted(limit)
}

// leastOpening is how long Open waits at least: launchers start ranks one after the other, on machines that may have to fetch the program. Tests make it less.
var leastOpening = time.Minute

// opening is how long Open waits.
func (o Options) opening() time.Duration { return max(o.TimeLimit, leastOpening) }

// open starts MPI, makes the communicators and exchanges what ranks should know of each other.
func (e *engine) open() error {
	e.opening.Store("MPI_Init_thread")
	if err := e.lib.Init(); err != nil {
		return openError(comm.ErrUnavailable, fmt.Sprintf("%v (%s): %v", e.lib.ABI, e.lib.File, err))
	}
	e.opening.Store("MPI_Comm_dup")
	world := libmpi.Comm(e.lib.World)
	data, err := e.lib.Dup(world)
	if err != nil {
		return openError(comm.ErrLibrary, err.Error())
	}
	side, err := e.lib.Dup(world)
	if err != nil {
		return openError(comm.ErrLibrary, err.Error())
	}
	e.data = data
	if e.rank, e.size, err = e.lib.Place(data); err != nil {
		return openError(comm.ErrLibrary, err.Error())
	}
	if why := checkLaunch(e.size, fmt.Sprintf("%v (%s)", e.lib.ABI, e.lib.File)); why != "" {
		return openError(comm.ErrUnavailable, why)
	}
	if err := e.scratch.reserve(); err != nil {
		return openError(device.ErrOutOfMemory, err.Error())
	}
	e.request = libmpi.Request(e.scratch.request)
	if err := e.talk.open(e.lib, side, e.rank, e.size); err != nil {
		return openError(comm.ErrLibrary, err.Error())
	}
	e.opening.Store("MPI_Iallgather")
	if f := e.introduce(); f != nil { // another rank may be through here, and have ended the group
		e.talk.farewell(f)
		return f.On(backend, e.rank, "Open")
	}
	return nil
}

// run hands a collective to the engine and waits for the end of it, or of ctx.
func (e *engine) run(ctx context.Context, number uint64, c comm.Call) error {
	j := job{number: number, call: c, done: make(chan error, 1)}
	select {
	case e.jobs <- j:
	case <-e.gone:
		return e.usable(c.Operation)
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return &comm.Error{Backend: backend, Operation: c.Operation, Rank: e.rank, Peer: -1, Err: ctx.Err()}
	case <-e.gone:
	}
	select {
	case err := <-j.done: // was answered before the end
		return err
	default:
		return e.usable(c.Operation)
	}
}

// abort ends the group from outside, and returns when the others have been told.
func (e *engine) abort(f *comm.Fault) {
	e.tell() // also of a fault that came before: the program is at its end
	select {
	case e.aborts <- f: // the engine takes it when it has nothing else to do, or waits; then it tells the others and goes on
		select {
		case e.aborts <- nil: // taken when it has told them
		case <-e.gone:
		}
	case <-e.gone:
	}
}

// close ends MPI if the group is whole, and the goroutine.
func (e *engine) close() error {
	e.closing.Do(func() { close(e.closes) })
	<-e.gone
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closeErr
}

// usable returns why no calls can be made any more.
func (e *engine) usable(operation string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.fault != nil:
		e.told = true
		return e.fault.On(backend, e.rank, operation)
	case e.closed:
		return &comm.Error{Backend: backend, Operation: operation, Rank: e.rank, Peer: -1, Err: device.ErrClosed}
	}
	return nil
}

// left reports whether the group was closed.
func (e *engine) left() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// idle is how often a rank looks for questions of others when it has nothing else to do.
const idle = 10 * time.Millisecond

// serve does the collectives in the order of their numbers until the group is closed.
func (e *engine) serve() {
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	for {
		if j, ok := e.waiting[e.next]; ok {
			delete(e.waiting, e.next)
			e.do(j)
			continue
		}
		select {
		case j := <-e.jobs:
			if f := e.ended(); f != nil { // also for one that is not in turn: what it waits for may never come
				e.answer(j, f)
				continue
			}
			e.waiting[j.number] = j
		case f := <-e.aborts:
			e.end(f)
		case <-ticker.C:
			if f := e.listen(); f != nil {
				e.end(f)
			}
		case <-e.closes:
			e.finish()
			return
		}
	}
}

// do does one collective and answers it, in case of a fault when the others have been told.
func (e *engine) do(j job) {
	e.current = &j.call
	e.history.add(e.next, j.call)
	f := e.perform(j.call)
	e.current = nil
	e.next++
	if f != nil {
		e.end(f)
		e.answer(j, f)
		return
	}
	j.done <- nil
}

// answer tells the one who waits for a collective of the fault.
func (e *engine) answer(j job, f *comm.Fault) {
	e.tell()
	j.done <- f.On(backend, e.rank, j.call.Operation)
}

// tell notes that the program knows of the fault, or has one of its own.
func (e *engine) tell() {
	e.mu.Lock()
	e.told = true
	e.mu.Unlock()
}

// ended is the fault that ended the group.
func (e *engine) ended() *comm.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fault
}

// linger is how long a rank that ends its group keeps its memory for the others, which may be reading it while they tell each other: MPICH's transport ends a
// process whose read from another's memory fails (cma_ep.c: "process_vm_readv returned -1: Bad address").
const linger = 250 * time.Millisecond

// end ends the group: the others are told, and after that no MPI call is made, since each could go on writing into buffers whose owners
// have been told that the collective has failed.
func (e *engine) end(f *comm.Fault) {
	if f == nil || e.ended() != nil { // nil: see abort
		return
	}
	e.talk.farewell(f)
	time.Sleep(linger)
	e.mu.Lock()
	e.fault = f
	e.mu.Unlock()
	for number, j := range e.waiting {
		e.answer(j, f)
		delete(e.waiting, number)
	}
}

// finish ends MPI together with the other ranks.
func (e *engine) finish() {
	var f *comm.Fault
	if e.ended() == nil {
		c := comm.Call{Operation: "Close"}
		e.current = &c
		if f = e.barrier(); f != nil {
			e.end(f)
		} else {
			f = e.leave() // after which nobody can be told
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if f == nil && !e.told {
		f = e.fault // as that the others have given this rank up
	}
	if f != nil {
		e.closeErr = f.On(backend, e.rank, "Close")
	}
}

// leave ends MPI when all ranks are known to do so.
func (e *engine) leave() *comm.Fault {
	if err := e.talk.close(); err != nil {
		return libraryFault(err)
	}
	if err := e.lib.Finalize(); err != nil {
		return libraryFault(err)
	}
	e.scratch.free()
	if err := e.talk.release(); err != nil {
		return libraryFault(err)
	}
	return nil
}

// libraryFault is the fault of a call that MPI refused.
func libraryFault(err error) *comm.Fault {
	return &comm.Fault{Peer: -1, Err: comm.ErrLibrary, Detail: err.Error()}
}
