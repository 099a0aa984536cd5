// Package driver calls the NVIDIA driver: libcuda.so.1, or nvcuda.dll on Windows. It finds and opens the library, knows its
// functions and result codes, and knows nothing of devices as package device has them.
//
// # Batches
//
// Calls are made in batches: a few calls, one after the other, in one crossing from Go to C. The reason is the driver's idea
// of a current context, which belongs to the operating system's thread. A goroutine may move to another thread between two
// calls, but not within a crossing, so a batch that begins with CtxSetCurrent always works on the right context, and no
// goroutine must be tied to a thread.
//
//	b := library.Batch()
//	b.Add(driver.CtxSetCurrent, context)
//	b.Add(driver.MemAlloc, b.Out(0), bytes)
//	function, result := b.Run() // the first call that did not return 0, if any
//	address := b.Value(0)
//	b.Release()
//
// A batch stops at the first call whose result is not 0 and says which it was. Batches are pooled, hold the out-parameters,
// and keep what was given to Keep and Bytes alive and in one place until Release: a call makes no Go heap allocation.
//
// On amd64, Linux and macOS, the crossing is a routine of some fifty instructions that walks the batch, called as cgo calls
// C functions. Elsewhere, and with the build tag portablecalls, each call is purego's SyscallN on a goroutine that is tied to its thread for
// the batch.
package driver
