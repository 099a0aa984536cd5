package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

// report is everything that is written.
type report struct {
	harness.Head
	Library string    `json:"library"` // what the device says of its library
	Results []*result `json:"results"`
}

// result is one cell.
type result struct {
	Problem string `json:"problem"`
	Type    string `json:"type"`
	M       int    `json:"m"`
	N       int    `json:"n"`
	K       int    `json:"k"`
	Subject string `json:"subject"`
	timing.Spread
	TFLOPS    float64 `json:"tflops"`
	GBs       float64 `json:"gb_per_s"`
	OfCUBLAS  float64 `json:"of_cublas,omitempty"`  // speed in that of cuBLAS at the same precision
	OfPyTorch float64 `json:"of_pytorch,omitempty"` // and in that of PyTorch
}

// tf32 is what names of subjects end in that round float32 operands.
const tf32 = " tf32"

// compare sets the ratios.
func (r *report) compare() {
	for _, x := range r.Results {
		suffix := ""
		if strings.HasSuffix(x.Subject, tf32) {
			suffix = tf32
		}
		x.OfCUBLAS, x.OfPyTorch = r.speed(x, "cublas"+suffix), r.speed(x, "pytorch"+suffix)
	}
}

// speed is a result's in that of a subject for the same problem, 0 if the subject was not measured.
func (r *report) speed(x *result, subject string) float64 {
	for _, y := range r.Results {
		if y.Subject == subject && y.Problem == x.Problem && y.Type == x.Type && y.M == x.M && y.N == x.N && y.K == x.K {
			return y.Microseconds / x.Microseconds
		}
	}
	return 0
}

// write prints the table, and the file if it has a name.
func (r *report) write(w io.Writer, file string) error {
	if err := harness.WriteJSON(file, r); err != nil {
		return err
	}
	fmt.Fprint(w, &r.Head)
	if r.Library != "" {
		fmt.Fprintln(w, r.Library)
	}
	err := harness.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "\ntype\tproblem\tm\tn\tk\tby\tus\t\tTFLOP/s\tGB/s\tof cuBLAS\tof PyTorch\t")
		for _, c := range r.Results {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%.1f\t(%.1f-%.1f)\t%.2f\t%.0f\t%s\t%s\t\n", c.Type, c.Problem, c.M, c.N, c.K, c.Subject,
				c.Microseconds, c.Fastest, c.Slowest, c.TFLOPS, c.GBs, ratio(c.OfCUBLAS), ratio(c.OfPyTorch))
		}
	})
	if err != nil {
		return err
	}
	return r.Failed.Print(w)
}

func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
