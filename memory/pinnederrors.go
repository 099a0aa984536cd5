package memory

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
)

// PinnedOOMError says why pinned host memory could not be had. All sizes are bytes. The allocator is intact: after freeing
// something the program may go on.
type PinnedOOMError struct {
	Device    device.ID
	Requested uint64 // what the caller asked for
	Tried     uint64 // the block's size, after rounding; 0 if the request is beyond all sense
	Active    uint64 // in blocks that callers hold, or that wait for events or captures
	Cached    uint64 // in free blocks that could not be given back
	Err       error  // the driver's; nil if it was not asked
}

// Error tells the story in one line.
func (e *PinnedOOMError) Error() string {
	if e.Tried == 0 {
		return fmt.Sprintf("memory: out of pinned host memory on %s: tried to allocate more than 1EB memory (%d bytes)", e.Device, e.Requested)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "memory: out of pinned host memory on %s: tried to allocate %s for a request of %d bytes; %s is in use, %s is cached: %v",
		e.Device, formatBytes(e.Tried), e.Requested, formatBytes(e.Active), formatBytes(e.Cached), e.Err)
	if e.Tried > e.Requested+e.Requested/4 && e.Tried >= mib {
		s.WriteString(". pinned_max_round_threshold_mb would ask for no more than is requested")
	}
	return s.String()
}

// Is makes errors.Is(err, ErrOutOfMemory) hold.
func (e *PinnedOOMError) Is(target error) bool { return target == ErrOutOfMemory }

// Unwrap returns the driver's error.
func (e *PinnedOOMError) Unwrap() error { return e.Err }

func (p *Pinned) outOfMemory(bytes, size uint64, cause error) error {
	s := p.Stats()
	return &PinnedOOMError{Device: p.id, Requested: bytes, Tried: size, Err: cause,
		Active: uint64(s.ActiveBytes.Current), Cached: uint64(s.AllocatedBytes.Current - s.ActiveBytes.Current)}
}

// blockError is BlockError for blocks of host memory: its address is that of the memory in this program.
func (p *Pinned) blockError(op string, h PinnedBlock, err error) error {
	return &BlockError{Op: op, Device: p.id, Ptr: h.b.addr, Size: h.b.size, Err: err}
}
