// Package pinned is PyTorch's caching allocator for pinned host memory: memory that the operating system does not move, so that a
// device reads and writes it at full speed while the program goes on. Pinning is slow (a driver call, milliseconds for large
// blocks), so what is freed is kept and handed out again.
//
//	p, err := pinned.For(dev)
//	b, err := p.Alloc(bytes)           // b.Bytes() is ordinary memory for Go
//	err = p.RecordStream(b, stream)    // after enqueuing a copy from or to b on the stream
//	err = p.Free(b)                    // at once: the block is reused when the copy is done
//
// Settings (memory.Config), errors and the forms of snapshots are those of package memory, which closes the allocator with that of the
// device's own memory (memory.Drop) and has its blocks in snapshots of the device (memory.WriteSnapshot).
//
// # Sizes and buckets
//
// A block's size is the request rounded up to a power of two, or the request itself above PinnedMaxRoundThresholdBytes and
// above PinnedMaxCachedBytes. Blocks are neither split nor merged. There are 64 buckets; bucket k has the blocks of more than
// 2^(k-1) and up to 2^k bytes. A request takes the block of its bucket that was freed last and is large enough: unrounded
// blocks of different sizes share a bucket. Only if there is none is the driver asked (source.go). A freed block larger
// than PinnedMaxCachedBytes is not kept, be it by request or by rounding.
//
//	bucket 16   free: | 64 KiB | 64 KiB | 50 KiB |  <- the next 40 KiB take the last one, the next 64 KiB the second
//
// # States of a block
//
//	        Alloc                   Free, no stream recorded
//	cached -------> allocated ----------------------------------> cached, or releasing if larger than PinnedMaxCachedBytes
//	  ^                 |  Free, streams recorded or used in a capture
//	  |   all done      v
//	  +------------- pending
//
//	cached -> releasing -> spare   EmptyCache: the driver has the memory back. If it refuses, the block is cached again
//
// # Where it differs from PyTorch's
//
// Each difference is meant to be noticed only by being better.
//
//   - Events are queued by stream, not in one queue, so a stream that runs for long holds up only the blocks that wait for
//     it. What has completed is taken in the order in which it was recorded, over all streams; so as long as no stream is
//     behind another, blocks enter their buckets in PyTorch's order.
//   - The active statistics fall on every path of a free, when the memory can be used again; their peaks are exact and no
//     sums of the buckets' peaks.
//   - Blocks cut from the reserve segment stay cached for ever. PyTorch's EmptyCache drops them, and nobody gets their
//     memory again. NumHostAlloc counts the segment, as the one driver call that it is.
//   - If the driver has no memory, Alloc waits for the outstanding events, gives the cache back, and asks once more.
//   - The background goroutine rests while no event is outstanding.
//   - No driver call is made under the lock of a bucket, in EmptyCache neither.
//   - There is one allocator per device; streams of other devices may be recorded all the same.
//   - Snapshots have the bytes that were requested, where PyTorch's have the blocks' sizes.
//
// # Invariants
//
//   - a bucket's list of free blocks holds exactly its cached blocks
//   - allocated_bytes is the sum of all blocks, active_bytes that of the allocated and pending ones
//   - a pending block waits for exactly the events queued for it and the captures that hold it
//
// # Locks
//
// In this order, each optional: events.mu, the buckets' locks by number, and then the small ones (captureSet.mu, Capture.mu,
// books.mu). reserve.mu comes before books.mu and meets no other; worker.mu meets none. Driver calls are made without a lock, with two
// exceptions: recording, asking and closing events, which is done under events.mu, and taking the reserve segment and giving it back,
// for which reserve.mu makes the others wait.
package pinned
