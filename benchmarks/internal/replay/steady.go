package replay

import (
	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

// steadyMark is the mark, counted from 1, from which on a program is taken to be in its steady state: in the recorded programs the first comes
// before the model is built, the second before the first step, and the third before the second.
const steadyMark = 3

// Steady is what a replay found from a mark on.
type Steady struct {
	FromMark           int     `json:"from_mark"` // counted from 1
	PeakActive         uint64  `json:"peak_active"`
	PeakReserved       uint64  `json:"peak_reserved"`
	Deviations         uint64  `json:"deviations"` // requests that did not go by the plan; 0 without one
	DriverCallsPerStep float64 `json:"driver_calls_per_step"`
	LateCallsPerStep   float64 `json:"late_driver_calls_per_step"` // of the second half of these steps, when what grows at the start has grown
	NsPerPair          float64 `json:"ns_per_pair"`                // of the median step of the second, warm pass, from the mark on
}

// steadyWatch is a Steady on its way.
type steadyWatch struct {
	Steady
	deviations uint64   // before the mark
	calls      []uint64 // before each mark from that one on
}

// mark takes a mark of the trace.
func (p *player) mark(e trace.Event) error {
	p.result.Marks = append(p.result.Marks, p.sample(e.Label))
	if len(p.result.Marks) == steadyMark {
		p.steady = &steadyWatch{deviations: p.plan.Stats().Deviations()}
		p.steady.look(p.alloc)
	}
	if p.steady != nil {
		p.steady.calls = append(p.steady.calls, p.machine.calls().memory())
	}
	if p.plan == nil {
		return nil
	}
	return p.plan.Step()
}

// look takes the state after an event.
func (w *steadyWatch) look(a memory.Allocator) {
	if w == nil {
		return
	}
	s := a.Stats()
	w.PeakActive = max(w.PeakActive, uint64(s.ActiveBytes.All.Current))
	w.PeakReserved = max(w.PeakReserved, uint64(s.ReservedBytes.All.Current))
}

// result is what was found, nil if the trace ended before.
func (w *steadyWatch) result(p *player) *Steady {
	if w == nil {
		return nil
	}
	s := w.Steady
	s.FromMark = steadyMark
	s.Deviations = p.plan.Stats().Deviations() - w.deviations
	since := func(mark int) float64 {
		return float64(p.machine.calls().memory()-w.calls[mark]) / float64(len(w.calls)-mark)
	}
	s.DriverCallsPerStep, s.LateCallsPerStep = since(0), since(len(w.calls)/2)
	return &s
}

// memory is how many of the calls took memory or gave it back.
func (d Driver) memory() uint64 {
	return d.Malloc + d.Free + d.AddressReserve + d.PageCreate + d.PageRelease + d.PageMap + d.PageUnmap
}
