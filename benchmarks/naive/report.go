package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/device"
)

// report is everything that is written.
type report struct {
	Machine machine.Facts `json:"machine"`
	Device  string        `json:"device"`
	Name    string        `json:"device_name"`
	Runs    int           `json:"runs"`
	Steps   int           `json:"steps"`
	Pairs   int           `json:"pairs"` // after which recorded programs are cut off; 0 is all
	Assumed string        `json:"assumed,omitempty"`
	PyTorch string        `json:"pytorch"` // its version, or why it was left out
	Results []*Result     `json:"results"`
}

// newReport looks at the device, so that a wrong one is found before anything is measured.
func newReport(o options, spec device.Spec) (*report, error) {
	dev, err := device.Open(o.device)
	if err != nil {
		return nil, err
	}
	r := &report{Machine: machine.Here(), Device: o.device, Name: dev.Properties().Name, Runs: o.runs, Steps: o.steps, Pairs: o.pairs}
	if spec.Kind == device.Sim {
		r.Assumed = o.costs.String()
	}
	return r, dev.Close()
}

// write prints the table, and saves the numbers where the options say.
func (r *report) write(w io.Writer, o options) error {
	var b strings.Builder
	r.head(&b)
	r.training(&b)
	r.recorded(&b)
	fmt.Fprintf(&b, "\nPyTorch: %s\n", r.PyTorch)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := harness.WriteJSON(o.json, r); err != nil {
		return err
	}
	if o.plot != "" {
		return r.draw(o.plot)
	}
	return nil
}

func (r *report) head(w io.Writer) {
	fmt.Fprintf(w, "%s\ndevice %s (%s); median of %d runs (lowest-highest)\n", r.Machine, r.Device, r.Name, r.Runs)
	if r.Assumed != "" {
		fmt.Fprintf(w, "ASSUMED, NOT MEASURED: driver calls take %s; nothing is computed on this device\n", r.Assumed)
	}
}

// split parts the results of training from those of recorded programs.
func (r *report) split() (training, recorded []*Result) {
	for _, x := range r.Results {
		if x.Workload == "training" {
			training = append(training, x)
		} else {
			recorded = append(recorded, x)
		}
	}
	return training, recorded
}

// training is the table of training steps.
func (r *report) training(w io.Writer) {
	rows, _ := r.split()
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\ntraining, %d-%d-%d, batch %d, AdamW; %d steps a run\n", pixels, hidden, classes, batch, r.Steps)
	r.table(w, rows, "steps/s", func(x *Result) string {
		low, high := slices.Max(x.Runs), slices.Min(x.Runs)
		return fmt.Sprintf("%.1f (%.1f-%.1f)", 1e9/x.NsPerUnit, 1e9/low, 1e9/high)
	})
}

// recorded is the table of recorded programs.
func (r *report) recorded(w io.Writer) {
	_, rows := r.split()
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(w, "\nrecorded programs")
	if r.Pairs > 0 {
		fmt.Fprintf(w, ", cut off after %d allocations", r.Pairs)
	}
	fmt.Fprintln(w)
	r.table(w, rows, "ns/pair", func(x *Result) string {
		return fmt.Sprintf("%.0f (%.0f-%.0f)", x.NsPerUnit, slices.Min(x.Runs), slices.Max(x.Runs))
	})
}

// table has a row for each result. The last columns are per unit; with assumed times there is a column for them.
func (r *report) table(w io.Writer, rows []*Result, unit string, cell func(*Result) string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	assumed := ""
	if r.Assumed != "" {
		assumed = "assumed part\t"
	}
	fmt.Fprintf(tw, "workload\tallocator\t%s\t%stime / direct's\trequests\tdriver calls\tpeak reserved\tooms\t\n", unit, assumed)
	for _, x := range rows {
		part := ""
		if r.Assumed != "" {
			part = fmt.Sprintf("%.0f %%\t", 100*x.AssumedNs/x.NsPerUnit)
		}
		calls := fmt.Sprintf("%.2f", x.DriverPer)
		if x.Allocator == "pytorch" || x.Allocator == "async" {
			calls = "-" // PyTorch does not say; every request of the pool is a call, and whether that reaches the device is its secret
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%s\t%.2f\t%s\t%s\t%d\t\n", x.Workload, x.Allocator, cell(x), part, ratio(rows, x),
			x.AllocsPer, calls, device.FormatBytes(uint64(x.PeakReserved)), x.OOMs)
	}
	tw.Flush()
}

// ratio is a result's time in those of the direct allocator under the same workload.
func ratio(rows []*Result, x *Result) string {
	for _, d := range rows {
		if d.Workload == x.Workload && d.Allocator == "direct" {
			return fmt.Sprintf("%.3f", x.NsPerUnit/d.NsPerUnit)
		}
	}
	return "-"
}
