package memory

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Sentinels for errors.Is.
var (
	// ErrOutOfMemory: the memory cannot be had. Every *OOMError matches it, and also one of the two below.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceFull: the device has not enough free memory.
	ErrDeviceFull = errors.New("device memory is full")
	// ErrLimit: the allocator's memory limit does not allow it, whether or not the device has the memory.
	ErrLimit = errors.New("memory limit reached")

	// ErrDoubleFree: the block was freed before.
	ErrDoubleFree = errors.New("double free")
	// ErrUseAfterFree: the block was freed.
	ErrUseAfterFree = errors.New("use after free")
	// ErrForeignBlock: the block belongs to another allocator.
	ErrForeignBlock = errors.New("block of another allocator")
	// ErrForeignStream: the stream is of another device.
	ErrForeignStream = errors.New("stream of another device")
	// ErrLeak: blocks were in use when the allocator was closed.
	ErrLeak = errors.New("blocks still in use")
)

// BlockError is a call with a block that it cannot take.
type BlockError struct {
	Op     string // the call
	Device device.ID
	Ptr    device.Ptr // the block's address
	Size   uint64     // its size in bytes
	Err    error      // ErrDoubleFree, ErrUseAfterFree or ErrForeignBlock; for a use after Close, ErrUseAfterFree and device.ErrClosed

	// Where the block was allocated, and where it was freed before, innermost first: for double frees and uses after free,
	// if history was being recorded then and its context has such stacks (RecordHistory), and if the block's object has not
	// been in use again and freed since. Otherwise empty.
	Allocated, Freed []Frame
}

// Error names the call, the device, the block, what is wrong with it, and the innermost frames of the two places if known.
func (e *BlockError) Error() string {
	return fmt.Sprintf("memory: %s on %s: %v: block of %d bytes at %#x%s%s", e.Op, e.Device, e.Err, e.Size, uintptr(e.Ptr),
		placeText(", allocated at ", e.Allocated), placeText(", freed at ", e.Freed))
}

// placeText writes up to three frames of a stack, "" if there are none.
func placeText(intro string, frames []Frame) string {
	var s strings.Builder
	for i, f := range frames[:min(len(frames), 3)] {
		if i == 0 {
			s.WriteString(intro)
		} else {
			s.WriteString(" < ")
		}
		fmt.Fprintf(&s, "%s (%s:%d)", path.Base(f.Name), path.Base(f.Filename), f.Line)
	}
	return s.String()
}

// staleBlock is the error for a handle whose block was freed; freed is what is known of that.
func (a *Caching) staleBlock(op string, h Block, freed freedBlock, err error) error {
	syms := newSymbols(a.stacks.Load())
	return &BlockError{Op: op, Device: a.id, Ptr: h.ptr, Size: h.size, Err: err,
		Allocated: syms.Frames(freed.alloc), Freed: syms.Frames(freed.free)}
}

// Unwrap returns the sentinel.
func (e *BlockError) Unwrap() error { return e.Err }

// StreamError is a call with a stream of another device.
type StreamError struct {
	Op     string // the call
	Device device.ID
	Stream device.StreamID
	Of     device.ID // the stream's device
}

// Error names the call, the device, and the stream with its device.
func (e *StreamError) Error() string {
	return fmt.Sprintf("memory: %s on %s: %v: stream %d of %s", e.Op, e.Device, ErrForeignStream, e.Stream, e.Of)
}

// Unwrap returns ErrForeignStream.
func (e *StreamError) Unwrap() error { return ErrForeignStream }

// checkStream returns a *StreamError unless s is a stream of the device. A driver that stands between the allocator and its
// device may give itself another number: then the device is known by its default stream.
func checkStream(op string, id device.ID, d Driver, s device.Stream) error {
	if why := isnil.Why("stream", s); why != "" {
		return argumentErr(op, "%s", why)
	}
	dev := s.Device()
	if isnil.Value(dev) {
		return argumentErr(op, "the stream has no device: NewStream of a device makes streams")
	}
	if dev.ID() == id {
		return nil
	}
	if x, ok := d.(interface{ DefaultStream() device.Stream }); ok && x.DefaultStream().Device() == dev {
		return nil
	}
	return &StreamError{Op: op, Device: id, Stream: s.ID(), Of: dev.ID()}
}

// checkOpenStream is checkStream for calls that take memory for work to come: a stream that was closed is an ErrClosed.
func checkOpenStream(op string, id device.ID, d Driver, s device.Stream) error {
	if err := checkStream(op, id, d, s); err != nil {
		return err
	}
	if streams.Closed(s) {
		return closedStream(op, id, s.ID())
	}
	return nil
}

func closedStream(op string, id device.ID, s device.StreamID) error {
	return &device.Error{Device: id, Call: "memory." + op, Detail: fmt.Sprintf("stream %d is closed", s), Err: device.ErrClosed}
}

// LeakError reports blocks that were in use when their allocator was closed.
type LeakError struct {
	Device device.ID
	Blocks int64
	Bytes  uint64
}

// Error names the device and what was in use.
func (e *LeakError) Error() string {
	return fmt.Sprintf("memory: closing the allocator of %s: %v: %s, %d bytes", e.Device, ErrLeak, plural.Of(e.Blocks, "block"), e.Bytes)
}

// Is reports whether target is ErrLeak.
func (e *LeakError) Is(target error) bool { return target == ErrLeak }
