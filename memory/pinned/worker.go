package pinned

import (
	"sync"
	"sync/atomic"
	"time"
)

// pollInterval is how often the background goroutine asks outstanding events: PyTorch's interval.
const pollInterval = 100 * time.Microsecond

// worker is the background goroutine of PinnedUseBackgroundThreads: it looks at events so that Alloc need not. The first
// allocation that is not served from cache starts it, and Close ends it. While nothing is outstanding it rests.
type worker struct {
	running atomic.Bool

	mu    sync.Mutex
	wake  chan struct{} // holds one: an event was recorded. Never closed
	stop  chan struct{}
	done  chan struct{}
	ended bool
}

// start starts the goroutine unless it runs, or has ended.
func (w *worker) start(p *Allocator) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.running.Load() {
		return
	}
	w.wake, w.stop, w.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	w.running.Store(true)
	go w.run(p)
}

// rouse tells the goroutine that an event was recorded; before that it was counted as outstanding. Seen from a goroutine that
// is about to rest, one of the two happens: it sees the count, or there is something in wake.
func (w *worker) rouse() {
	if !w.running.Load() {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) run(p *Allocator) {
	defer close(w.done)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if p.events.outstanding.Load() == 0 {
			select { // a ticker that nobody listens to costs nothing
			case <-w.stop:
				return
			case <-w.wake:
			}
		}
		select {
		case <-w.stop:
			return
		case <-ticker.C:
			p.pollEvents()
		}
	}
}

// end ends the goroutine and waits for it. It cannot be started again.
func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.running.Swap(false) {
		close(w.stop)
		<-w.done
	}
}
