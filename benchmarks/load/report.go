package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
)

// report is everything that is written. Times are milliseconds. The processes are called first, with the driver's cache as it was;
// next, from the cache; and one, which loads all.
type report struct {
	Machine    machine.Facts `json:"machine"`
	Device     string        `json:"device"`
	Parallel   int           `json:"parallel"`
	Cold       bool          `json:"cold"`            // the driver's cache was empty at first
	FirstAll   float64       `json:"first_wall_ms"`   // all first processes, from start to end
	SecondAll  float64       `json:"second_wall_ms"`  // all next processes
	OneProcess float64       `json:"one_process_ms"`  // all modules in one process, from the cache
	Start      float64       `json:"device_start_ms"` // of the device, median of the next processes
	Modules    []*row        `json:"modules"`
	Failures   []*failure    `json:"failures,omitempty"` // each with the first process in which it showed
}

// row is a module's numbers.
type row struct {
	Name    string    `json:"name"`
	Bytes   int       `json:"ptx_bytes"`
	Count   int       `json:"count"`    // kernels in it
	First   float64   `json:"first_ms"` // all kernels, one by one
	Longest float64   `json:"longest_ms"`
	Second  float64   `json:"second_ms"`
	Kernels []*kernel `json:"kernels"` // that were loaded
}

// usage is the most registers and bytes of local memory that a kernel takes, and how many kernels have local memory.
func (m *row) usage() (registers, local, spilling int) {
	for _, k := range m.Kernels {
		registers, local = max(registers, k.Registers), max(local, k.Local)
		if k.Local > 0 {
			spilling++
		}
	}
	return registers, local, spilling
}

// save writes the file, if it has a name. It is written anew when more is known.
func (r *report) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// write prints the table.
func (r *report) write(w io.Writer) error {
	cache := "empty"
	if !r.Cold {
		cache = "NOT EMPTY: what is called first is none"
	}
	fmt.Fprintf(w, "%s\n%s\nthe driver's cache was %s; %d processes at a time\n\n", r.Machine, r.Device, cache, r.Parallel)
	if err := r.table(w); err != nil {
		return err
	}
	r.spills(w)
	r.failed(w)
	_, err := fmt.Fprintf(w, "\nfrom the first start to the last end: %.0f ms at first, %.0f ms then\nall in one process, from the cache: %.0f ms\nstart of the device: %.0f ms\n",
		r.FirstAll, r.SecondAll, r.OneProcess, r.Start)
	return err
}

func (r *report) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "module\tPTX KB\tkernels\tloaded\tfirst load, ms\tlongest, ms\tnext process, ms\tregisters\tlocal bytes\twith local\t")
	all := row{Name: "all"}
	for _, m := range r.Modules {
		m.print(t)
		all.First, all.Second, all.Bytes = all.First+m.First, all.Second+m.Second, all.Bytes+m.Bytes
		all.Count, all.Longest = all.Count+m.Count, max(all.Longest, m.Longest)
		all.Kernels = append(all.Kernels, m.Kernels...)
	}
	all.print(t)
	return t.Flush()
}

func (m *row) print(w io.Writer) {
	registers, local, spilling := m.usage()
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t\n", m.Name, m.Bytes>>10, m.Count, len(m.Kernels), m.First, m.Longest, m.Second,
		registers, local, spilling)
}

// spills lists the kernels with local memory.
func (r *report) spills(w io.Writer) {
	title := "\nkernels with local memory:\n"
	for _, m := range r.Modules {
		for _, k := range m.Kernels {
			if k.Local > 0 {
				fmt.Fprintf(w, "%s  %s %s: %d bytes, %d registers\n", title, m.Name, k.Name, k.Local, k.Registers)
				title = ""
			}
		}
	}
}

// failed lists what did not load.
func (r *report) failed(w io.Writer) {
	if len(r.Failures) > 0 {
		fmt.Fprintf(w, "\nFAILED: %d\n", len(r.Failures))
	}
	for _, f := range r.Failures {
		kernel := f.Kernel
		if kernel == "" {
			kernel = "(the module)"
		}
		fmt.Fprintf(w, "  %s %s, process %s: %s\n", f.Module, kernel, f.Process, strings.ReplaceAll(f.Error, "\n", "\n    "))
	}
}
