// Package text has the words that allocators share in what they print and in their errors.
package text

import (
	"fmt"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// What calls are given that is nil.
const (
	NilDevice    = "the device is nil or a zero value"
	NilAllocator = "the allocator is nil or a zero value"
	NilFunction  = "the function is nil"
)

// NoDevice reports whether there is no device: nil, a nil pointer, or a zero value, which has no kind.
func NoDevice(d interface{ ID() device.ID }) bool { return isnil.Value(d) || d.ID().Kind == 0 }

// UsedLate is what is wrong with the use of a block that is not in use, of an allocator that may be closed: it is late, or, of a
// closed one, also device.ErrClosed. Close has freed the block then, which nobody remembers to have done.
func UsedLate(allocator *atomic.Bool, late error) error {
	if allocator.Load() {
		return fmt.Errorf("%w: its allocator was closed (Close or Drop), which frees blocks in use too: %w", late, device.ErrClosed)
	}
	return late
}

// Allocator is what allocators print: their kind, their device, and whether they are closed. Statistics are left out, because
// they take locks.
func Allocator(kind string, id device.ID, closed *atomic.Bool) string {
	text := fmt.Sprintf("%s of %s", kind, id)
	if closed.Load() {
		text += ", closed"
	}
	return text
}

// Bytes writes a size as PyTorch's out-of-memory message does: the unit grows past 1024 of the smaller one, and the limits
// themselves still print in the smaller unit.
func Bytes(n uint64) string {
	switch {
	case n <= 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n <= 1<<20:
		return fmt.Sprintf("%.2f KiB", float64(n)/(1<<10))
	case n <= 1<<30:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}
