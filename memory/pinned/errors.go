package pinned

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// OOMError says why pinned host memory could not be had. All sizes are bytes. The allocator is intact: after freeing
// something the program may go on.
type OOMError struct {
	Device    device.ID
	Requested uint64 // what the caller asked for
	Tried     uint64 // the block's size, after rounding; 0 if the request is beyond all sense
	Active    uint64 // in blocks that callers hold, or that wait for events or captures
	Cached    uint64 // in free blocks that could not be given back
	Err       error  // the driver's; nil if it was not asked
}

// Error tells the story in one line.
func (e *OOMError) Error() string {
	if e.Tried == 0 {
		return fmt.Sprintf("memory: out of pinned host memory on %s: tried to allocate more than 1EB memory (%d bytes)", e.Device, e.Requested)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "memory: out of pinned host memory on %s: tried to allocate %s for a request of %d bytes; %s is in use, %s is cached: %v",
		e.Device, text.Bytes(e.Tried), e.Requested, text.Bytes(e.Active), text.Bytes(e.Cached), e.Err)
	if e.Tried > e.Requested+e.Requested/4 && e.Tried >= 1<<20 {
		s.WriteString(". pinned_max_round_threshold_mb would ask for no more than is requested")
	}
	return s.String()
}

// Is makes errors.Is(err, memory.ErrOutOfMemory) hold.
func (e *OOMError) Is(target error) bool { return target == memory.ErrOutOfMemory }

// Unwrap returns the driver's error.
func (e *OOMError) Unwrap() error { return e.Err }

func (p *Allocator) outOfMemory(bytes, size uint64, cause error) error {
	s := p.Stats()
	return &OOMError{Device: p.id, Requested: bytes, Tried: size, Err: cause,
		Active: uint64(s.ActiveBytes.Current), Cached: uint64(s.AllocatedBytes.Current - s.ActiveBytes.Current)}
}

func argumentErr(call, format string, args ...any) error {
	return &memory.ArgumentError{Call: call, Detail: fmt.Sprintf(format, args...)}
}

// blockError is memory.BlockError for blocks of host memory: its address is that of the memory in this program.
func (p *Allocator) blockError(op string, h Block, err error) error {
	return &memory.BlockError{Op: op, Device: p.id, Ptr: h.b.addr, Size: h.b.size, Err: err}
}
