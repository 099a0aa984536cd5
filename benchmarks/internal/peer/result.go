package peer

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
)

// Samples are elements of the results of a call, by the result's name.
type Samples map[string][]float64

// Line is what a script writes of a call.
type Line struct {
	By      string // which of PyTorch's ways
	Seconds []float64
	Issued  float64
	Peak    *int64
	Samples map[string][]*float64
}

// Peer is what was measured of a call in PyTorch.
type Peer struct {
	Measured
	// Difference is how far our results are from PyTorch's at most, in parts of the largest; nil if they were not compared.
	Difference *float64 `json:"difference,omitempty"`
}

// Result is what was measured of a call on both sides.
type Result struct {
	Measured
	PyTorch   map[string]*Peer `json:"pytorch,omitempty"`          // by the name of the way
	Best      string           `json:"pytorch_best,omitempty"`     // its fastest way that computes the same
	OfPyTorch float64          `json:"time_by_pytorchs,omitempty"` // our time by that of the fastest; below 1 is faster

	Flops   float64 `json:"flops"` // of a call, by the formula
	samples Samples
}

// NewResult is a result that has our numbers. The samples are what PyTorch's results are compared with, if there are any.
func NewResult(m Measured, flops float64, s Samples) Result {
	return Result{Measured: m, Flops: flops, samples: s}
}

// Add puts what PyTorch measured beside our numbers. Ways that fair does not name are shown, but ours is not compared with their time.
func (r *Result) Add(l *Line, fair func(by string) bool) {
	if len(l.Seconds) == 0 {
		return
	}
	p := &Peer{Measured: newMeasured(r.Flops, l.Seconds, l.Issued, l.Peak)}
	if len(r.samples) > 0 && len(l.Samples) > 0 {
		apart := 0.0
		for name, ours := range r.samples {
			apart = max(apart, difference(ours, l.Samples[name]))
		}
		p.Difference = &apart
	}
	if r.PyTorch == nil {
		r.PyTorch = map[string]*Peer{}
	}
	r.PyTorch[l.By] = p
	if fair(l.By) && (r.Best == "" || p.Microseconds < r.PyTorch[r.Best].Microseconds) {
		r.Best, r.OfPyTorch = l.By, r.Microseconds/p.Microseconds
	}
}

// Head are the titles of Cells, for text/tabwriter; the ways have a column each.
func Head(ways []string) string {
	titles := []string{"us", "", "TFLOP/s", "host us", "peak"}
	for _, way := range ways {
		titles = append(titles, way+" us")
	}
	return strings.Join(append(titles, "best", "its peak", "difference", "time / PyTorch's", ""), "\t")
}

// Cells are the numbers of a result.
func (r *Result) Cells(ways []string) string {
	cells := []string{fmt.Sprintf("%.1f", r.Microseconds), fmt.Sprintf("(%.1f-%.1f)", r.Fastest, r.Slowest), fmt.Sprintf("%.2f", r.TFLOPS),
		r.hostCell(), Bytes(r.Peak)}
	for _, way := range ways {
		cell := "-"
		if p := r.PyTorch[way]; p != nil {
			cell = fmt.Sprintf("%.1f", p.Microseconds)
		}
		cells = append(cells, cell)
	}
	best := r.PyTorch[r.Best]
	if best == nil {
		return strings.Join(append(cells, "-", "-", "-", "-", ""), "\t")
	}
	apart := "-"
	if best.Difference != nil {
		apart = fmt.Sprintf("%.1e", *best.Difference)
	}
	return strings.Join(append(cells, r.Best, Bytes(best.Peak), apart, fmt.Sprintf("%.2f", r.OfPyTorch), ""), "\t")
}

func (m *Measured) hostCell() string {
	switch {
	case m.Host == 0:
		return "-"
	case m.HostBound:
		return fmt.Sprintf("%.1f bound", m.Host)
	}
	return fmt.Sprintf("%.1f", m.Host)
}

// Bytes is a number of bytes for a table, or a dash for none.
func Bytes(n *int64) string {
	if n == nil {
		return "-"
	}
	return device.FormatBytes(uint64(max(0, *n)))
}
