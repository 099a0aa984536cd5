package cuda

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device/internal/failures"
)

// remembered is how many operations of a stream an error can name.
const remembered = 16

// inflight has the names of the operations on a stream of which nobody knows yet whether they succeeded. The driver reports
// that some work failed and not which, so these are the suspects.
//
// Positions count operations; the first has position 1. An operation is noted before it is enqueued on the stream, so that a wait
// by another goroutine cannot miss it.
type inflight struct {
	mu    sync.Mutex
	put   uint64 // position of the last operation
	good  uint64 // all up to here are known to have succeeded
	names [remembered]string

	failed failures.List // of work that others have enqueued here; nobody was told yet
}

// note remembers an operation.
func (w *inflight) note(operation string) {
	w.mu.Lock()
	w.names[w.put%remembered] = operation
	w.put++
	w.mu.Unlock()
}

// position is that of the last operation noted.
func (w *inflight) position() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put
}

// settle says that everything up to a position succeeded.
func (w *inflight) settle(position uint64) {
	w.mu.Lock()
	w.good = max(w.good, position)
	w.mu.Unlock()
}

// unknown lists the operations that may have failed, oldest first. Repetitions count as one.
func (w *inflight) unknown() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.good // positions good+1..put, of which the ring has the last
	if w.put > remembered && first < w.put-remembered {
		names = append(names, fmt.Sprintf("%d earlier ones", w.put-remembered-first))
		first = w.put - remembered
	}
	for i := first; i < w.put; i++ {
		if name := w.names[i%remembered]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fail keeps an error for the next wait, whatever that waits for: it may have begun before.
func (w *inflight) fail(err error) {
	w.mu.Lock()
	w.failed.Add(0, err)
	w.mu.Unlock()
}

// take returns the first error that nobody was told yet.
func (w *inflight) take() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed.Take(0)
}

// suspects lists the operations on all streams that may have failed. Streams have no order among them, so neither has the list.
func (d *Device) suspects() (names []string) {
	for _, s := range d.streams() {
		for _, name := range s.work.unknown() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
