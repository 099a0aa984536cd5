package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/mpi/internal/libmpi"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// LibraryVariable is the environment variable that names the library's file, if Options do not.
const LibraryVariable = "CISTERN_MPI_LIBRARY"

const backend = "mpi"

// Options are the settings of a group. The zero Options are the usual ones.
type Options struct {
	// TimeLimit is how long a rank waits in a collective for the others, and in Open for all to come, there at least a minute; 0 is comm.DefaultTimeLimit. It must be longer than what a rank may do
	// between two collectives while the others wait, such as writing a checkpoint, and the same on all ranks.
	TimeLimit time.Duration
	// Check compares the calls of all ranks before each collective, at the price of a small collective more. Without it, ranks that
	// differ are told when the time limit is over, or by MPI, or not at all if the bytes happen to fit. It must be the same on all ranks.
	Check bool
	// Library is the file of the MPI library. If it is "", and LibraryVariable, the usual names are tried.
	Library string
}

// opened is set by the first Open: MPI can be started once in a process.
var opened atomic.Bool

// Open joins the group of all ranks that the launcher has started, and waits for them. It can be called once in a process. A missing
// library, or one that does not fit the launcher, is an *comm.Error that matches comm.ErrUnavailable and says what to do. If the others do not come within the time limit, or within a minute if the limit is less, one that matches
// comm.ErrTimeout: then the process should end. Who is missing MPI does not say: the error has this rank's number, host and the call of MPI's, and names those of the same machine that have not come to Open, on Linux.
func Open(dev device.Device, options Options) (comm.Comm, error) {
	if err := checkDevice(dev); err != nil {
		return nil, err
	}
	if options.TimeLimit < 0 {
		return nil, openError(device.ErrInvalidValue, fmt.Sprintf("time limit %v", options.TimeLimit))
	}
	if options.TimeLimit == 0 {
		options.TimeLimit = comm.DefaultTimeLimit
	}
	if options.Library == "" {
		options.Library = os.Getenv(LibraryVariable)
	}
	lib, err := libmpi.Open(options.Library)
	if err != nil {
		return nil, missing(err)
	}
	if opened.Swap(true) {
		return nil, openError(comm.ErrUnavailable, "MPI was opened before, and can be started once in a process")
	}
	e, err := start(lib, options)
	if err != nil {
		return nil, err
	}
	r := &rank{engine: e}
	r.staging.device = dev
	r.Base, err = comm.NewBase(backend, e.rank, e.size, dev, comm.Transport{Enqueue: r.enqueue, Barrier: r.barrier, Follow: r.follow})
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return r, nil
}

// missing is the error when the library cannot be loaded.
func missing(err error) error {
	detail := err.Error()
	if errors.Is(err, libmpi.ErrNotFound) {
		detail += "; install Open MPI (Debian and Ubuntu: openmpi-bin, Fedora: openmpi) or MPICH (mpich), or name the file in " + LibraryVariable
	}
	return openError(comm.ErrUnavailable, detail)
}

func openError(err error, detail string) *comm.Error {
	return &comm.Error{Backend: backend, Operation: "Open", Rank: -1, Peer: -1, Detail: detail, Err: err}
}

// checkDevice returns why a device cannot be a rank's.
func checkDevice(dev device.Device) error {
	if why := isnil.Why("device", dev); why != "" {
		return openError(device.ErrInvalidValue, why)
	}
	s := dev.DefaultStream()
	if isnil.Value(s) {
		return openError(device.ErrInvalidValue, "the device has no streams")
	}
	if executor, ok := s.(device.Executor); ok && executor.Mode() == device.ExecDiscard {
		return openError(comm.ErrUnavailable, fmt.Sprintf("%v has no memory that could be moved: see comm.Simulated", dev.ID()))
	}
	return nil
}

// rank is this process in the group.
type rank struct {
	comm.Base
	engine  *engine
	order   comm.Order
	staging staging
}

// enqueue puts a collective on a stream that runs Go functions. Others, those of a GPU, are waited for.
func (r *rank) enqueue(s device.Stream, c comm.Call) error {
	if err := r.engine.usable(c.Operation); err != nil {
		return err
	}
	executor, ok := s.(device.Executor)
	if !ok {
		return r.staging.run(s, c, r.Rank(), func(c comm.Call) error {
			return r.engine.run(context.Background(), r.order.Next(), c)
		})
	}
	return r.order.Submit(executor, c.Operation, func(number uint64) error {
		return r.engine.run(context.Background(), number, c)
	})
}

// follow is Comm.Follow.
func (r *rank) follow(s device.Stream) error {
	if r.engine.left() {
		return &comm.Error{Backend: backend, Operation: "Follow", Rank: r.Rank(), Peer: -1, Err: device.ErrClosed}
	}
	return r.order.Follow(s)
}

func (r *rank) barrier(ctx context.Context) error {
	c := comm.Call{Operation: "Barrier"}
	if err := r.engine.usable(c.Operation); err != nil {
		return err
	}
	return r.engine.run(ctx, r.order.Next(), c)
}

// Abort is Comm.Abort. It returns when the other ranks know, or do not answer.
func (r *rank) Abort(cause error) {
	r.engine.abort(&comm.Fault{Peer: r.Rank(), Err: comm.AbortCause(cause)})
}

// Close is Comm.Close. All ranks must call it, as it ends MPI: a rank waits for the others up to the time limit. After a fault it waits for
// nobody, and returns it if nothing has told the program of it, such as that the others have given this rank up.
func (r *rank) Close() error { return errors.Join(r.engine.close(), r.staging.release()) }
