package memory

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/device"
)

const summaryWidth = 75 // columns between the bars

// SummaryOption changes how a summary is written.
type SummaryOption func(*summaryOptions)

type summaryOptions struct{ torch bool }

// AsPyTorch writes the heading that torch.cuda.memory_summary writes, so that a CUDA device's summary equals PyTorch's byte for byte:
// for programs that read such tables, and to compare. Other devices are named by kind.
func AsPyTorch() SummaryOption { return func(o *summaryOptions) { o.torch = true } }

// Summary writes the statistics as the table of torch.cuda.memory_summary, under a heading that says which device it is of.
// abbreviated leaves the rows by pool out; so does a table that is not AsPyTorch of an allocator that keeps no statistics by pool.
func (s Stats) Summary(id device.ID, abbreviated bool, opts ...SummaryOption) string {
	var o summaryOptions
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	var t strings.Builder
	line := func(text string) { t.WriteString("|" + text + "|\n") }
	rule := func(c string) { line(strings.Repeat(c, summaryWidth)) }

	rule("=")
	line(o.heading(id))
	rule("-")
	line(fmt.Sprintf("  %9s CUDA OOMs: %-12d | %6s cudaMalloc retries: %-8d  ", "", s.NumOOMs, "", s.NumAllocRetries))
	rule("=")
	line("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ")
	for _, m := range summaryMetrics {
		rule("-")
		arr := m.array(&s)
		line(summaryRow(m.name, arr.All, arr.All, m.cell))
		if !abbreviated && (o.torch || s.Allocation.Divided()) {
			line(summaryRow("      from large pool", arr.LargePool, arr.All, m.cell))
			line(summaryRow("      from small pool", arr.SmallPool, arr.All, m.cell))
		}
	}
	for _, m := range []struct {
		name string
		stat Stat
	}{{"Oversize allocations", s.OversizeAllocations}, {"Oversize GPU segments", s.OversizeSegments}} {
		rule("-")
		line(summaryRow(m.name, m.stat, m.stat, countCell))
	}
	rule("=")
	return t.String()
}

// heading is the line that says whose memory it is.
func (o summaryOptions) heading(id device.ID) string {
	if o.torch {
		return fmt.Sprintf("%-17s%-57s ", "", torchTitle(id))
	}
	title := "Memory of " + id.String()
	switch id.Kind {
	case device.Host:
		title += " (this computer's processor)"
	case device.Sim:
		title += " (a simulated device)"
	case device.CUDA:
		title += " (an NVIDIA GPU)"
	}
	before := (summaryWidth - len(title)) / 2
	return fmt.Sprintf("%*s%-*s", before, "", summaryWidth-before, title)
}

// torchTitle is the middle of PyTorch's line.
func torchTitle(id device.ID) string {
	name := "CUDA"
	if id.Kind != device.CUDA {
		name = strings.ToUpper(id.Kind.String())
	}
	return fmt.Sprintf(" PyTorch %s memory summary, device ID %d", name, id.Index)
}

type summaryMetric struct {
	name  string
	array func(*Stats) *StatArray
	cell  func(value, reference int64) string
}

var summaryMetrics = []summaryMetric{
	{"Allocated memory", func(s *Stats) *StatArray { return &s.AllocatedBytes }, sizeCell},
	{"Active memory", func(s *Stats) *StatArray { return &s.ActiveBytes }, sizeCell},
	{"Requested memory", func(s *Stats) *StatArray { return &s.RequestedBytes }, sizeCell},
	{"GPU reserved memory", func(s *Stats) *StatArray { return &s.ReservedBytes }, sizeCell},
	{"Non-releasable memory", func(s *Stats) *StatArray { return &s.InactiveSplitBytes }, sizeCell},
	{"Allocations", func(s *Stats) *StatArray { return &s.Allocation }, countCell},
	{"Active allocs", func(s *Stats) *StatArray { return &s.Active }, countCell},
	{"GPU reserved segments", func(s *Stats) *StatArray { return &s.Segment }, countCell},
	{"Non-releasable allocs", func(s *Stats) *StatArray { return &s.InactiveSplit }, countCell},
}

// summaryRow formats one row; the units are those of the reference row.
func summaryRow(name string, s, ref Stat, cell func(value, reference int64) string) string {
	return fmt.Sprintf(" %-21s | %s | %s | %s | %s ", name, cell(s.Current, ref.Current), cell(s.Peak, ref.Peak),
		cell(s.Allocated, ref.Allocated), cell(s.Freed, ref.Freed))
}

// sizeCell prints bytes in 10 columns, in the unit in which the reference stays below 768 of the next smaller one.
func sizeCell(value, reference int64) string {
	units := []string{"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}
	u, ref := 0, float64(reference)
	for ref >= 768*1024 && u < len(units)-1 {
		value, ref, u = value/1024, ref/1024, u+1
	}
	return fmt.Sprintf("%6d %s", value, units[u])
}

// countCell prints a number in 10 columns, in thousands from 750,000 on.
func countCell(value, reference int64) string {
	units := []string{" ", "K", "M"}
	u, ref := 0, float64(reference)
	for ref >= 750*1000 && u < len(units)-1 {
		value, ref, u = value/1000, ref/1000, u+1
	}
	return fmt.Sprintf("%7d %s ", value, units[u])
}
