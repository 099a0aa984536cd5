package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/device"
)

// report is everything that is written.
type report struct {
	harness.Head
	Results []*result `json:"results"`
}

// result is one cell.
type result struct {
	Operation string `json:"operation"`
	Type      string `json:"type"`
	Size      uint64 `json:"size"`  // of the matrix, in bytes
	Bytes     uint64 `json:"bytes"` // read and written, by the formula
	timing.Spread
	GBs        float64        `json:"gb_per_s"`
	OfCopy     float64        `json:"of_memcpy"` // bandwidth by that of the driver's copy
	PyTorch    *timing.Spread `json:"pytorch,omitempty"`
	PyTorchGBs float64        `json:"pytorch_gb_per_s,omitempty"`
	OfPyTorch  float64        `json:"time_by_pytorchs,omitempty"` // below 1 is faster
	Compiled   *timing.Spread `json:"compiled,omitempty"`         // by torch.compile
	OfCompiled float64        `json:"time_by_compiled,omitempty"`
}

// rate is the bandwidth of a call that takes so many microseconds.
func (x *result) rate(us float64) float64 { return float64(x.Bytes) / us / 1e3 }

// compare sets the ratios.
func (r *report) compare() {
	for _, x := range r.Results {
		for _, c := range r.Results {
			if c.Operation == memcpy && c.Size == x.Size && c.Type == x.Type {
				x.OfCopy = x.GBs / c.GBs
			}
		}
		if x.PyTorch != nil {
			x.OfPyTorch = x.Microseconds / x.PyTorch.Microseconds
		}
		if x.Compiled != nil {
			x.OfCompiled = x.Microseconds / x.Compiled.Microseconds
		}
	}
}

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) error {
	if err := harness.WriteJSON(file, r); err != nil {
		return err
	}
	fmt.Fprint(w, &r.Head)
	if err := r.Failed.Print(w); err != nil {
		return err
	}
	return harness.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "\nsize\ttype\toperation\tus\t\tGB/s\tof memcpy\tPyTorch us\tGB/s\ttime / PyTorch's\tcompiled us\ttime / compiled\t")
		for _, x := range r.Results {
			x.row(w)
		}
	})
}

func (x *result) row(w io.Writer) {
	us, rate, ratio, compiled, ofCompiled := "-", "-", "-", "-", "-"
	if x.Compiled != nil {
		compiled, ofCompiled = fmt.Sprintf("%.1f", x.Compiled.Microseconds), fmt.Sprintf("%.2f", x.OfCompiled)
	}
	if x.PyTorch != nil {
		us, rate = fmt.Sprintf("%.1f", x.PyTorch.Microseconds), fmt.Sprintf("%.0f", x.PyTorchGBs)
		ratio = fmt.Sprintf("%.2f", x.OfPyTorch)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t(%.1f-%.1f)\t%.0f\t%.2f\t%s\t%s\t%s\t%s\t%s\t\n", device.FormatBytes(x.Size), x.Type, x.Operation,
		x.Microseconds, x.Fastest, x.Slowest, x.GBs, x.OfCopy, us, rate, ratio, compiled, ofCompiled)
}
