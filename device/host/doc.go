// Package host is the processor as a device: memory from the operating system, streams that run Go functions. It is the
// device of programs without a GPU, and the one on which stream mistakes show before a GPU hides them.
//
// # Memory
//
// Malloc maps whole pages, outside the Go heap, and Free unmaps them: an access after Free is a fault and not a silent
// error. What is mapped counts against the device's capacity, the machine's memory unless Capacity says otherwise. Package
// memory sits above and makes this rare. Ranges can be reserved and filled page by page (device.VirtualMemory), and
// AllocPinned hands out slices outside the Go heap.
//
// # Streams
//
// The default stream runs its work inline: Submit calls the function, a copy copies, and when the call returns the work is
// done. Events recorded on it are complete at once, and none of this allocates. Two goroutines that use it at the same time
// run at the same time; who needs order among them makes it. Wait is the one call that has to block there, because the work
// that must not begin early is the caller's own.
//
// Streams of NewStream are queues. Calls return at once, and one goroutine per stream, which lives only while there is
// work, runs it in order. Wait makes that goroutine wait, not the caller. What fails, or panics, fails as a *device.Error
// that names the operation, matches device.ErrLaunch and the error itself, and is kept until the next call that waits for
// that work. Later work on the stream still runs.
//
//	caller   s.Submit("a") s.Record(e) t.Wait(e) t.Submit("b") t.Synchronize(ctx) ----------------> nil, or the error of b
//	s         \-> a ------- done: e is complete
//	t                                   \-> (waits for e) b --------------------------------- done
//
// Work that goes over memory element by element (device.Joint) runs together with what waits behind it: in pieces that stay in the
// processor's caches, so that a chain of operations on large tensors takes one pass over memory in place of one for each. The more
// a program is ahead of the queue, the longer the chains. The results are the same bits; those who wait for one of the operations wait for all
// of its chain, of 32 at most.
//
// A function on a queue must not wait for its own stream, free memory, or close anything: those wait for the function.
//
// Locks: a device, a queue and an event have one each. No two are ever held together, and none while work runs or anybody
// waits.
package host
