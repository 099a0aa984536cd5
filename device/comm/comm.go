// Package comm moves memory between the devices of a group of ranks: what data-parallel and sharded training do on the wire.
//
// A Comm is one rank's end of a group. All ranks of a group make the same calls in the same order, each with buffers of the same size and
// type. A collective is work of a stream, like a kernel: the call enqueues it after what is on the stream and returns, the result may be read
// by what comes later on the same stream, and an error of it surfaces at the next wait for the stream, as a device.LaunchError whose cause is
// an *Error. Which memory a collective may use follows from that: as with any stream, a caller that frees a buffer says on which streams it
// was used (memory's Block.RecordStream); and a caller that lets another stream wait for the result says so (Comm.Follow), or that stream would go on with memory that nobody has written. On a stream that works inline, as the host's default stream does, the call itself waits for the
// other ranks and returns the error.
//
// Loopback is a group within one process, Simulated one rank of a group that does not exist otherwise, for predictions; packages mpi and
// nccl below this one are groups of processes, on any device and on NVIDIA GPUs. commtest is the suite that they all pass.
//
// # Faults
//
// What can be seen by one rank alone, such as a count that does not fit, is an error of the call there, and nothing is enqueued. Anything
// else ends the group: a rank that calls something else than the others (ErrMismatch), that does not come within the group's time limit
// (ErrTimeout), that is gone (ErrPeer), that called Abort (ErrAborted). Then what is enqueued and what comes later fails on all ranks with an *Error that names
// the rank that is to blame, since nobody knows any more what the ranks' buffers hold. A rank that cannot go on for reasons of its own
// calls Abort, so that the others do not wait for it in vain.
package comm

import (
	"context"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// Comm is one rank's end of a group of ranks. Several goroutines may call its methods at once, but collectives of one Comm must be
// enqueued in the same order on all ranks, so one goroutine should do it. The stream of a collective is of the Comm's device.
//
// Buffers of the same collective either are the same memory, where the method says so, or do not overlap.
type Comm interface {
	Rank() int // this one's number, from 0
	Size() int // of the group
	Device() device.Device
	// Backend names what moves the bytes: "loopback", "simulated", "mpi", "nccl".
	Backend() string
	// Stats says what was enqueued since the beginning.
	Stats() Stats

	// Broadcast copies root's buf to the others'.
	Broadcast(s device.Stream, buf Buffer, root int) error
	// AllReduce combines the ranks' src element by element and leaves the result in every rank's dst, which may be src. All ranks get the
	// same bits.
	AllReduce(s device.Stream, dst, src Buffer, op Op) error
	// ReduceScatter combines like AllReduce and leaves in dst, of Count/Size elements of src, the part of the rank. dst may be that part of src.
	ReduceScatter(s device.Stream, dst, src Buffer, op Op) error
	// AllGather leaves in dst, of Size times src's elements, the ranks' src in the order of the ranks. src may be the rank's part of dst.
	AllGather(s device.Stream, dst, src Buffer) error
	// AllToAll sends the i-th of Size equal parts of src to rank i and leaves in dst what the ranks have sent, in their order.
	AllToAll(s device.Stream, dst, src Buffer) error
	// Follow says that what comes on s reads what the collectives so far have left: s is a stream that was made to wait for theirs, as by an event, and an error stays on the stream
	// where it happens. If one of them fails, the next wait for s returns its error too, as the LaunchError of Follow; if one is known to have failed, Follow itself returns it. On their own
	// streams collectives need no Follow.
	Follow(s device.Stream) error
	// Barrier waits until all ranks have called it. It blocks the caller, not a stream, and is one of the calls that all ranks make in the same
	// order. When ctx ends first the caller goes on, but has come as far as the others are concerned: they do not miss it.
	Barrier(ctx context.Context) error

	// Abort ends the group: what is enqueued and what comes later fails, on this rank at once and on the others within the group's time
	// limit, with an *Error that holds cause (in other processes, its text). It is for a rank that cannot go on. Only the first counts.
	Abort(cause error)
	// Close gives back what the Comm holds. All its collectives must have finished; buffers are the caller's. Closing twice is harmless.
	Close() error
}

// Buffer is memory of a device: Count elements of a type from Ptr on, which is a multiple of the element's size. Reductions need a floating
// type or dtype.Int64, the others take all types. A buffer without elements needs no address.
//
// Tag says what is in it, for groups that compare the ranks' calls, as Loopback does, and packages mpi and nccl with Options.Check: of equal size and type, but of another tag, two calls are not the same.
// Others do not look at it.
type Buffer struct {
	Ptr   device.Ptr
	Count int
	Type  dtype.DType
	Tag   string
}

// Bytes is the size of the buffer.
func (b Buffer) Bytes() uint64 { return uint64(b.Count) * uint64(b.Type.Size()) }

// part is the i-th of n equal parts.
func (b Buffer) part(i, n int) Buffer {
	count := b.Count / n
	return Buffer{b.Ptr.Add(uint64(i*count) * uint64(b.Type.Size())), count, b.Type, b.Tag}
}

// overlaps reports whether the two have a byte in common.
func (b Buffer) overlaps(o Buffer) bool {
	return b.Count > 0 && o.Count > 0 && b.Ptr < o.Ptr.Add(o.Bytes()) && o.Ptr < b.Ptr.Add(b.Bytes())
}

// Op says how a reduction combines elements.
type Op uint8

// The ways to combine. Float16 and BFloat16 are summed in float32 and rounded once. Max and Min are NaN where one of the elements is. Package
// nccl, whose arithmetic is a library's, says in what it differs.
const (
	Sum  Op = iota + 1
	Mean    // Sum divided by the number of ranks; of integers without the rest, as Go divides
	Max
	Min
)

var opNames = [...]string{Sum: "sum", Mean: "mean", Max: "max", Min: "min"}

// Valid reports whether o is one of the ways above.
func (o Op) Valid() bool { return o >= Sum && o <= Min }

// String is the name in lower case, as in errors.
func (o Op) String() string {
	if o.Valid() {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}
