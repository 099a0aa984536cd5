package plan

import (
	"context"
	"time"
)

// Reasons for which Place ended: Placement.Stopped.
const (
	AtTarget  = "target"    // the size is at most the target times the bound
	AtOptimum = "optimum"   // above the target, but proved to be the smallest there is
	NoEffort  = "effort"    // the effort was spent
	NoTime    = "time"      // the budget of time was
	Cancelled = "cancelled" // the context ended
	NoIdea    = "no idea"   // all that is tried with so many buffers was tried
)

// meter counts effort. A unit is a buffer placed by a heuristic, or a node of the exact search: mostly some microseconds.
type meter struct {
	ctx      context.Context
	deadline time.Time // zero: none
	left     int
	used     int
	next     int // value of used at which to look at the clock and the context again
	stopped  string
}

const lookEvery = 256 // units

// spend takes units of effort and reports whether to go on.
func (m *meter) spend(units int) bool {
	m.used += units
	m.left -= units
	if m.stopped != "" {
		return false
	}
	if m.left < 0 {
		m.stopped = NoEffort
		return false
	}
	if m.used >= m.next {
		m.next = m.used + lookEvery
		switch {
		case m.ctx.Err() != nil:
			m.stopped = Cancelled
		case !m.deadline.IsZero() && time.Now().After(m.deadline):
			m.stopped = NoTime
		}
	}
	return m.stopped == ""
}

// must takes units of work that there is no answer without, and reports whether the context allows to go on.
func (m *meter) must(units int) bool {
	m.used += units
	m.left -= units
	if m.used >= m.next {
		m.next = m.used + lookEvery
		if m.ctx.Err() != nil {
			m.stopped = Cancelled
		}
	}
	return m.stopped != Cancelled
}
