// Package device says what a device is: memory, streams, events and copies, and nothing that knows about tensors.
//
// Three implementations live below it. device/host is the processor itself, with memory from mmap; device/sim has an
// address space of any size and no storage, and is driven by tests and by dry runs; device/cuda speaks to the NVIDIA
// driver. Everything above this package (memory, kernels, tensor) is written against the interfaces here, so each
// device is honest about what it has: what only some devices can do (virtual memory, pinned host memory, running Go
// code in stream order) is an interface of its own, found by type assertion.
//
// Open gives the device that a specification such as "sim:80GiB" names, Default the one to use when nobody chose. Packages
// that implement a kind of device register it when they are linked into the program. devicetest is the suite of tests that
// says in code what this package says in words.
//
// # Streams and events
//
// A Stream is an ordered queue of work. Work on one stream runs in the order in which it was enqueued; work on
// different streams is not ordered unless an Event is recorded on one and waited for on the other. A call that enqueues
// work on a stream returns before the work is done, unless its comment says otherwise. An error of such work is
// reported by the next call that waits for it (Stream.Synchronize, Event.Synchronize, Stream.CopyToHost,
// Device.Synchronize), together with the name of the operation that failed.
//
// All methods may be called by several goroutines at once, except that Close must be the last one.
package device

import (
	"context"
	"fmt"

	_ "github.com/cistern-ml/cistern/internal/platform" // elsewhere it does not compile
)

// Ptr is an address in a device's memory. It is only meaningful together with its device; 0 is no address.
type Ptr uintptr

// Add returns the address n bytes after p.
func (p Ptr) Add(n uint64) Ptr { return p + Ptr(n) }

// StreamID identifies a stream of one device. The default stream is 0; the others are numbered in the order in which
// they were made. Allocators order streams by this number.
type StreamID uint64

// Kind is the kind of a device.
type Kind uint8

// The kinds of devices.
const (
	Host Kind = iota + 1
	CUDA
	Sim
)

// String returns the name used in device specifications: "host", "cuda" or "sim".
func (k Kind) String() string {
	switch k {
	case Host:
		return "host"
	case CUDA:
		return "cuda"
	case Sim:
		return "sim"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ID names one device of this process.
type ID struct {
	Kind  Kind
	Index int
}

// String returns "host" or "sim" for the first of their kind, and the kind with its index otherwise, as in "cuda:0".
func (id ID) String() string {
	if id.Index == 0 && id.Kind != CUDA {
		return id.Kind.String()
	}
	return fmt.Sprintf("%s:%d", id.Kind, id.Index)
}

// Properties are facts about a device that do not change while it is open.
type Properties struct {
	Name        string // as the vendor names it; for the host, the processor
	TotalMemory uint64 // bytes
	Alignment   uint64 // every address that Malloc returns is a multiple of this many bytes
	Processors  int    // streaming multiprocessors of a GPU, logical processors of the host
	Major       int    // compute capability of a CUDA device, else 0
	Minor       int

	SharedMemory int // bytes that a block of a CUDA device can share (see SharedKernel), else 0
}

// MemInfo is the state of a device's memory as its driver sees it, all processes included.
type MemInfo struct {
	Free  uint64 // bytes
	Total uint64 // bytes
}

// Device is one device: the host, a GPU, or a simulation of one.
type Device interface {
	ID() ID
	Properties() Properties

	// Malloc takes bytes from the driver. It fails with an *Error for which errors.Is(err, ErrOutOfMemory) holds when the
	// device has not enough; zero bytes are an ErrInvalidValue. The memory's content is undefined.
	// This is slow and may synchronise the device: programs take their memory from package memory instead.
	Malloc(bytes uint64) (Ptr, error)
	// Free gives back what Malloc returned. An address that Malloc did not return, or that was freed, is an ErrInvalidValue.
	// Work that is on a stream already may still use the memory: Free waits for it where it must.
	Free(p Ptr) error
	MemInfo() (MemInfo, error)

	// DefaultStream is stream 0. It always exists and is never closed by callers.
	DefaultStream() Stream
	NewStream() (Stream, error)
	NewEvent() (Event, error)

	// Synchronize waits for all work on all streams and returns the first error among it that nobody was told yet.
	Synchronize(ctx context.Context) error
	// Close waits for all work and gives everything back to the driver. Using the device, its streams or its events
	// afterwards is an ErrClosed. Closing twice is harmless.
	Close() error
}

// Stream is an ordered queue of work on one device. See the package comment.
type Stream interface {
	ID() StreamID
	Device() Device

	// CopyToDevice copies src to dst, ordered on the stream. src may be changed as soon as the call returns.
	CopyToDevice(dst Ptr, src []byte) error
	// CopyToHost waits for the work before it on the stream, and for the copy itself. It returns the error of any of it.
	CopyToHost(dst []byte, src Ptr) error
	// Copy copies n bytes within the device, ordered on the stream. The ranges must not overlap.
	Copy(dst, src Ptr, n uint64) error
	// Fill sets n bytes to value, ordered on the stream.
	Fill(dst Ptr, value byte, n uint64) error

	// Record makes e stand for everything enqueued on the stream so far. Recording again moves it.
	Record(e Event) error
	// Wait makes later work on this stream wait for what e stood for when Wait was called. It does not block the caller.
	// An event that was never recorded is complete.
	Wait(e Event) error
	// Done reports whether everything enqueued on the stream so far has finished, without blocking.
	Done() (bool, error)
	// Synchronize waits until everything enqueued on the stream so far has finished.
	Synchronize(ctx context.Context) error
	// Close waits for the stream's work, then ends it. The default stream cannot be closed (ErrInvalidValue). Done and
	// Synchronize are an ErrClosed only when the work is done, also while another goroutine closes.
	Close() error
}

// Event is a point in a stream's work. An event that was never recorded counts as complete.
type Event interface {
	// Done reports whether the work that the event stands for has finished, without blocking.
	Done() (bool, error)
	// Synchronize waits for that work.
	Synchronize(ctx context.Context) error
	Close() error
}

// ExecMode says what an Executor does with the functions that it is given.
type ExecMode uint8

// The ways to execute.
const (
	ExecInline  ExecMode = iota // run before Submit returns: callers may call the function directly instead, if the device is open
	ExecQueued                  // run later, in stream order
	ExecDiscard                 // never run: the device has no storage
)

// Executor is a Stream that runs Go functions in stream order: the streams of host and sim devices. It is how CPU kernels
// are launched.
type Executor interface {
	Stream
	Mode() ExecMode
	// Submit enqueues fn on the stream under the operation's name, which goes into the error of a wait if fn fails or panics: a
	// LaunchError. With ExecInline that error is returned at once. fn must not wait for its own stream, nor free memory.
	Submit(operation string, fn func() error) error
}

// Joint is work of a stream that may run together with work that follows it at once: what goes over memory element by element, in
// pieces that stay in the processor's caches from one operation to the next.
type Joint interface {
	// Joins is with how many of the works that follow, the first ones, this one runs together: 0 if it runs alone. It computes nothing.
	Joins(next []Joint) int
	// Run runs the work and those that follow, which Joins has counted. What they leave in memory is what they would leave one after the
	// other.
	Run(next []Joint) error
}

// JointExecutor is an Executor that runs work together which waits on it: one with ExecQueued.
type JointExecutor interface {
	Executor
	// SubmitJoint is Submit for such work. The error of works that ran together is that of the first of them, and names all.
	SubmitJoint(operation string, w Joint) error
}
