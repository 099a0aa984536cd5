package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/benchmarks/internal/launches"
	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/stepplan"
)

// Result is one program's numbers, in bytes.
type Result struct {
	Model            string  `json:"model"`
	Batch            int     `json:"batch"`
	Seq              int     `json:"seq,omitempty"`
	AMP              string  `json:"amp"`
	Steps            int     `json:"steps"`
	StepsPerSecond   float64 `json:"steps_per_second,omitempty"` // on devices that compute
	PeakAllocated    int64   `json:"peak_allocated_bytes"`
	PeakReserved     int64   `json:"peak_reserved_bytes"`
	DriverMallocs    int64   `json:"driver_mallocs"`
	PyTorchAllocated int64   `json:"pytorch_peak_allocated_bytes,omitempty"`
	PyTorchReserved  int64   `json:"pytorch_peak_reserved_bytes,omitempty"`

	Plan *stepplan.Figures `json:"plan,omitempty"` // with -plan

	// With -count, of one step.
	Operations   int             `json:"operations,omitempty"`
	LibraryCalls int             `json:"library_calls,omitempty"`
	BytesMoved   int64           `json:"bytes_moved,omitempty"`
	Kinds        launches.Counts `json:"kinds,omitempty"`
}

// report is the program's JSON.
type report struct {
	Device  string        `json:"device"`
	Machine machine.Facts `json:"machine"`
	Results []*Result     `json:"results"`
	Curve   *Curve        `json:"curve,omitempty"`
}

func measure(o options, w io.Writer) error {
	if o.count {
		o.device = "a CUDA device that counts"
	}
	r := &report{Device: o.device, Machine: machine.Here()}
	if o.varying > 0 {
		c, err := measureCurve(o)
		if err != nil {
			return err
		}
		r.Curve = c
		c.print(w)
		return r.write(o.json)
	}
	for _, p := range programs {
		if o.model != p.name && (o.model != "all" || p.named) {
			continue
		}
		result, err := measureOne(o, *p)
		if err != nil {
			return errors.Wrap(err, p.name)
		}
		r.Results = append(r.Results, result)
	}
	if o.count {
		r.printCounts(w)
	} else {
		r.print(w)
	}
	return r.write(o.json)
}

// measureOne trains a program, with batch and length as the flags say.
func measureOne(o options, p program) (*Result, error) {
	recorded := o.batch == 0 && o.seq == 0 && o.amp == "off"
	if o.batch > 0 {
		p.batch = o.batch
	}
	if o.seq > 0 && p.seq > 0 {
		p.seq = o.seq
	}
	x := &Result{Model: p.name, Batch: p.batch, Seq: p.seq, AMP: o.amp, Steps: o.steps}
	if o.count {
		return x, x.count(o, &p)
	}
	kind := device.Host
	elapsed, err := timed(func() error {
		return train(o, &p, func(t *trainer, _ int) {
			s := t.alloc.Stats()
			x.PeakAllocated, x.PeakReserved, x.DriverMallocs = s.AllocatedBytes.All.Peak, s.ReservedBytes.All.Peak, s.NumDeviceAlloc
			kind, x.Plan = t.dev.ID().Kind, stepplan.Of(t.plan)
		})
	})
	if err != nil {
		return nil, err
	}
	if kind != device.Sim {
		x.StepsPerSecond = float64(o.steps) / elapsed.Seconds()
	}
	if recorded && o.traces != "" {
		err = x.compare(filepath.Join(o.traces, "expected", p.trace+".default.json.gz"))
	}
	return x, err
}

// compare adds the peaks of PyTorch's allocator from the expected file of a recording.
func (x *Result) compare(file string) error {
	e, err := replay.OpenExpected(file)
	if err != nil {
		return err
	}
	x.PyTorchAllocated, err = e.Peak("allocated_bytes")
	if err == nil {
		x.PyTorchReserved, err = e.Peak("reserved_bytes")
	}
	return err
}

func (r *report) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s, MB of 1e6 bytes\n\n", r.Device)
	fmt.Fprintln(table, "model\tbatch\tseq\tamp\tpeak allocated\tPyTorch\tratio\tpeak reserved\tPyTorch\tdriver calls\tsteps/s\t")
	for _, x := range r.Results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%.1f\t%s\t%s\t%.1f\t%s\t%d\t%s\t\n", x.Model, x.Batch, x.Seq, x.AMP,
			float64(x.PeakAllocated)/1e6, megabytes(x.PyTorchAllocated), ratio(x.PeakAllocated, x.PyTorchAllocated),
			float64(x.PeakReserved)/1e6, megabytes(x.PyTorchReserved), x.DriverMallocs, rate(x.StepsPerSecond))
	}
	table.Flush()
	for _, x := range r.Results {
		if x.Plan != nil {
			fmt.Fprintf(w, "\n%s: plan, %s", x.Model, x.Plan)
		}
	}
	if r.Results[0].Plan != nil {
		fmt.Fprintln(w)
	}
}

func megabytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/1e6)
}

func ratio(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(n)/float64(of))
}

func rate(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return errors.WithStack(err)
	}
	return errors.Wrap(os.WriteFile(file, append(text, '\n'), 0o666), "writing the figures")
}
