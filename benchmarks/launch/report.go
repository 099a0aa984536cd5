package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/figures"
	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

// report is everything that is written.
type report struct {
	Machine machine.Facts `json:"machine"`
	Device  string        `json:"device"`
	Runs    int           `json:"runs"`
	PyTorch string        `json:"pytorch"` // its version, or why it was left out
	Results []*result     `json:"results"`

	Failed figures.Failures `json:"failed,omitempty"`
}

// result is an operation's numbers.
type result struct {
	Operation string  `json:"operation"`
	Call      spread  `json:"call"`
	Stream    spread  `json:"stream"`
	Wait      spread  `json:"wait"`
	Allocs    float64 `json:"go_allocations"`
	PyTorch   *peer   `json:"pytorch,omitempty"`
}

// peer is what PyTorch takes for the same operation.
type peer struct {
	Call   spread `json:"call"`
	Stream spread `json:"stream"`
	Wait   spread `json:"wait"`
}

// spread is a median with the fastest and the slowest, in nanoseconds.
type spread struct {
	Ns      float64 `json:"ns"`
	Fastest float64 `json:"ns_fastest"`
	Slowest float64 `json:"ns_slowest"`
}

func spreadOf(seconds []float64) spread {
	s := timing.Of(seconds)
	return spread{Ns: 1e3 * s.Microseconds, Fastest: 1e3 * s.Fastest, Slowest: 1e3 * s.Slowest}
}

func (s spread) String() string { return fmt.Sprintf("%.0f (%.0f-%.0f)", s.Ns, s.Fastest, s.Slowest) }

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) error {
	if err := figures.Write(file, r); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s\nns, median of %d runs (fastest-slowest)\nPyTorch: %s\n\n", r.Machine, r.Device, r.Runs, r.PyTorch)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\tcall\tstream\twait\tGo allocs\tPyTorch call\tstream\twait\t")
	for _, x := range r.Results {
		peer := "-\t-\t-"
		if p := x.PyTorch; p != nil {
			peer = fmt.Sprintf("%s\t%.0f\t%.0f", p.Call, p.Stream.Ns, p.Wait.Ns)
		}
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%.2f\t%s\t\n", x.Operation, x.Call, x.Stream.Ns, x.Wait.Ns, x.Allocs, peer)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.Failed.Print(w)
}
