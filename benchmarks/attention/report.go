package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
)

// report is everything that is written.
type report struct {
	Machine  machine.Facts `json:"machine"`
	Device   string        `json:"device"`
	Runs     int           `json:"runs"`
	Duration string        `json:"duration"`          // of one run, about
	PyTorch  string        `json:"pytorch"`           // its version, or why it was left out
	Refused  []string      `json:"refused,omitempty"` // what PyTorch did not compute
	Failed   []string      `json:"failed,omitempty"`  // what we did not
	Results  []*result     `json:"results"`
}

// result is one problem.
type result struct {
	problem
	peer.Result
}

// ways are PyTorch's, in the order of the table.
var ways = []string{"flash", "cudnn", "efficient", "math", "default", "written"}

// used are the ways that have numbers.
func (r *report) used() (list []string) {
	for _, way := range ways {
		for _, x := range r.Results {
			if x.PyTorch[way] != nil {
				list = append(list, way)
				break
			}
		}
	}
	return list
}

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) error {
	if err := r.save(file); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s\nmedian of %d runs of %s (fastest-slowest)\nPyTorch: %s\n", r.Machine, r.Device, r.Runs, r.Duration, r.PyTorch)
	for _, why := range r.Failed {
		fmt.Fprintln(w, "failed:", why)
	}
	for _, why := range r.Refused {
		fmt.Fprintln(w, "PyTorch: without", why)
	}
	used := r.used()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nshape\ttype\tcausal\tpass\t"+peer.Head(used))
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%v\t%s\t%s\n", x.shape, x.Type, x.Causal, x.Pass, x.Cells(used))
	}
	return t.Flush()
}

// failed is what was not computed, as an error: the rest was measured all the same.
func (r *report) failed() error {
	if len(r.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d problems failed, the first one: %s", len(r.Failed), r.Failed[0])
}

// save writes the file, if it has a name.
func (r *report) save(name string) (err error) {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
