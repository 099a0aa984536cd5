// Package fpstack takes call stacks at a price that a memory allocator can pay on every call: some tens of nanoseconds,
// where runtime.Callers takes several hundred. Stacks are kept once each, in a Table, and known by a number.
//
// # How it walks
//
// On amd64 and arm64 every Go function with a frame saves the frame pointer of its caller beside its return address, so the
// frames are a linked list, and walking it is two loads a frame:
//
//	fp -> | fp of the caller | return address |        the list ends with 0, at the base of the goroutine
//
// That is also how the runtime's execution tracer walks. Other architectures use runtime.Callers.
//
// # Why that is safe
//
// The walk is one assembly function, callers. It makes no call and has no stack check, so the stack cannot grow under it.
// Nor can it be moved otherwise, to be shrunk by the garbage collector: for that a goroutine must stand at a safe point,
// and assembly has none (the runtime preempts asynchronously only where it has the compiler's stack maps). Signal handlers
// run on a stack of their own.
//
// The function reads nothing but the goroutine's own stack, whatever the frame pointers say: each must lie above the one
// before it and inside the bounds that the goroutine descriptor g begins with (g.stack, the two words that also C code
// started by the runtime relies on). So it ends, and it cannot fault, even where somebody's assembly has used the frame
// pointer register for something else, or where C called Go: then the stack ends early, or has a wrong entry.
//
// # What comes out
//
// Return addresses of machine frames. A function that was inlined has none, but the compiler's tables know it at the
// address: runtime.CallersFrames expands it when a stack is written out. Only the functions around the last address of a
// stack cut off at Depth are not expanded.
package fpstack
