package memory

import "github.com/cistern-ml/cistern/device"

// Block is a caller's handle on a piece of device memory, from Alloc until Free. It is a value: copying it copies the
// handle, not the memory, and any one of the copies may free it, once. A handle that outlives its Free is recognised
// (ErrDoubleFree), also when the memory has long been given to somebody else. The zero Block is what Alloc returns for
// zero bytes: it has no address, and freeing it does nothing.
type Block struct {
	b          *block
	generation uint64 // b.generation at hand-out; b.generation moves on at each Free
	ptr        device.Ptr
	size       uint64
}

// Ptr is the address of the block's first byte, 0 for the zero Block. It is valid until Free, and for work that was enqueued on
// the block's stream before Free.
func (b Block) Ptr() device.Ptr { return b.ptr }

// Size is the block's size in bytes after rounding: what the statistics count as allocated.
func (b Block) Size() uint64 { return b.size }

// IsZero reports whether b is the zero Block.
func (b Block) IsZero() bool { return b.b == nil }
