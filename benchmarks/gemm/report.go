package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
)

// report is everything that is written.
type report struct {
	Machine  machine.Facts `json:"machine"`
	Device   string        `json:"device"`
	Library  string        `json:"library"` // what the device says of its library
	Runs     int           `json:"runs"`
	Duration string        `json:"duration"` // of one run, about
	Results  []result      `json:"results"`
}

// result is one cell.
type result struct {
	Problem      string  `json:"problem"`
	Type         string  `json:"type"`
	M            int     `json:"m"`
	N            int     `json:"n"`
	K            int     `json:"k"`
	Subject      string  `json:"subject"`
	Microseconds float64 `json:"us"` // median of the runs
	Fastest      float64 `json:"us_fastest"`
	Slowest      float64 `json:"us_slowest"`
	TFLOPS       float64 `json:"tflops"`
	GBs          float64 `json:"gb_per_s"`
}

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) (err error) {
	if file != "" {
		if err := r.writeFile(file); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.Device)
	if r.Library != "" {
		fmt.Fprintln(w, r.Library)
	}
	fmt.Fprintf(w, "median of %d runs of %s (fastest-slowest)\n\n", r.Runs, r.Duration)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "type\tproblem\tm\tn\tk\tby\tus\t\tTFLOP/s\tGB/s\t")
	for _, c := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%.1f\t(%.1f-%.1f)\t%.2f\t%.0f\t\n", c.Type, c.Problem, c.M, c.N, c.K, c.Subject,
			c.Microseconds, c.Fastest, c.Slowest, c.TFLOPS, c.GBs)
	}
	return t.Flush()
}

func (r *report) writeFile(name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
