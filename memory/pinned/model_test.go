package pinned

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// pinnedModel is the specification of Allocator, written for clarity: one list of events that is walked from the front, no locks,
// no objects to use again. It predicts which block every Alloc returns, every statistic, and which call meets an ordered fault.
type pinnedModel struct {
	config  memory.Config
	blocks  []*modelBlock // that there are
	cached  [64][]*modelBlock
	queue   []modelWait // in the order of recording
	streams [modelStreams]struct{ put, done int }
	faults  map[sim.CallKind]error

	settled  bool // the reserve setting was read
	rest     uint64
	idle     int // events that are not in use
	captures []*modelCapture

	active, activeBytes, peak, peakBytes int64
	pins, unpins, freeErrors             int64
}

const modelStreams = 3

type modelState int

const (
	modelHeld modelState = iota
	modelPending
	modelCached
)

type modelBlock struct {
	size    uint64
	reserve bool
	state   modelState
	users   []int
	waits   int
	handle  Block
	mark    byte
}

type modelWait struct {
	block  *modelBlock
	stream int
	at     int // position on the stream; 0 is all of it, because there was no event
}

type modelCapture struct {
	stream int
	ended  bool
	blocks []*modelBlock
}

// fault takes the fault ordered for a kind of call.
func (m *pinnedModel) fault(k sim.CallKind) error {
	err := m.faults[k]
	delete(m.faults, k)
	return err
}

func (m *pinnedModel) size(bytes uint64) uint64 {
	for _, limit := range []uint64{m.config.PinnedMaxRoundThresholdBytes, m.config.PinnedMaxCachedBytes} {
		if limit != 0 && bytes > limit {
			return bytes
		}
	}
	size := uint64(1)
	for size < bytes {
		size *= 2
	}
	return size
}

func modelBucket(size uint64) (k int) {
	for uint64(1)<<k < size {
		k++
	}
	return k
}

// alloc returns the block that is to be handed out; fresh says that it is new memory.
func (m *pinnedModel) alloc(bytes uint64) (b *modelBlock, fresh bool, err error) {
	m.poll()
	size := m.size(bytes)
	list := &m.cached[modelBucket(size)]
	for i, b := range slices.Backward(*list) {
		if b.size >= bytes {
			*list = slices.Delete(*list, i, i+1)
			m.use(b)
			return b, false, nil
		}
	}
	b, err = m.obtain(size)
	if errors.Is(err, device.ErrOutOfMemory) {
		m.waitAll()
		m.poll()
		_ = m.releaseCached()
		b, err = m.obtain(size)
	}
	if err != nil {
		return nil, false, err
	}
	m.blocks = append(m.blocks, b)
	m.use(b)
	return b, true, nil
}

func (m *pinnedModel) use(b *modelBlock) {
	b.state = modelHeld
	m.active++
	m.activeBytes += int64(b.size)
	m.peak, m.peakBytes = max(m.peak, m.active), max(m.peakBytes, m.activeBytes)
}

func (m *pinnedModel) obtain(size uint64) (*modelBlock, error) {
	if !m.settled {
		if r := m.config.PinnedReserveSegmentBytes; r != 0 {
			if err := m.pin(); err != nil {
				return nil, err
			}
			m.rest = r
		}
		m.settled = true
	}
	if size <= m.rest {
		m.rest -= (size + 4095) / 4096 * 4096
		return &modelBlock{size: size, reserve: true}, nil
	}
	return &modelBlock{size: size}, m.pin()
}

func (m *pinnedModel) pin() error {
	if err := m.fault(sim.CallAllocPinned); err != nil {
		return err
	}
	m.pins++
	return nil
}

// waitAll finishes each stream up to the last event recorded on it.
func (m *pinnedModel) waitAll() {
	for _, w := range m.queue {
		s := &m.streams[w.stream]
		if s.done = max(s.done, w.at); w.at == 0 && m.lastOn(w.stream) == w {
			s.done = s.put
		}
	}
}

func (m *pinnedModel) lastOn(stream int) (last modelWait) {
	for _, w := range m.queue {
		if w.stream == stream {
			last = w
		}
	}
	return last
}

// poll walks the events, the oldest first; one that has not completed hides those behind it on its stream.
func (m *pinnedModel) poll() {
	var stuck [modelStreams]bool
	var left []modelWait
	var back []*modelBlock
	for _, w := range m.queue {
		if stuck[w.stream] || !m.isDone(w) {
			stuck[w.stream] = true
			left = append(left, w)
			continue
		}
		if w.at != 0 {
			m.idle++
		}
		if m.arrive(w.block) {
			back = append(back, w.block)
		}
	}
	m.queue = left
	slices.Reverse(back)
	_ = m.release(back)
}

func (m *pinnedModel) isDone(w modelWait) bool {
	s := m.streams[w.stream]
	if w.at == 0 {
		return s.done == s.put
	}
	return m.fault(sim.CallEventQuery) == nil && s.done >= w.at
}

// arrive is one less to wait for. It reports whether the block is done and too large to be kept.
func (m *pinnedModel) arrive(b *modelBlock) bool {
	if b.waits--; b.waits > 0 {
		return false
	}
	return m.complete(b)
}

func (m *pinnedModel) complete(b *modelBlock) (tooLarge bool) {
	b.users = nil
	b.state = modelCached
	m.active--
	m.activeBytes -= int64(b.size)
	if limit := m.config.PinnedMaxCachedBytes; limit != 0 && b.size > limit && !b.reserve {
		return true
	}
	m.cache(b)
	return false
}

func (m *pinnedModel) cache(b *modelBlock) {
	k := modelBucket(b.size)
	m.cached[k] = append(m.cached[k], b)
}

// release gives blocks back to the driver. It returns the last error.
func (m *pinnedModel) release(blocks []*modelBlock) (last error) {
	for _, b := range blocks {
		if err := m.fault(sim.CallFreePinned); err != nil {
			last = err
			m.freeErrors++
			m.cache(b)
			continue
		}
		m.unpins++
		m.blocks = slices.DeleteFunc(m.blocks, func(c *modelBlock) bool { return c == b })
	}
	return last
}

func (m *pinnedModel) releaseCached() (last error) {
	for k := range m.cached {
		var kept, back []*modelBlock
		for _, b := range m.cached[k] {
			if b.reserve {
				kept = append(kept, b)
			} else {
				back = append(back, b)
			}
		}
		m.cached[k] = kept
		if err := m.release(back); err != nil {
			last = err
		}
	}
	return last
}

func (m *pinnedModel) free(b *modelBlock) error {
	b.waits = len(b.users) + m.holders(b)
	if b.waits == 0 {
		if m.complete(b) {
			return m.release([]*modelBlock{b})
		}
		return nil
	}
	b.state = modelPending
	for _, s := range b.users {
		m.queue = append(m.queue, modelWait{b, s, m.recordEvent(s)})
	}
	return nil
}

// recordEvent returns the event's position on the stream, or 0 if a fault leaves the block without an event.
func (m *pinnedModel) recordEvent(stream int) int {
	if m.idle == 0 && m.fault(sim.CallEventCreate) != nil {
		return 0
	}
	if m.idle == 0 {
		m.idle++
	}
	if m.fault(sim.CallEventRecord) != nil {
		return 0
	}
	m.idle--
	s := &m.streams[stream]
	s.put++
	return s.put
}

func (m *pinnedModel) record(b *modelBlock, stream int) {
	for _, c := range slices.Backward(m.captures) {
		if c.stream == stream && !c.ended {
			if !slices.Contains(c.blocks, b) {
				c.blocks = append(c.blocks, b)
			}
			return
		}
	}
	if !slices.Contains(b.users, stream) {
		b.users = append(b.users, stream)
	}
}

func (m *pinnedModel) holders(b *modelBlock) (n int) {
	for _, c := range m.captures {
		if slices.Contains(c.blocks, b) {
			n++
		}
	}
	return n
}

// letGo releases a capture.
func (m *pinnedModel) letGo(c *modelCapture) error {
	m.captures = slices.DeleteFunc(m.captures, func(d *modelCapture) bool { return d == c })
	var back []*modelBlock
	for _, b := range c.blocks {
		if b.state == modelPending && m.arrive(b) {
			back = append(back, b)
		}
	}
	slices.Reverse(back)
	return m.release(back)
}
