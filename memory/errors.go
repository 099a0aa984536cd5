package memory

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
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
	// ErrLeak: blocks were in use when the allocator was closed.
	ErrLeak = errors.New("blocks still in use")
)

// BlockError is a call with a block that it cannot take.
type BlockError struct {
	Op     string // the call
	Device device.ID
	Ptr    device.Ptr // the block's address
	Size   uint64     // its size in bytes
	Err    error      // ErrDoubleFree, ErrUseAfterFree or ErrForeignBlock
}

// Error names the call, the device, the block and what is wrong with it.
func (e *BlockError) Error() string {
	return fmt.Sprintf("memory: %s on %s: %v: block of %d bytes at %#x", e.Op, e.Device, e.Err, e.Size, uintptr(e.Ptr))
}

// Unwrap returns the sentinel.
func (e *BlockError) Unwrap() error { return e.Err }

// LeakError reports blocks that were in use when their allocator was closed.
type LeakError struct {
	Device device.ID
	Blocks int64
	Bytes  uint64
}

// Error names the device and what was in use.
func (e *LeakError) Error() string {
	return fmt.Sprintf("memory: Close on %s: %v: %d blocks, %d bytes", e.Device, ErrLeak, e.Blocks, e.Bytes)
}

// Is reports whether target is ErrLeak.
func (e *LeakError) Is(target error) bool { return target == ErrLeak }
