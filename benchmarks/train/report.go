package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

// report is everything that is written.
type report struct {
	Machine machine.Facts `json:"machine"`
	Spec    string        `json:"device_flag"`
	Device  string        `json:"device"`            // its name
	Library string        `json:"library,omitempty"` // what the device says of its library of products
	PyTorch string        `json:"pytorch"`           // its version, or why it was left out
	Results []*result     `json:"results"`
}

// result is a model in a precision, trained in several ways.
type result struct {
	Model    string     `json:"model"`
	AMP      string     `json:"amp"`
	Batch    int        `json:"batch"`
	Unit     string     `json:"unit"` // of items: tokens, images, samples
	Items    int        `json:"items_per_step"`
	Warm     int        `json:"warm_steps"` // that do not count
	Runs     int        `json:"runs"`       // of which the median counts
	Steps    int        `json:"steps_per_run"`
	Subjects []*subject `json:"subjects"`
}

// subject is one way to train it.
type subject struct {
	Name          string    `json:"name"` // cistern, or pytorch, and the mode
	Parameters    int       `json:"parameters"`
	First         float64   `json:"first_step_s,omitempty"` // what is loaded and compiled at first use is in it
	Runs          int       `json:"runs"`                   // that came to their end
	timing.Spread           // of a step
	Rate          float64   `json:"items_per_s,omitempty"`
	TFLOPS        float64   `json:"tflops,omitempty"` // an estimate: see the package comment
	Allocated     int64     `json:"peak_allocated_bytes,omitempty"`
	Reserved      int64     `json:"peak_reserved_bytes,omitempty"`
	Losses        []float64 `json:"losses,omitempty"` // of the first step, and of the last of each run
	Remark        string    `json:"remark,omitempty"`
	OfEager       float64   `json:"rate_by_own_eager,omitempty"` // of the side's other ways
	Ratios        *ratios   `json:"cistern_by_this,omitempty"`   // of PyTorch's
}

// ratios are our numbers divided by PyTorch's; 0 for none.
type ratios struct {
	Rate      float64 `json:"rate,omitempty"`
	Allocated float64 `json:"peak_allocated,omitempty"`
	Reserved  float64 `json:"peak_reserved,omitempty"`
}

func (s *subject) remark(text string) {
	if s.Remark != "" {
		s.Remark += "; "
	}
	s.Remark += strings.ReplaceAll(text, "\n", " ")
}

// compare sets the ratios of PyTorch's subjects: of its captured steps to ours, of all others to our eager ones. And it sets, of each side's
// other ways, how fast they are by its eager steps.
func (x *result) compare() {
	for _, s := range x.Subjects {
		side, _, _ := strings.Cut(s.Name, " ")
		if own := x.find(name(side, eager)); own != nil && own != s && own.Rate > 0 {
			s.OfEager = s.Rate / own.Rate
		}
		mode, peer := strings.CutPrefix(s.Name, "pytorch ")
		if !peer {
			continue
		}
		way := eager
		if mode == graph {
			way = graph
		}
		if own := x.find(name("cistern", way)); own != nil {
			s.compare(own)
		}
	}
}

func (x *result) find(name string) *subject {
	for _, s := range x.Subjects {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// compare sets the ratios to our subject. Models of other sizes are not compared.
func (s *subject) compare(own *subject) {
	s.Ratios = nil
	if s.Parameters == 0 || own.Parameters == 0 {
		return
	}
	if s.Parameters != own.Parameters {
		if !strings.Contains(s.Remark, "parameters") {
			s.remark(fmt.Sprintf("not compared: %d parameters, ours have %d", s.Parameters, own.Parameters))
		}
		return
	}
	by := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	s.Ratios = &ratios{Rate: by(own.Rate, s.Rate), Allocated: by(float64(own.Allocated), float64(s.Allocated)),
		Reserved: by(float64(own.Reserved), float64(s.Reserved))}
	if *s.Ratios == (ratios{}) {
		s.Ratios = nil
	}
}

const head = "model\tprecision\tbatch\tsubject\tparameters\tms/step\t\tper s\tTFLOP/s\tfirst step s\tpeak allocated MB\tpeak reserved MB\tfirst loss\tlast loss\tby own eager\t" +
	"cistern / this: rate\tallocated\treserved\t\n"

// print prints the table and the remarks.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s (%s)\n", r.Machine, r.Device, r.Spec)
	if r.Library != "" {
		fmt.Fprintln(w, r.Library)
	}
	fmt.Fprintf(w, "PyTorch: %s\n\n", r.PyTorch)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, head)
	var remarks []string
	for _, x := range r.Results {
		for _, s := range x.Subjects {
			s.row(t, x)
			if s.Remark != "" {
				remarks = append(remarks, fmt.Sprintf("%s %s, %s: %s", x.Model, x.AMP, s.Name, s.Remark))
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(remarks) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(remarks, "\n"))
	}
	return nil
}

func (s *subject) row(w io.Writer, x *result) {
	spread := ""
	if s.Slowest > 0 {
		spread = fmt.Sprintf("(%.2f-%.2f)", s.Fastest/1e3, s.Slowest/1e3)
	}
	by := ratios{}
	if s.Ratios != nil {
		by = *s.Ratios
	}
	first, last := "-", "-"
	if n := len(s.Losses); n > 0 {
		first, last = fmt.Sprintf("%.4f", s.Losses[0]), fmt.Sprintf("%.4f", s.Losses[n-1])
	}
	rate := number("%.0f ", s.Rate)
	if s.Rate > 0 {
		rate += x.Unit
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Model, x.AMP, x.Batch, s.Name, s.Parameters,
		number("%.2f", s.Microseconds/1e3), spread, rate, number("%.1f", s.TFLOPS), number("%.2f", s.First),
		number("%.1f", float64(s.Allocated)/1e6), number("%.1f", float64(s.Reserved)/1e6), first, last,
		number("%.2f", s.OfEager), number("%.2f", by.Rate), number("%.3f", by.Allocated), number("%.3f", by.Reserved))
}

// number is a figure, or a dash for none.
func number(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// write writes the numbers so far to the file, if it has a name. Whoever stops the program meanwhile finds the old ones.
func (m *measurement) write() error { return harness.WriteJSON(m.json, m.report) }
