// Package tensor is arrays in a device's memory, and the operations on them. There are no gradients here: package autograd
// adds them. The words, the defaults, broadcasting, type promotion and numerics are PyTorch's.
//
//	e, err := tensor.On(device.Default())
//	a, err := tensor.FromSlice(e, []float32{1, 2, 3, 4}, 2, 2)
//	defer a.Release()
//	b, err := a.MatMul(a)
//	defer b.Release()
//	fmt.Println(b)
//
// # The parts
//
// A Tensor is a handle: a counted storage, a layout (shape, strides, offset) in it, the type of the elements, and an Exec,
// which says on which stream operations run and which allocator their results come from. A view is another handle with
// another layout on the same storage. An operation, in the order in which it does it:
//
//  1. checks its operands (released, devices, types, shapes) and fails with a typed error before anything happened;
//  2. converts operands to the promoted type, in temporaries;
//  3. takes the result from the allocator;
//  4. records storage that was allocated on another stream, and enqueues one kernel on the stream (launch.go);
//  5. gives temporaries back. If anything failed, the result too: an operation that returns an error has kept no memory.
//
// Operations return when the work is on the stream. Errors of the work itself (an index outside its dimension) are told by
// the next call that waits: ToSlice, Item, Synchronize. Results are contiguous, but for views and
// what keeps a memory format. What an operation allocates depends on shapes, strides and types only, never on the data or the kind of device.
//
// # Memory formats
//
// Images, [N, C, H, W], lie row by row, channel by channel (ContiguousFormat), or with the channels of a place side by side (ChannelsLast), as tensor cores read
// them: the convolutions of GPUs in half precision then read image, kernel and result where they are. ToMemoryFormat converts; shapes stay what they are, and only strides
// tell the formats apart. Each operation chooses by the strides of its operands, by PyTorch's rules:
//
//   - element-wise operations, conversions, Cat and Flip: the order that all operands have; else that of the first one whose strides tell two dimensions apart;
//   - convolutions: channels last if the image has them there, or the kernels;
//   - pools, resampling, batch norm, dropout, Pad with a constant: the format of the image (MemoryFormat);
//   - Clone, EmptyLike and the like: t's strides, whatever they are;
//   - reductions, products, softmax, layer and group norm, and all others: row-major, by way of a copy where a kernel takes nothing else.
//
// Results that would be in another order in PyTorch, as sums of transposed matrices are, are row-major here. The kernels of the host take
// all of them, and are tuned for ContiguousFormat. Formats have no influence on the bytes that a result takes.
//
// # Lifetime
//
// Who makes a tensor owns it, and calls Release. The storage counts its handles; when the last is released, the block goes
// back to its allocator at once. That is safe while work is in flight, because the allocator hands memory out again in
// stream order: to later work on the same stream, or after the events of other streams that it was told of. A handle may be
// released once; more do nothing. Using it afterwards is a *ReleasedError.
//
//	base ──► storage ◄── view     refs = 2; Release of either leaves the other whole
//	          │ block ──► allocator
//
// The safety net: unless the Exec is Owned, runtime.AddCleanup watches the storage. When neither base nor views are reachable
// any more and the block was not freed, the block is queued to the allocator (FreeLater). The garbage collector does
// not see device memory, so this comes late: it is for mistakes, not for programs. Who owns tensors without it, as a graph does,
// lends them to others (Lend), so that what they make is watched again.
//
// # Streams
//
// An operation runs on the stream of its receiver's Exec (of the first tensor argument, if there is no receiver). If an
// operand's storage was allocated on another stream, the use is recorded with the allocator, so that freeing the operand
// stays safe. Waiting for the other stream's work, so that the data is there, is the caller's business (device.Event).
//
// # Concurrency
//
// Handles do not change, and may be used by several goroutines. Counting and version counters are atomic. A goroutine
// must not release a handle that another is still using: each takes its own with Retain. Operations InPlace change the
// content like any other memory: ordering them is the caller's.
//
// # Errors
//
// *ShapeError, *DTypeError, *DeviceError, *ValueError and *ReleasedError are mistakes of the caller, and *ValuesError is of operations whose results are as large
// as values say, on a simulated device, which has none. What comes from below is
// wrapped with the operation's name: errors.As reaches *memory.OOMError and *device.Error.
package tensor
