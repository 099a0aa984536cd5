package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
)

// report is everything that is written. Times are milliseconds.
type report struct {
	Machine    machine.Facts `json:"machine"`
	Device     string        `json:"device"`
	Parallel   int           `json:"parallel"`
	Cold       bool          `json:"cold"`            // the driver's cache was empty at first
	FirstAll   float64       `json:"first_wall_ms"`   // all first processes, from start to end
	SecondAll  float64       `json:"second_wall_ms"`  // all second processes
	OneProcess float64       `json:"one_process_ms"`  // all modules in one process, from the cache
	Start      float64       `json:"device_start_ms"` // of the device, median of the second processes
	Modules    []*row        `json:"modules"`
}

// row is a module's figures.
type row struct {
	Name    string  `json:"name"`
	Bytes   int     `json:"ptx_bytes"`
	Kernels int     `json:"kernels"`
	First   float64 `json:"first_ms"` // all kernels, one by one
	Longest float64 `json:"longest_ms"`
	Second  float64 `json:"second_ms"`
}

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) error {
	if file != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	cache := "empty"
	if !r.Cold {
		cache = "NOT EMPTY: what is called first is none"
	}
	fmt.Fprintf(w, "%s\n%s\nthe driver's cache was %s; %d processes at a time\n\n", r.Machine, r.Device, cache, r.Parallel)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "module\tPTX KB\tkernels\tfirst load, ms\tlongest, ms\tnext process, ms\t")
	first, second, bytes, kernels, longest := 0.0, 0.0, 0, 0, 0.0
	for _, m := range r.Modules {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", m.Name, m.Bytes>>10, m.Kernels, m.First, m.Longest, m.Second)
		first, second, bytes = first+m.First, second+m.Second, bytes+m.Bytes
		kernels, longest = kernels+m.Kernels, max(longest, m.Longest)
	}
	fmt.Fprintf(t, "all\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", bytes>>10, kernels, first, longest, second)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfrom the first start to the last end: %.0f ms at first, %.0f ms then\nall in one process, from the cache: %.0f ms\nstart of the device: %.0f ms\n",
		r.FirstAll, r.SecondAll, r.OneProcess, r.Start)
	return err
}
