package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/sections"
	"github.com/cistern-ml/cistern/tensor"
)

// processors are those for which bounds are computed.
var processors = []int{1, 2, 8}

// dividedRow is how a step divides: for each number of processors the most that it can be faster by than on one.
type dividedRow struct {
	Case     string             `json:"case"`
	Sections int                `json:"sections"`
	Alone    float64            `json:"ms"`
	Share    float64            `json:"divided"`
	Bounds   map[string]float64 `json:"bounds"`
}

// divide measures whole steps on one processor, with the work cut as for several, and says how fast these could be.
func (o *options) divide(stdout io.Writer) ([]dividedRow, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var rows []dividedRow
	err := harness.On("host", func(e tensor.Exec, _ device.Spec) error {
		for _, w := range cases() {
			if !w.whole() || !o.only.MatchString(w.name) {
				continue
			}
			r, err := o.divideCase(w, &scene{Exec: e})
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rows = append(rows, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, harness.Table(stdout, func(out io.Writer) {
		fmt.Fprint(out, "case\tsections\tms\tdivided")
		for _, n := range processors {
			fmt.Fprintf(out, "\tat most on %d", n)
		}
		fmt.Fprint(out, "\t\n")
		for _, r := range rows {
			fmt.Fprintf(out, "%s\t%d\t%.2f\t%.3f", r.Case, r.Sections, r.Alone, r.Share)
			for _, n := range processors {
				fmt.Fprintf(out, "\tx %.2f", r.Bounds[fmt.Sprint(n)])
			}
			fmt.Fprint(out, "\t\n")
		}
	})
}

func (o *options) divideCase(w workload, s *scene) (dividedRow, error) {
	r := dividedRow{Case: w.name, Bounds: map[string]float64{}}
	defer s.end()
	call, err := w.start(s)
	if err != nil {
		return r, err
	}
	for _, n := range processors {
		runtime.GOMAXPROCS(n)
		total, m, err := o.metered(call, n)
		if err != nil {
			return r, err
		}
		r.Alone = cmp.Or(r.Alone, 1e3*total.Seconds())
		r.Sections, r.Share = m.Count, m.Alone.Seconds()/total.Seconds()
		r.Bounds[fmt.Sprint(n)] = total.Seconds() / m.Bound(total).Seconds()
	}
	return r, nil
}

// metered is the fastest of some calls, with what was in sections.
func (o *options) metered(call func() error, workers int) (total time.Duration, best *sections.Meter, err error) {
	for range o.runs {
		m := &sections.Meter{Workers: workers}
		stop := sections.Watch(m)
		begin := time.Now()
		err := call()
		took := time.Since(begin)
		stop()
		if err != nil {
			return 0, nil, err
		}
		if best == nil || took < total {
			total, best = took, m
		}
	}
	return total, best, nil
}
