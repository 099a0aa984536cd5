package memory

import "github.com/cistern-ml/cistern/device"

// Allocator hands out a device's memory. Caching and Direct implement it. All methods may be called by several goroutines
// at once.
type Allocator interface {
	// Alloc returns a block of at least bytes bytes for use on stream s. Zero bytes give the zero Block. It fails with an
	// *OOMError (errors.Is ErrOutOfMemory) when the memory cannot be had; then nothing has changed for the blocks in use.
	// The memory's content is undefined. Work on other streams may use the block after RecordStream. A stream of another device
	// is a *StreamError, and one that was closed an ErrClosed of package device.
	Alloc(bytes uint64, s device.Stream) (Block, error)
	// Free takes a block back. Its memory may be handed out again at once to work on the same stream, and after the work
	// enqueued so far on all recorded streams to anybody: callers need not wait for work on the device.
	Free(b Block) error
	// FreeLater is Free for code that must neither block nor fail, such as runtime cleanups: the block is queued, and freed at
	// the next Alloc. Blocks freed this way are counted in Stats. A block of another allocator of this package is passed on to
	// that one's FreeLater.
	FreeLater(b Block)
	// RecordStream notes that work on s uses the block, so that Free delays its reuse until the work then on s has finished.
	// The block's own stream has no effect, nor has one that was closed, whose work is done. A block that was freed is a *BlockError
	// (ErrUseAfterFree), on any stream. A stream of another device is a *StreamError.
	RecordStream(b Block, s device.Stream) error
	// EmptyCache gives all memory that no block uses back to the driver. It waits for events of freed blocks.
	EmptyCache() error
	// Stats returns a consistent copy of the statistics.
	Stats() Stats
	// Device is the device whose memory this is.
	Device() device.ID
	// Close gives everything back to the driver, blocks in use included, and reports those as a *LeakError.
	Close() error
}

// CloseReporter is an Allocator that says whether it was closed: then the memory of all its blocks is gone. Those of this package
// are.
type CloseReporter interface {
	Allocator
	Closed() bool
}
