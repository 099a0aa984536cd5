package cuda

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/plural"
)

// WriteTotals writes tables: the streams, and the operations, those that took the longest first; by name, and then by name and shape.
// share is the part of the time of all operations of the device. Errors are those of w.
func (p *Profile) WriteTotals(w io.Writer) error {
	if err := p.writable("Profile.WriteTotals", w); err != nil {
		return err
	}
	out := bufio.NewWriter(w) // keeps the first error for Flush
	list := p.Totals()
	var all Total
	for i := range list {
		all.add(&list[i])
	}
	fmt.Fprintf(out, "%s, %s: %s, %s ms\n", p.device.id, p.device.properties.Name, plural.Of(all.Count, "operation"), milli(all.Time))
	p.writeStreams(out)
	p.writeRemarks(out)
	fmt.Fprint(out, "\nBy name\n")
	writeTable(out, names(list), all.Time)
	fmt.Fprint(out, "\nBy name and shape (kernels: <grid> x <block> + dynamic shared memory)\n")
	writeTable(out, shapes(list), all.Time)
	return out.Flush()
}

func (p *Profile) writeStreams(out io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []device.StreamID
	for id := range p.streams { // a map: without an order, files of equal runs would differ
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := p.streams[id]
		fmt.Fprintf(out, "stream %d: %s, busy %s ms of %s ms, %s\n",
			id, plural.Of(s.count, "operation"), milli(s.busy), milli(s.last-s.first), percent(s.busy, s.last-s.first))
	}
}

// writeRemarks says what is not in the tables, and how far to trust them.
func (p *Profile) writeRemarks(out io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(out, "Two events with nothing between them are %s µs apart, which is part of every time.\n", micro(p.empty))
	for _, remark := range []struct {
		n         int
		one, more string
	}{
		{p.captured, "operation was captured: it runs, and is timed, as part of a graph", "operations were captured: they run, and are timed, as part of a graph"},
		{p.lost, "operation has no time", "operations have no time"},
		{p.waits, "time the profile waited for the oldest operation, because too many were under way",
			"times the profile waited for the oldest operation, because too many were under way"},
		{p.unkept, "operation is in these totals and not in the trace, which is full", "operations are in these totals and not in the trace, which is full"},
	} {
		if remark.n > 0 {
			fmt.Fprintf(out, "%d %s.\n", remark.n, plural.End(remark.n, remark.one, remark.more))
		}
	}
	if p.failures > 0 {
		fmt.Fprintf(out, "%s of the driver failed, the first: %v.\n", plural.Of(p.failures, "call"), p.failure)
	}
}

// line is a line of a table: what is counted, with its shape and the work of all.
type line struct {
	Total
	shape string
	work  float64
}

// shapes are the lines of operations one by one.
func shapes(list []Total) []line {
	lines := make([]line, len(list))
	for i := range list {
		t := &list[i]
		lines[i] = line{*t, t.Shape(), t.Operation.work() * float64(t.Count)}
	}
	return lines
}

// names are the lines of operations of one name, whatever their shape.
func names(list []Total) []line {
	var lines []line
	count := map[Operation]int{} // of shapes
	for i := range list {
		t := &list[i]
		key := Operation{Kind: t.Kind, Name: t.Name, Kernel: t.Kernel}
		at := slices.IndexFunc(lines, func(l line) bool { return l.Operation == key })
		if at < 0 {
			at = len(lines)
			lines = append(lines, line{Total: Total{Operation: key}})
		}
		lines[at].add(t)
		lines[at].work += t.Operation.work() * float64(t.Count)
		count[key]++
	}
	for i := range lines {
		if n := count[lines[i].Operation]; n > 1 {
			lines[i].shape = fmt.Sprintf("%d shapes", n)
		} else {
			lines[i].shape = "1 shape"
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.Time, a.Time) })
	return lines
}

// writeTable writes lines.
func writeTable(out io.Writer, lines []line, all time.Duration) {
	name := len("name")
	for i := range lines {
		name = max(name, utf8.RuneCountInString(lines[i].label()))
	}
	row := func(values ...any) {
		format := fmt.Sprintf("%%7s %%9v %%11s %%11s %%11s %%11s %%15s  %%-7s  %%-%ds  %%s", name)
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf(format, values...), " "))
	}
	row("share", "count", "total ms", "mean µs", "min µs", "max µs", "rate", "kind", "name", "shape")
	for i := range lines {
		l := &lines[i]
		row(percent(l.Time, all), l.Count, milli(l.Time), micro(l.Mean()), micro(l.Min), micro(l.Max),
			l.Kind.rate(l.work, l.Time), l.Kind, l.label(), l.shape)
	}
}

func milli(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
func micro(d time.Duration) string { return fmt.Sprintf("%.2f", microseconds(d)) }

func percent(part, all time.Duration) string {
	if all <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}
