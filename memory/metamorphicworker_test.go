package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// workerStreams is how many streams a worker has open at once.
const workerStreams = 2

// worker is one goroutine of a program.
type worker struct {
	*program
	rng     *rand.Rand
	streams []device.Executor
	live    []*stressBlock
	own     *Pool           // for checkpoints: nobody else's
	noted   *PoolCheckpoint // of own
	routed  *Pool           // where the first stream's requests go
	value   byte
}

// stressBlock is a block in use.
type stressBlock struct {
	block  Block
	stream device.Executor // whose work uses it next: its own while that is open
	value  byte            // at both ends
	own    bool            // of the worker's pool
}

func newWorker(p *program, rng *rand.Rand) *worker {
	w := &worker{program: p, rng: rng}
	for range workerStreams {
		w.streams = append(w.streams, w.newStream())
	}
	if p.caching != nil {
		w.own = p.caching.NewPool()
	}
	return w
}

func (w *worker) newStream() device.Executor {
	s, err := w.place.device().NewStream()
	if err != nil {
		w.must(err)
		s = w.place.device().DefaultStream()
	}
	return s.(device.Executor)
}

func (w *worker) run() {
	for range programSteps {
		w.try(w.step)
	}
	w.leave()
}

// step does one operation.
func (w *worker) step() {
	n := w.rng.IntN(100)
	switch {
	case n < 40 && len(w.live) < 8:
		w.alloc(w.source(), false)
	case n < 62 && len(w.live) > 0:
		w.free(w.pick())
	case n < 72 && len(w.live) > 0:
		w.readElsewhere(w.live[w.rng.IntN(len(w.live))])
	case n < 77:
		w.place.complete(w.streams[w.rng.IntN(workerStreams)])
	case n < 80:
		w.reopen(w.rng.IntN(workerStreams))
	case n < 82:
		w.tolerate(w.allocator.EmptyCache())
	case n < 84:
		w.place.setFaults([]int{0, 0, 10, 30}[w.rng.IntN(4)])
	case w.caching != nil:
		w.stepCaching(w.caching)
	}
}

// stepCaching does what only the caching allocator has.
func (w *worker) stepCaching(a *Caching) {
	switch w.rng.IntN(12) {
	case 0, 1:
		w.alloc(w.own, true)
	case 2:
		c, err := w.own.Checkpoint()
		w.tolerate(err)
		if err == nil {
			w.noted = c
		}
	case 3, 4:
		w.restore()
	case 5:
		w.route(a)
	case 6:
		c, err := ParseConfig(w.settings[w.rng.IntN(len(w.settings))])
		w.must(err)
		w.tolerate(a.SetConfig(c))
	case 7:
		a.SetMemoryLimit(uint64(w.rng.IntN(3)) * 40 * mib)
	case 8:
		w.tolerate(a.Reserve(uint64(w.rng.IntN(30))*mib, w.streams[0]))
	case 9:
		w.tolerate(w.pools[w.rng.IntN(len(w.pools))].EmptyCache())
	case 10:
		w.look(a)
	case 11:
		w.again(a)
	}
}

// source is where the next block comes from.
func (w *worker) source() Allocator {
	if len(w.pools) > 0 && w.rng.IntN(4) == 0 {
		return w.pools[w.rng.IntN(len(w.pools))]
	}
	return w.allocator
}

func (w *worker) size() uint64 {
	return (w.rng.Uint64N(16) + 1) << (5 + w.rng.IntN(16))
}

// alloc takes a block and has its stream write to both ends.
func (w *worker) alloc(from Allocator, own bool) {
	s := w.streams[w.rng.IntN(workerStreams)]
	b, err := from.Alloc(w.size(), s)
	if err != nil {
		w.tolerate(err)
		return
	}
	w.took(b, s, own)
}

func (w *worker) took(b Block, s device.Executor, own bool) {
	w.must(w.held.add(b))
	w.value++
	h := &stressBlock{block: b, stream: s, value: w.value, own: own}
	w.live = append(w.live, h)
	w.must(s.Submit("write", h.write))
}

// write and read run on the host only: the simulated device has no bytes.
func (h *stressBlock) write() error { return (&hostBlock{block: h.block, value: h.value}).write() }
func (h *stressBlock) read() error  { return (&hostBlock{block: h.block, value: h.value}).read() }

// pick takes a block off the list.
func (w *worker) pick() *stressBlock {
	i := w.rng.IntN(len(w.live))
	h := w.live[i]
	w.live = slices.Delete(w.live, i, i+1)
	return h
}

// free reads a block for the last time and frees it, by any of the allocators that take it.
func (w *worker) free(h *stressBlock) {
	w.must(h.stream.Submit("last read", h.read))
	w.must(w.held.remove(h.block))
	if w.rng.IntN(8) == 0 {
		w.allocator.FreeLater(h.block)
		return
	}
	err := w.allocator.Free(h.block)
	for err != nil && !errors.Is(err, ErrDoubleFree) { // a driver that refuses is asked again; the error may be of a free that was done
		w.tolerate(err)
		if w.broken() {
			return
		}
		err = w.allocator.Free(h.block)
	}
}

func (w *worker) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// readElsewhere lets another stream read a block behind the work of its own.
func (w *worker) readElsewhere(h *stressBlock) {
	s := w.streams[w.rng.IntN(workerStreams)]
	w.must(w.allocator.RecordStream(h.block, s))
	w.follow(h.stream, s)
	w.must(s.Submit("read", h.read))
}

// follow orders what comes on s behind what is on first.
func (w *worker) follow(first, s device.Executor) {
	e, err := w.place.device().NewEvent()
	if err != nil { // an injected fault: wait by hand
		w.tolerate(err)
		w.settle(first)
		return
	}
	if err := first.Record(e); err != nil {
		w.tolerate(err)
		w.settle(first)
	}
	if err := s.Wait(e); err != nil {
		w.tolerate(err)
		w.settle(first)
	}
	w.tolerate(e.Close())
}

// settle waits for a stream, whatever fails.
func (w *worker) settle(s device.Stream) {
	for err := errors.New("not yet"); err != nil && !w.broken(); {
		if err = s.Synchronize(context.Background()); err != nil {
			w.tolerate(err)
		}
	}
}

// reopen closes a stream, and opens another. The blocks of the closed one stay in use, on the new one.
func (w *worker) reopen(i int) {
	old, fresh := w.streams[i], w.newStream()
	for _, h := range w.live {
		if h.stream == old {
			w.must(w.allocator.RecordStream(h.block, fresh))
			h.stream = fresh
		}
	}
	w.streams[i] = fresh
	if w.routed != nil && i == 0 { // the route's filter knows the old one
		w.endRoute(w.caching)
	}
	w.must(old.Close())
}

// restore puts the layout of the worker's pool back. Its blocks are replaced by those that live then.
func (w *worker) restore() {
	if w.noted == nil {
		return
	}
	var mine, others []*stressBlock
	for _, h := range w.live {
		if h.own {
			mine = append(mine, h)
			w.settle(h.stream) // nothing may write to what others get
			w.must(w.held.remove(h.block))
		} else {
			others = append(others, h)
		}
	}
	r, err := w.own.Restore(w.noted)
	if err != nil {
		w.tolerate(err)
		for _, h := range mine {
			w.must(w.held.add(h.block))
		}
		return
	}
	w.live = others
	for _, s := range w.streams { // what was freed on another stream may still be read there
		w.settle(s)
	}
	s := w.streams[0]
	for _, b := range r.Live {
		w.must(w.allocator.RecordStream(b, s))
		w.took(b, s, true)
	}
}

// route begins or ends a route of the worker's first stream to a pool, with a filter that panics now and then.
func (w *worker) route(a *Caching) {
	if w.routed != nil {
		w.endRoute(a)
		return
	}
	p, id := a.NewPool(), w.streams[0].ID()
	w.must(a.BeginRoute(p, func(s device.Stream) bool {
		if s.ID() == id {
			w.called(false)
		}
		return s.ID() == id
	}))
	w.must(p.Release())
	w.routed = p
}

func (w *worker) endRoute(a *Caching) {
	p := w.routed
	w.routed = nil
	w.must(a.EndRoute(p))
}

// look takes what locks everything.
func (w *worker) look(a *Caching) {
	switch w.rng.IntN(4) {
	case 0:
		w.must(a.check())
	case 1:
		a.Snapshot()
	case 2:
		a.ResetPeakStats()
	case 3:
		s := a.Stats()
		if s.AllocatedBytes.All.Current > s.ActiveBytes.All.Current || s.ActiveBytes.All.Current > s.ReservedBytes.All.Current {
			w.must(errors.New("allocated > active > reserved"))
		}
	}
}

// again frees a block and asks for its place.
func (w *worker) again(a *Caching) {
	if len(w.live) == 0 {
		return
	}
	h := w.pick()
	s := w.streams[0]
	w.free(h)
	b, err := a.AllocAt(h.block.Size(), s, h.block.Ptr())
	if err != nil {
		w.tolerate(err)
		return
	}
	w.took(b, s, false)
}

// leave frees everything.
func (w *worker) leave() {
	for len(w.live) > 0 && !w.broken() {
		w.free(w.pick())
	}
	for _, s := range w.streams {
		w.settle(s)
		w.must(s.Close())
	}
	if w.routed != nil {
		w.endRoute(w.caching)
	}
	if w.own != nil {
		w.tolerate(w.own.Close())
	}
}
