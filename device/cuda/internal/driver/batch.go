package driver

import (
	"sync"
	"unsafe"

	_ "github.com/cistern-ml/cistern/internal/platform" // elsewhere it does not compile
)

const (
	maxCalls = 6  // of a batch
	maxArgs  = 24 // of a call; cuBLAS's batched matrix product has 23
	maxOut   = 4
)

// record is one call as the trampoline reads it. Its layout is known to trampoline_amd64.s.
type record struct {
	fn     uintptr
	result uintptr
	n      uintptr // arguments
	args   [maxArgs]uintptr
}

// Batch is a sequence of calls to be made in one crossing. It belongs to one goroutine from Library.Batch to Release.
type Batch struct {
	// What the trampoline reads and writes, in this order.
	count uintptr // calls to make
	done  uintptr // calls that returned 0; the next one, if any, did not
	calls [maxCalls]record

	library *Library
	gate    *Gate // that it is inside of, or nil
	skipped int   // calls that Resume took out
	funcs   [maxCalls]Func
	out     [maxOut]uint64
	kept    [4]unsafe.Pointer // what the arguments point to, besides out and space
	keeps   int
	space   [maxSpace]uint64 // parameters of a kernel
	params  [maxParams]uintptr
}

// Batches live in a pool, and so on the Go heap: their addresses, which are among the arguments as plain numbers, do not
// change, as those of a goroutine's stack would.
var batches = sync.Pool{New: func() any { return new(Batch) }}

// Batch returns an empty batch.
func (l *Library) Batch() *Batch {
	b := batches.Get().(*Batch)
	b.library = l
	return b
}

// Release gives the batch back. Nothing of it may be used afterwards.
func (b *Batch) Release() {
	clear(b.kept[:b.keeps])
	b.keeps = 0
	b.count, b.skipped = 0, 0
	b.library = nil
	gate := b.gate
	b.gate = nil
	batches.Put(b)
	if gate != nil {
		gate.leave()
	}
}

// Add appends a call. Arguments narrower than a word are given as their bits, zero-extended.
func (b *Batch) Add(f Func, args ...uintptr) {
	b.AddForeign(b.library.funcs[f], args...)
	b.funcs[b.count-1] = f
}

// AddForeign appends a call of a function of another library, which must return a 32-bit number that is 0 for success, and
// have at most 24 arguments, none of them floating-point.
func (b *Batch) AddForeign(fn uintptr, args ...uintptr) {
	i := b.count
	c := &b.calls[i]
	c.fn, c.n = fn, uintptr(len(args))
	copy(c.args[:], args)
	b.funcs[i] = Foreign
	b.count++
}

// Run makes the calls and returns the first result that is not 0, with the function that returned it.
func (b *Batch) Run() (Func, Result) {
	b.done = 0
	b.cross()
	if b.done < b.count {
		return b.funcs[b.done], Result(b.calls[b.done].result)
	}
	return b.funcs[b.count-1], Success
}

// Resume goes on behind the call at which the last Run stopped, as Run would, after the first call of the batch once more: the
// goroutine may be on another thread by now, with another context.
func (b *Batch) Resume() (Func, Result) {
	if b.done > 0 && b.done < b.count {
		n := copy(b.calls[1:], b.calls[b.done+1:b.count])
		copy(b.funcs[1:], b.funcs[b.done+1:b.count])
		b.skipped += int(b.done)
		b.count = uintptr(1 + n)
	}
	return b.Run()
}

// Done is how many calls of the last Run returned 0; after Resume, the place in the batch of the call that did not, or of its end.
func (b *Batch) Done() int { return int(b.done) + b.skipped }

// Len is how many calls were added.
func (b *Batch) Len() int { return int(b.count) + b.skipped }

// Reset empties the batch for other calls. What it keeps and the values of out-parameters stay.
func (b *Batch) Reset() { b.count, b.skipped = 0, 0 }

// Out is the address of out-parameter i, below 4, of up to 8 bytes. It is set to 0.
func (b *Batch) Out(i int) uintptr {
	b.out[i] = 0
	return uintptr(unsafe.Pointer(&b.out[i]))
}

// Value is what the driver wrote to out-parameter i.
func (b *Batch) Value(i int) uint64 { return b.out[i] }

// Bytes is the address of the first byte of s, which is kept alive, and off the stack, until Release.
func (b *Batch) Bytes(s []byte) uintptr { return b.keep(unsafe.Pointer(unsafe.SliceData(s))) }

// Keep is the address of *p, which is kept alive, and off the stack, until Release. A batch keeps up to 4 things.
func Keep[T any](b *Batch, p *T) uintptr { return b.keep(unsafe.Pointer(p)) }

func (b *Batch) keep(p unsafe.Pointer) uintptr {
	b.kept[b.keeps] = p
	b.keeps++
	return uintptr(p)
}

const (
	maxSpace  = 512 // words: the 4 KiB that all architectures take
	maxParams = 64
)

// Params copies the parameters of a kernel into the batch and returns the address of the array of their addresses, as
// LaunchKernel wants it. starts are the indices in words of the first word of each parameter. It has at most MaxParams
// parameters in MaxWords words.
func (b *Batch) Params(words []uint64, starts []uint16) uintptr {
	copy(b.space[:], words)
	for i, at := range starts {
		b.params[i] = uintptr(unsafe.Pointer(&b.space[at]))
	}
	return uintptr(unsafe.Pointer(&b.params[0]))
}

// The most that Params takes.
const (
	MaxParams = maxParams
	MaxWords  = maxSpace
)

// Word is the address of a place of 8 bytes, one of 64, that holds v until Params uses the memory or the batch is released.
func (b *Batch) Word(i int, v uint64) uintptr {
	b.space[i] = v
	return uintptr(unsafe.Pointer(&b.space[i]))
}
