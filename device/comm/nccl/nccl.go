package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// LibraryVariable is the environment variable that names the library, a file or folders separated as in PATH, if Options do not.
const LibraryVariable = libnccl.LibraryVariable

const backend = "nccl"

// Options are the settings of a group. The zero Options are the usual ones.
type Options struct {
	// TimeLimit is how long a rank waits in a collective for the others, counted from when its stream has come to it, and in Open and Close; 0 is
	// comm.DefaultTimeLimit. It must be longer than what a rank may do between two collectives while the others wait, and the same on all ranks. In Open with ByComm the other group's own
	// limit counts until it has broadcast the greeting.
	TimeLimit time.Duration
	// Check compares the calls of all ranks before they are made: a call returns when all ranks have called, up to the time limit, and a difference ends the group with nothing
	// written. It costs a message to rank 0 and back for each call, and the host runs ahead of the others no more. Without it ranks that differ are told when the time limit is over, or
	// not at all if the bytes happen to fit. It must be the same on all ranks.
	Check bool
	// Library is the file of the NCCL library. If it is "", and LibraryVariable, the usual places are tried.
	Library string
	// Address is where rank 0 listens for the others: "host:port", or "" for all addresses of the machine and a free port.
	Address string
}

// gpu is what NCCL needs of a device, which *cuda.Device has.
type gpu interface {
	device.Device
	CallForeign(fn uintptr, args ...uintptr) (status uint32, err error)
}

// stream is what NCCL needs of a stream, which *cuda.Stream has.
type stream interface {
	device.Stream
	Handle() uintptr
	Note(operation string)
	Fail(operation string, cause error)
	Capturing() bool
	Closed() bool
}

// Open joins a group with a GPU of this process, and waits for the other ranks. All of them call it with the same options. A missing library,
// or one that is too old, is an *comm.Error that matches comm.ErrUnavailable and says what to do. A rank on which Open fails says so to the others,
// whose Open then names it: for that it looks for them for 10 s at most. When the time limit is over rank 0 says who has not come, for which the others wait two seconds more.
func Open(dev device.Device, group Group, options Options) (comm.Comm, error) {
	if options.TimeLimit < 0 {
		return nil, openError(device.ErrInvalidValue, fmt.Sprintf("time limit %v", options.TimeLimit))
	}
	if options.TimeLimit == 0 {
		options.TimeLimit = comm.DefaultTimeLimit
	}
	if why := group.check(); why != "" {
		return nil, openError(device.ErrInvalidValue, why)
	}
	ctx, cancel := context.WithTimeout(context.Background(), options.TimeLimit)
	if group.finish != nil {
		defer group.finish()
	}
	defer cancel()
	r, err := prepare(dev, group, options)
	if err != nil {
		return nil, newTalk(group, options).decline(ctx, group, err)
	}
	if err := r.join(ctx, group); err != nil {
		return nil, errors.Join(err, r.release())
	}
	go r.watch()
	return r, nil
}

// prepare makes a rank that has not met the others yet.
func prepare(dev device.Device, group Group, options Options) (*rank, error) {
	d, err := checkDevice(dev)
	if err != nil {
		return nil, err
	}
	lib, err := libnccl.Open(options.Library)
	if err != nil {
		return nil, missing(err)
	}
	r := newRank(lib, d, group, options)
	r.Base, err = comm.NewBase(backend, group.Rank, group.Size, dev, comm.Transport{Enqueue: r.enqueue, Barrier: r.barrier, Follow: r.follow})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// missing is the error when the library cannot be used.
func missing(err error) error {
	detail := err.Error()
	if errors.Is(err, libnccl.ErrNotFound) {
		detail += "; install it (Debian's contrib, and NVIDIA's packages for Ubuntu and Fedora: libnccl2 or libnccl; Python's wheels: nvidia-nccl-cu12, " +
			"nvidia-nccl-cu13), or name the file in " + LibraryVariable
	}
	return openError(comm.ErrUnavailable, detail)
}

func openError(err error, detail string) *comm.Error {
	return &comm.Error{Backend: backend, Operation: "Open", Rank: -1, Peer: -1, Detail: detail, Err: err}
}

// checkDevice returns the device as what NCCL needs, or why it cannot be a rank's.
func checkDevice(dev device.Device) (gpu, error) {
	if why := isnil.Why("device", dev); why != "" {
		return nil, openError(device.ErrInvalidValue, why)
	}
	d, ok := dev.(gpu)
	if !ok {
		return nil, openError(comm.ErrUnavailable, fmt.Sprintf("%v is no NVIDIA GPU, between which NCCL moves memory; package mpi takes all devices", dev.ID()))
	}
	if _, ok := d.DefaultStream().(stream); !ok { // no GPU is there: the device's own error says why
		if _, err := d.NewStream(); err != nil {
			return nil, openError(comm.ErrUnavailable, err.Error())
		}
	}
	return d, nil
}
