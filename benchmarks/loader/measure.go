package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/tensor"
)

// report is everything that is written.
type report struct {
	Machine machine.Facts `json:"machine"`
	Device  string        `json:"device"`
	Format  string        `json:"format"`
	Images  int           `json:"images"`
	Size    int           `json:"size"`
	Bytes   int           `json:"bytes"` // of all files
	Batch   int           `json:"batch"`
	Runs    int           `json:"runs"`
	Results []*result     `json:"results"`
}

// result is one way.
type result struct {
	Way string `json:"way"`
	timing.Spread
	Images float64  `json:"images_per_second"`
	Loop   float64  `json:"of_loop"`        // time in parts of the loop's, which trains and decodes in turn
	Loss   *float64 `json:"loss,omitempty"` // after the epoch
}

func (o *options) measure(e tensor.Exec) (r *report, err error) {
	f, err := newFiles(o.format, o.images, o.size)
	if err != nil {
		return nil, err
	}
	ways := o.ways(e, f)
	defer func() { err = errors.Join(err, finish(ways)) }()
	took := make([][]float64, len(ways))
	losses := make([]*float64, len(ways))
	for run := range o.runs + 1 { // the first one does not count
		for i, w := range ways {
			seconds, loss, err := o.epoch(e, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if run > 0 {
				took[i] = append(took[i], seconds)
			}
			losses[i] = loss
			if loss != nil && *loss != *losses[0] {
				return nil, fmt.Errorf("%s: a loss of %v, where that of %s is %v: the batches are not the same", w.name, *loss, ways[0].name, *losses[0])
			}
		}
	}
	r = &report{Machine: machine.Here(), Device: e.Device().Properties().Name, Format: o.format, Images: o.images, Size: o.size, Bytes: f.bytes,
		Batch: o.batch, Runs: o.runs}
	for i, w := range ways {
		s := timing.Of(took[i])
		x := &result{Way: w.name, Spread: s, Images: float64(o.images) / s.Microseconds * 1e6, Loss: losses[i]}
		r.Results = append(r.Results, x)
		x.Loop = s.Microseconds / r.Results[0].Microseconds
	}
	return r, nil
}

// epoch is one epoch in one way, from the same start.
func (o *options) epoch(e tensor.Exec, w *way) (seconds float64, loss *float64, err error) {
	l, err := newLearner(e, o.size)
	if err != nil {
		return 0, nil, err
	}
	defer l.release()
	use := l.step
	if !w.train {
		use = func(_, _ *tensor.Tensor) error { return nil }
	}
	if err := e.Stream().Synchronize(context.Background()); err != nil {
		return 0, nil, err
	}
	begin := time.Now()
	if err = w.feed(use); err == nil {
		err = e.Stream().Synchronize(context.Background())
	}
	seconds = time.Since(begin).Seconds()
	if err != nil || !w.train {
		return seconds, nil, err
	}
	v, err := l.loss.Item()
	return seconds, &v, err
}

func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n%d images of %dx%d, %s, %d bytes in all, in batches of %d; median of %d epochs (fastest-slowest)\n\n",
		r.Machine, r.Device, r.Images, r.Size, r.Size, r.Format, r.Bytes, r.Batch, r.Runs)
	return harness.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "way\tepoch ms\tfastest-slowest\timages/s\tof the loop\t")
		for _, x := range r.Results {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f-%.1f\t%.0f\t%.2f\t\n", x.Way, x.Microseconds/1e3, x.Fastest/1e3, x.Slowest/1e3, x.Images, x.Loop)
		}
	})
}
