// Package eventqueue delays the reuse of freed blocks whose memory streams still use. When such a block is freed, its allocator
// adds it to the queue of each of those streams, with an event recorded there; the block's free is complete when all of them have
// arrived. Nothing waits for the device: allocators ask when they are called anyway.
//
// The events of one stream complete in the order in which they were recorded, so only the first of a queue is asked. A queue whose
// first event has not completed is left alone for the rest of the round: a stream that runs for long holds up only the blocks that
// wait for it. PyTorch's allocator of device memory has a queue for each stream as well; that of pinned memory has one for all,
// in which one long kernel holds up everybody.
//
// Which queue is asked first decides in which order blocks become free, and by that which block serves the next request. Order
// says so; both are PyTorch's.
package eventqueue
