package memreport

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/pkg/errors"
)

// shown is how many modules and operations String has.
const shown = 20

// String is the table with the 20 largest modules and operations.
func (r *Report) String() string {
	if r == nil {
		return "no memory report"
	}
	var b strings.Builder
	r.table(&b, shown)
	return b.String()
}

// WriteTable writes the table, with at most that many modules and operations, the largest; 0 is all. What is left out is summed up in a line.
func (r *Report) WriteTable(w io.Writer, most int) error {
	if err := r.writable("WriteTable", w); err != nil {
		return err
	}
	var b strings.Builder
	r.table(&b, most)
	_, err := io.WriteString(w, b.String())
	return errors.Wrap(err, "memreport: writing a table")
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	if err := r.writable("WriteJSON", w); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return errors.Wrap(err, "memreport: writing JSON")
}

// writable refuses a report that there is not, and a writer.
func (r *Report) writable(call string, w io.Writer) error {
	if r == nil {
		return &memory.ArgumentError{Call: "memreport." + call, Detail: "the report is nil"}
	}
	if why := isnil.Why("writer", w); why != "" {
		return &memory.ArgumentError{Call: "memreport." + call, Detail: why}
	}
	return nil
}

func (r *Report) table(w io.Writer, most int) {
	fmt.Fprintf(w, "%s: %s allocated at the peak, %s before, %s after\nThe peak was %s; %s were reserved then.\n\n", plain(r.Device), device.FormatBytes(r.Peak),
		device.FormatBytes(r.Start), device.FormatBytes(r.End), plain(r.PeakAt.String()), device.FormatBytes(r.Reserved))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "at the peak\tbytes\t\t%\t")
	for i, n := range r.AtPeak.list() {
		fmt.Fprintf(t, "%s\t%d\t%s\t%.1f\t\n", categoryNames[i], n, size(n), percent(n, r.Peak))
	}
	fmt.Fprintf(t, "total\t%d\t%s\t%.1f\t\n", r.AtPeak.Total(), size(r.AtPeak.Total()), percent(r.AtPeak.Total(), r.Peak))
	t.Flush()
	if r.Hint != "" {
		fmt.Fprintf(w, "\n%s\n", plain(r.Hint))
	}
	r.rows(w, "module", r.Modules, most)
	r.rows(w, "operation", r.Operations, most)
	r.largest(w)
}

// The modules and operations in the table of both.
const (
	opened = 5
	inside = 6
)

// largest writes what the operations of the largest modules have at the peak.
func (r *Report) largest(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nlargest modules\toperation\tallocated\tsaved\tat the peak\t%\t\n")
	for _, module := range r.Modules[:min(opened, len(r.Modules))] {
		list, name := r.within(module), plain(module.Name())
		rest := Row{}
		if len(list) > inside {
			for _, row := range list[inside:] {
				rest.sum(row)
			}
			rest.Operation = fmt.Sprintf("%d more", len(list)-inside)
			list = append(list[:inside:inside], rest)
		}
		for _, row := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t\n", name, plain(row.operation()), size(row.Allocated), size(row.Saved), size(row.AtPeak.Total()),
				percent(row.AtPeak.Total(), r.Peak))
			name = ""
		}
	}
	t.Flush()
}

// rows writes a table of modules or operations.
func (r *Report) rows(w io.Writer, what string, list []Row, most int) {
	rest := Row{}
	if most > 0 && len(list) > most {
		for _, row := range list[most:] {
			rest.sum(row)
		}
		rest.Operation = fmt.Sprintf("%d more", len(list)-most)
		list = append(list[:most:most], rest)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n%s\tallocated\tfreed\tsaved\tat the peak\t%%\tparameters\tgradients\tstate\tactivations\tinputs\tworkspace\tother\t\n", what)
	for _, row := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t", plain(row.Name()), size(row.Allocated), size(row.Freed), size(row.Saved), size(row.AtPeak.Total()), percent(row.AtPeak.Total(), r.Peak))
		for _, n := range row.AtPeak.list() {
			fmt.Fprintf(t, "%s\t", size(n))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func (r *Row) sum(s Row) {
	r.Allocations += s.Allocations
	r.Allocated += s.Allocated
	r.Freed += s.Freed
	r.Saved += s.Saved
	a, b := &r.AtPeak, s.AtPeak
	*a = Categories{a.Parameters + b.Parameters, a.Gradients + b.Gradients, a.OptimizerState + b.OptimizerState, a.Activations + b.Activations,
		a.Inputs + b.Inputs, a.Workspace + b.Workspace, a.Other + b.Other}
}

func percent(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// plain is a name for a terminal: in quotes if there is something in it that does not print, such as a tab, which would also end a column.
func plain(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// size is a number of bytes for people; nothing is a dot, as most of a table is.
func size(n uint64) string {
	if n == 0 {
		return "·"
	}
	return device.FormatBytes(n)
}
