// Package comm moves memory between the devices of a group of ranks: what data-parallel and sharded training do on the wire.
//
// A Comm is one rank's end of a group. All ranks of a group make the same calls in the same order, each with buffers of the same size and
// type. A collective is work of a stream, like a kernel: the call enqueues it after what is on the stream and returns, the result may be read
// by what comes later on the same stream, and an error of it surfaces at the next wait for the stream, as a device.LaunchError whose cause is
// an *Error. Which memory a collective may use follows from that: as with any stream, a caller that frees a buffer says on which streams it
// was used (memory's Block.RecordStream).
package comm

import (
	"context"

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
	// Backend names what moves the bytes: "loopback", "mpi", "nccl".
	Backend() string

	// Broadcast copies root's buf to the others'.
	Broadcast(s device.Stream, buf Buffer, root int) error
	// AllReduce combines the ranks' src element by element and leaves the result in every rank's dst, which may be src.
	AllReduce(s device.Stream, dst, src Buffer, op Op) error
	// ReduceScatter combines like AllReduce and leaves in dst, of Count/Size elements of src, the part of the rank. dst may be that part of src.
	ReduceScatter(s device.Stream, dst, src Buffer, op Op) error
	// AllGather leaves in dst, of Size times src's elements, the ranks' src in the order of the ranks. src may be the rank's part of dst.
	AllGather(s device.Stream, dst, src Buffer) error
	// AllToAll sends the i-th of Size equal parts of src to rank i and leaves in dst what the ranks have sent, in their order.
	AllToAll(s device.Stream, dst, src Buffer) error
	// Barrier waits until all ranks have called it. It blocks the caller, not a stream.
	Barrier(ctx context.Context) error

	// Abort ends the group: what is enqueued and what comes later fails, on this rank at once and on the others within the group's time
	// limit, with an *Error that holds cause. It is for a rank that cannot go on.
	Abort(cause error)
	// Close gives back what the Comm holds. All its collectives must have finished; buffers are the caller's.
	Close() error
}

// Buffer is memory of a device: Count elements of a type from Ptr on.
type Buffer struct {
	Ptr   device.Ptr
	Count int
	Type  dtype.DType // a floating type, or dtype.Int64
}

// Op says how a reduction combines elements.
type Op uint8

// The ways to combine.
const (
	Sum  Op = iota + 1
	Mean    // Sum divided by the number of ranks
	Max
	Min
)
