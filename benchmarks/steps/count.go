package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/benchmarks/internal/launches"
	"github.com/cistern-ml/cistern/kernels/cuda"
)

const (
	countedStep   = 3        // the first makes the optimizer's state, the second is like all others; one more cannot hurt
	countedMemory = 80 << 30 // of the device that counts
)

// count counts a step of a program, after some that are not counted.
func (x *Result) count(o options, p *program) (err error) {
	d := launches.New(countedMemory)
	defer func() {
		if unloaded := cuda.Unload(d); err == nil {
			err = unloaded
		}
	}()
	x.Steps, o.steps = countedStep, countedStep
	begun := true
	err = trainOn(d, o, p, func(t *trainer, step int) {
		switch step + 1 {
		case countedStep - 1:
			begun = d.Begin()
		case countedStep:
			x.Kinds = d.End()
		}
	})
	if err == nil && !begun {
		err = errors.New("something else of this process records operations")
	}
	sum := x.Kinds.Total()
	x.Operations, x.LibraryCalls, x.BytesMoved = sum.Operations, sum.LibraryCalls, sum.Bytes
	return err
}

func (r *report) printCounts(w io.Writer) {
	for i, x := range r.Results {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, batch %d, amp %s: one step on %s\n\n", x.Model, x.Batch, x.AMP, r.Device)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "kind\toperations\tof a library\tMB moved\t")
		for _, k := range append(x.Kinds, x.Kinds.Total()) {
			fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t\n", k.Name, k.Operations, k.LibraryCalls, float64(k.Bytes)/1e6)
		}
		table.Flush()
	}
}
