package cuda

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// captureMark is a place in the order of a capture: for each part, by its index, the position on that stream (see inflight) up
// to which its work comes before. It is a vector clock. Operations on one stream are in order; between streams only events
// make an order, and they carry a mark from the stream that records them to those that wait.
//
// What libraries enqueue on a stream under its Handle counts as far as Note was called.
type captureMark struct {
	capture *capture
	at      []uint64 // as long as parts was then: of streams that joined later, nothing comes before
}

// captureClock is what a capture knows of one of its parts.
type captureClock struct {
	base uint64   // the stream's position when it joined: what is up to here is not in the capture, and before everything
	seen []uint64 // by part: the highest position that an event brought here, 0 for none
}

// join makes s part of the capture, if it is not yet, and places what follows on it behind m; nil is nothing.
func (c *capture) join(s *Stream, m *captureMark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // between the driver's answer and this call: the event was of a capture that is over
		return
	}
	i := slices.Index(c.parts, s)
	if i < 0 {
		i = len(c.parts)
		c.parts = append(c.parts, s)
		c.clocks = append(c.clocks, captureClock{base: s.work.position()})
		s.capture.Store(c)
		s.device.captures.Add(1)
	}
	if m == nil {
		return
	}
	own := &c.clocks[i]
	if more := len(m.at) - len(own.seen); more > 0 {
		own.seen = append(own.seen, make([]uint64, more)...)
	}
	for k, at := range m.at {
		own.seen[k] = max(own.seen[k], at)
	}
}

// before is the position of part k up to which its work comes before what follows on part i, another one. Caller holds c.mu.
func (c *capture) before(i, k int) uint64 {
	if seen := c.clocks[i].seen; k < len(seen) {
		return max(seen[k], c.clocks[k].base)
	}
	return c.clocks[k].base
}

// mark is the place after what s has done up to a position, or nil if s is no part.
func (c *capture) mark(s *Stream, position uint64) *captureMark {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.parts, s)
	if i < 0 || c.ended {
		return nil
	}
	m := &captureMark{capture: c, at: make([]uint64, len(c.parts))}
	for k := range m.at {
		m.at[k] = c.before(i, k)
	}
	m.at[i] = position
	return m
}

// passed reports whether what follows on s comes after the place of m.
func (c *capture) passed(s *Stream, m *captureMark) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.parts, s)
	if i < 0 || c.ended {
		return false
	}
	for k, at := range m.at {
		if k != i && c.before(i, k) < at {
			return false
		}
	}
	return true
}

// markAt is the stream's place in its capture after a position, or nil if it is part of none.
func (s *Stream) markAt(position uint64) *captureMark {
	if c := s.capture.Load(); c != nil {
		return c.mark(s, position)
	}
	return nil
}

// CaptureMark marks what the next operation captured on the stream comes after; nil if the stream is part of no capture.
func (s *Stream) CaptureMark() device.CaptureMark {
	if m := s.markAt(s.work.position()); m != nil {
		return m
	}
	return nil
}

// CapturePassed reports whether the next operation captured on the stream comes after everything that m marks.
func (s *Stream) CapturePassed(m device.CaptureMark) bool {
	own, ok := m.(*captureMark)
	c := s.capture.Load()
	return ok && own != nil && c != nil && own.capture == c && c.passed(s, own)
}
