package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

// report is everything that is written.
type report struct {
	harness.Head
	Results []*result `json:"results"`
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
	if err := harness.WriteJSON(file, r); err != nil {
		return err
	}
	fmt.Fprint(w, &r.Head)
	err := harness.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "\noperation\tcall ns\tstream\twait\tGo allocs\tPyTorch call\tstream\twait\t")
		for _, x := range r.Results {
			peer := "-\t-\t-"
			if p := x.PyTorch; p != nil {
				peer = fmt.Sprintf("%s\t%.0f\t%.0f", p.Call, p.Stream.Ns, p.Wait.Ns)
			}
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.2f\t%s\t\n", x.Operation, x.Call, x.Stream.Ns, x.Wait.Ns, x.Allocs, peer)
		}
	})
	if err != nil {
		return err
	}
	return r.Failed.Print(w)
}
