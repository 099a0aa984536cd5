package data

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/oneline"
	"github.com/cistern-ml/cistern/tensor"
)

// Loader iterates over a data set in batches. It is for one goroutine, and one loop, at a time.
type Loader struct {
	set   Dataset // nil if it reads src
	src   Source  // nil if it reads set
	batch int
	exec  tensor.Exec // of the batches that a loop gets

	gen      *tensor.Generator // of Shuffle; nil for the data set's order
	numbers  *tensor.Generator // of the examples' random numbers
	dropLast bool
	sampler  Sampler
	batches  BatchSampler // nil until NewLoader has made one of the above

	workers  int
	prefetch int
	pinned   bool
	collate  Collate
	progress func(Progress)
	options  []tensor.ExecOption
	wrong    error // the first mistake in the options

	invalid error         // what is wrong with the loader itself
	err     error         // of the last loop
	side    device.Stream // where workers upload, made by the first loop that has some
	mu      sync.Mutex    // of running and side: Close may come from another goroutine
	running feed          // of the loop that is under way
	closed  atomic.Bool
}

// tooMany is more than the examples of a batch: their numbers are in one list, of 2 GiB.
const tooMany = 1 << 28

// NewLoader makes a loader that puts batches of batch examples on dev. It does not fail: what is wrong is returned by Err
// after a loop, which then runs zero times.
func NewLoader(dev device.Device, set Dataset, batch int, opts ...Option) *Loader {
	l := &Loader{set: set, batch: batch}
	if isnil.Value(set) {
		l.set = nil
	}
	l.prepare(dev, opts)
	return l
}

// NewSourceLoader is NewLoader for data sets that make their examples one by one.
func NewSourceLoader(dev device.Device, src Source, batch int, opts ...Option) *Loader {
	l := &Loader{src: src, batch: batch}
	if isnil.Value(src) {
		l.src = nil
	}
	l.prepare(dev, opts)
	return l
}

func (l *Loader) prepare(dev device.Device, opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	if l.invalid = l.mistakes(); l.invalid != nil {
		return
	}
	if t, ok := l.set.(tensors); ok {
		if l.invalid = t.check(); l.invalid != nil {
			return
		}
	}
	if l.numbers == nil {
		l.numbers = l.gen
	}
	if l.prefetch == 0 {
		l.prefetch = 2 * l.workers
	}
	l.exec, l.invalid = tensor.On(dev, l.options...)
}

// mistakes is what is wrong with the arguments and the options.
func (l *Loader) mistakes() error {
	n := l.count()
	switch {
	case l.set == nil && l.src == nil:
		return argumentErr("there is no data set")
	case l.wrong != nil:
		return l.wrong
	case l.sampler != nil && l.gen != nil:
		return argumentErr("WithSampler and Shuffle: the sampler decides on the order")
	case l.set != nil && (l.collate != nil || l.pinned):
		return argumentErr("PinMemory and WithCollate are for a Source: a Dataset makes its batches itself")
	case l.batches != nil:
		if l.batch != 0 || l.gen != nil || l.sampler != nil || l.dropLast {
			return argumentErr("WithBatchSampler stands for the size of batches, which must be 0, and for Shuffle, DropLast and WithSampler")
		}
		return nil
	case l.batch < 1:
		return argumentErr("batches of %d examples", l.batch)
	case min(l.batch, n) > tooMany:
		return argumentErr("batches of %d examples, of which there are %d; the numbers of at most %d are listed at a time", l.batch, n, tooMany)
	}
	return nil
}

// count is the Len of the data set.
func (l *Loader) count() int {
	switch {
	case l.set != nil:
		return l.set.Len()
	case l.src != nil:
		return l.src.Len()
	}
	return 0
}

// order is what chooses the batches.
func (l *Loader) order() BatchSampler {
	switch n := l.count(); {
	case l.batches != nil:
		return l.batches
	case l.sampler != nil:
		return NewBatchSampler(l.sampler, l.batch, l.dropLast)
	case l.gen != nil:
		return NewBatchSampler(RandomSampler(l.gen, n), l.batch, l.dropLast)
	default:
		return NewBatchSampler(SequentialSampler(n), l.batch, l.dropLast)
	}
}

// plan gives the numbers of each batch of a loop.
func (l *Loader) plan() (iter.Seq[[]int64], error) {
	if n := l.count(); n < 0 {
		return nil, argumentErr("Len of the data set returned %d", n)
	}
	plan, err := l.order().Batches()
	if err == nil && plan == nil {
		err = argumentErr("the sampler's Batches returned no sequence")
	}
	return plan, err
}

// Len is the number of batches in a loop.
func (l *Loader) Len() int {
	if l == nil || l.set == nil && l.src == nil {
		return 0
	}
	return max(0, l.order().Len())
}

// Err returns the error that ended the last loop early, nil if it ran to its end or was left.
func (l *Loader) Err() error {
	if l == nil {
		return errNoLoader()
	}
	return l.err
}

// Close ends a loop that is under way, also in another goroutine, where the loop's error is device.ErrClosed then, and gives back what the loader
// holds between loops: the stream on which workers upload. It waits for the work on it. Batches that were retained stay. Loops after it fail
// (device.ErrClosed). Closing twice is harmless.
func (l *Loader) Close() error {
	if l == nil || l.closed.Swap(true) {
		return nil
	}
	if f := l.underWay(); f != nil {
		f.stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.side == nil {
		return nil
	}
	return l.side.Close()
}

// String is the loader in one line, as in "loader on host: 60000 examples in batches of 32, shuffled".
func (l *Loader) String() string {
	switch {
	case l == nil, l.set == nil && l.src == nil && l.invalid == nil:
		return "loader (nil)"
	case l.invalid != nil:
		return "loader, failed: " + oneline.Error(l.invalid)
	}
	text := fmt.Sprintf("loader on %s: %s in ", l.exec.Device().ID(), oneline.Count(max(0, l.count()), "example"))
	if l.batches != nil {
		text += oneline.Count(l.Len(), "batch") // a sampler's sizes are its own
	} else {
		text += fmt.Sprintf("batches of %d", l.batch)
	}
	if l.gen != nil {
		text += ", shuffled"
	}
	if l.dropLast {
		text += ", without a rest"
	}
	if l.workers > 0 {
		text += ", " + oneline.Count(l.workers, "worker")
	}
	if l.closed.Load() {
		text += ", closed"
	}
	if l.err != nil {
		text += ", failed: " + oneline.Error(l.err)
	}
	return text
}

// errNoLoader is what is wrong with a loader that NewLoader did not make.
func errNoLoader() error { return argumentErr("there is no loader; make one with NewLoader") }

// state is where the random numbers of a loop's examples begin.
func (l *Loader) state() tensor.GeneratorState {
	if l.src == nil {
		return tensor.GeneratorState{} // a Dataset draws none, and its generators move as they do without
	}
	if l.numbers == nil {
		l.numbers = autograd.FreshGenerator()
	}
	return l.numbers.Reserve(1)
}
