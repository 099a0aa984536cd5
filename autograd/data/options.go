package data

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Option changes how a Loader works.
type Option func(*Loader)

// mistake notes the first mistake in the options.
func (l *Loader) mistake(format string, args ...any) {
	if l.wrong == nil {
		l.wrong = argumentErr(format, args...)
	}
}

// Shuffle reads the examples in a new random order in each loop, drawn from gen.
func Shuffle(gen *tensor.Generator) Option {
	return func(l *Loader) {
		if l.gen = gen; gen == nil {
			l.mistake("Shuffle was given no generator: it is nil")
		}
	}
}

// DropLast leaves out the last batch if it is not full.
func DropLast() Option { return func(l *Loader) { l.dropLast = true } }

// WithSampler reads the examples that s chooses, in its order.
func WithSampler(s Sampler) Option {
	return func(l *Loader) {
		if isnil.Value(s) {
			l.mistake("WithSampler was given no sampler: it is nil")
			return
		}
		l.sampler = s
	}
}

// WithBatchSampler reads the batches that s chooses. The size of batches that the loader is given must be 0 then, and options about the order and
// the last batch have no place beside it.
func WithBatchSampler(s BatchSampler) Option {
	return func(l *Loader) {
		if isnil.Value(s) {
			l.mistake("WithBatchSampler was given no sampler: it is nil")
			return
		}
		l.batches = s
	}
}

// WithGenerator draws the random numbers of examples (see Source) from gen: one block of it in each loop. Without, they are drawn from that
// of Shuffle, and else from a generator with a seed from the operating system.
func WithGenerator(gen *tensor.Generator) Option {
	return func(l *Loader) {
		if l.numbers = gen; gen == nil {
			l.mistake("WithGenerator was given no generator: it is nil")
		}
	}
}

// Workers makes batches in n goroutines, ahead of the loop, and uploads them on a stream of the loader's own. With 0, the default, the
// loop itself makes each batch when it takes it. A loader with workers must be closed. What is read does not depend on n.
func Workers(n int) Option {
	return func(l *Loader) {
		if l.workers = n; n < 0 || n > maxWorkers {
			l.mistake("Workers(%d): there can be 0 to %d", n, maxWorkers)
		}
	}
}

// maxWorkers is far more than can be of use.
const maxWorkers = 1 << 12

// Prefetch lets workers have n batches ready or in the making beyond the one that the loop has, which is what bounds their memory. The default is
// two for each worker.
func Prefetch(n int) Option {
	return func(l *Loader) {
		if l.prefetch = n; n < 1 || n > maxPrefetch {
			l.mistake("Prefetch(%d): there can be 1 to %d batches", n, maxPrefetch)
		}
	}
}

const maxPrefetch = 1 << 16

// PinMemory puts the batches of a Source together in pinned host memory (package memory/pinned), from which the device copies at
// full speed while program and training go on. It fails on devices without such memory. It is for data from the host: a Dataset uploads by
// itself.
func PinMemory() Option { return func(l *Loader) { l.pinned = true } }

// WithCollate puts the examples of a Source together with c, not with Stack.
func WithCollate(c Collate) Option {
	return func(l *Loader) {
		if l.collate = c; c == nil {
			l.mistake("WithCollate was given no function: it is nil")
		}
	}
}

// WithProgress calls f in the loop's goroutine after each batch.
func WithProgress(f func(Progress)) Option { return func(l *Loader) { l.progress = f } }

// WithStream makes the batches for s, not for the device's default stream.
func WithStream(s device.Stream) Option {
	return func(l *Loader) { l.options = append(l.options, tensor.WithStream(s)) }
}

// WithAllocator takes the batches' memory from a, not from memory.For(dev).
func WithAllocator(a memory.Allocator) Option {
	return func(l *Loader) { l.options = append(l.options, tensor.WithAllocator(a)) }
}
