package data

import (
	"fmt"
	"iter"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/oneline"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Loader iterates over a data set in batches. It is for one goroutine, and one loop, at a time.
type Loader struct {
	set      Dataset
	batch    int
	exec     tensor.Exec
	gen      *tensor.Generator // nil for the data set's order
	dropLast bool
	// unshuffled says that it was to be shuffled by a generator that is nil.
	unshuffled bool
	options    []tensor.ExecOption
	invalid    error // what is wrong with the loader itself
	err        error // of the last loop
	buffer     []int64
}

// Option changes how a Loader works.
type Option func(*Loader)

// Shuffle reads the examples in a new random order in each loop, drawn from gen.
func Shuffle(gen *tensor.Generator) Option {
	return func(l *Loader) {
		l.gen, l.unshuffled = gen, gen == nil
	}
}

// DropLast leaves out the last batch if it is not full.
func DropLast() Option { return func(l *Loader) { l.dropLast = true } }

// WithStream makes the batches on s, not on the device's default stream.
func WithStream(s device.Stream) Option {
	return func(l *Loader) { l.options = append(l.options, tensor.WithStream(s)) }
}

// WithAllocator takes the batches' memory from a, not from memory.For(dev).
func WithAllocator(a memory.Allocator) Option {
	return func(l *Loader) { l.options = append(l.options, tensor.WithAllocator(a)) }
}

// tooMany is more than the examples of a batch: their numbers are in one list, of 2 GiB.
const tooMany = 1 << 28

// NewLoader makes a loader that puts batches of batch examples on dev. It does not fail: what is wrong is returned by Err
// after a loop, which then runs zero times.
func NewLoader(dev device.Device, set Dataset, batch int, opts ...Option) *Loader {
	l := &Loader{set: set, batch: batch}
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	switch {
	case isnil.Value(set):
		l.set = nil
		l.invalid = argumentErr("there is no data set")
		return l
	case l.unshuffled:
		l.invalid = argumentErr("Shuffle was given no generator: it is nil")
		return l
	case batch < 1:
		l.invalid = argumentErr("batches of %d examples", batch)
		return l
	case min(batch, set.Len()) > tooMany:
		l.invalid = argumentErr("batches of %d examples, of which there are %d; the numbers of at most %d are listed at a time", batch, set.Len(), tooMany)
		return l
	}
	if t, ok := set.(tensors); ok {
		if l.invalid = t.check(); l.invalid != nil {
			return l
		}
	}
	l.exec, l.invalid = tensor.On(dev, l.options...)
	return l
}

// Len is the number of batches in a loop.
func (l *Loader) Len() int {
	if l == nil || l.batch < 1 || l.set == nil {
		return 0
	}
	n := max(0, l.set.Len())
	if l.dropLast || n == 0 {
		return n / l.batch
	}
	return (n-1)/l.batch + 1
}

// Err returns the error that ended the last loop early, nil if it ran to its end or was left.
func (l *Loader) Err() error {
	if l == nil {
		return errNoLoader()
	}
	return l.err
}

// String is the loader in one line, as in "loader on host: 60000 examples in batches of 32, shuffled".
func (l *Loader) String() string {
	switch {
	case l == nil, l.set == nil && l.invalid == nil:
		return "loader (nil)"
	case l.invalid != nil:
		return "loader, failed: " + oneline.Error(l.invalid)
	}
	text := fmt.Sprintf("loader on %s: %s in batches of %d", l.exec.Device().ID(), oneline.Count(max(0, l.set.Len()), "example"), l.batch)
	if l.gen != nil {
		text += ", shuffled"
	}
	if l.dropLast {
		text += ", without a rest"
	}
	if l.err != nil {
		text += ", failed: " + oneline.Error(l.err)
	}
	return text
}

// errNoLoader is what is wrong with a loader that NewLoader did not make.
func errNoLoader() error { return argumentErr("there is no loader; make one with NewLoader") }

// Batches reads the data set once: the first value has the inputs of a batch, the second the targets. They are released when
// the next batch is taken and when the loop ends. After the loop, check Err.
func (l *Loader) Batches() iter.Seq2[*tensor.Tensor, *tensor.Tensor] {
	return func(yield func(x, y *tensor.Tensor) bool) {
		if l == nil {
			return
		}
		if l.err = l.invalid; l.err != nil {
			return
		}
		if l.set == nil || l.batch < 1 {
			l.err = errNoLoader()
			return
		}
		l.err = l.read(yield)
	}
}

// read is one loop.
func (l *Loader) read(yield func(x, y *tensor.Tensor) bool) error {
	n := l.set.Len()
	if n < 0 {
		return argumentErr("Len of the data set returned %d", n)
	}
	order, err := l.order(n)
	if err != nil {
		return err
	}
	for at := 0; at < n; {
		size := min(l.batch, n-at)
		if size < l.batch && l.dropLast {
			break
		}
		index := order
		if order != nil {
			index = order[at : at+size]
		} else {
			index = l.numbers(at, size)
		}
		if more, err := l.pass(index, yield); err != nil || !more {
			return err
		}
		at += size
	}
	return nil
}

// pass makes one batch, lends it to the loop, and releases it, also if the loop panics.
func (l *Loader) pass(index []int64, yield func(x, y *tensor.Tensor) bool) (bool, error) {
	x, y, err := l.set.Batch(l.exec, index)
	defer x.Release()
	defer y.Release()
	if err == nil {
		err = l.check("inputs", x)
	}
	if err == nil && y != nil {
		err = l.check("targets", y)
	}
	if err != nil {
		return false, err
	}
	return yield(x, y), nil
}

// check refuses what a data set must not return.
func (l *Loader) check(what string, t *tensor.Tensor) error {
	switch {
	case t.Released():
		return argumentErr("Batch returned %s that are nil or were released", what)
	case t.Device().ID() != l.exec.Device().ID():
		return &tensor.DeviceError{Op: "Batch", Devices: []device.ID{t.Device().ID(), l.exec.Device().ID()},
			Detail: "the " + what + " must be on the loader's device"}
	}
	return nil
}

// order is the numbers of the n examples as they will be read, nil for their own order.
func (l *Loader) order(n int) ([]int64, error) {
	if l.gen == nil {
		return nil, nil
	}
	return tensor.RandPerm(l.gen, n)
}

// numbers are the numbers of size examples from one on. They are valid until the next call.
func (l *Loader) numbers(from, size int) []int64 {
	l.buffer = l.buffer[:0]
	for i := range size {
		l.buffer = append(l.buffer, int64(from+i))
	}
	return l.buffer
}
