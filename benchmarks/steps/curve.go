package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/internal/stepplan"
)

// Curve is memory over steps of varying shapes, in bytes.
type Curve struct {
	Steps            int   `json:"steps"`
	AllocatedFirst   int64 `json:"allocated_after_step_2_bytes"` // the optimizer's state is there
	AllocatedLast    int64 `json:"allocated_after_last_step_bytes"`
	AllocatedLowest  int64 `json:"allocated_lowest_bytes"` // after a step, from the second on
	AllocatedHighest int64 `json:"allocated_highest_bytes"`
	PeakAllocated    int64 `json:"peak_allocated_bytes"`
	ReservedHalf     int64 `json:"peak_reserved_at_half_bytes"`
	ReservedLast     int64 `json:"peak_reserved_bytes"`
	DriverMallocs    int64 `json:"driver_mallocs"`

	Plan *stepplan.Figures `json:"plan,omitempty"` // with -plan
}

// measureCurve trains gpt on sequences of varying length.
func measureCurve(o options) (*Curve, error) {
	c := &Curve{Steps: o.varying}
	err := train(o, find("gpt"), func(t *trainer, step int) {
		s := t.alloc.Stats()
		now := s.AllocatedBytes.All.Current
		switch {
		case step == 1:
			c.AllocatedFirst, c.AllocatedLowest, c.AllocatedHighest = now, now, now
		case step > 1:
			c.AllocatedLowest, c.AllocatedHighest = min(c.AllocatedLowest, now), max(c.AllocatedHighest, now)
		}
		if step == o.varying/2 {
			c.ReservedHalf = s.ReservedBytes.All.Peak
		}
		c.AllocatedLast, c.PeakAllocated, c.ReservedLast = now, s.AllocatedBytes.All.Peak, s.ReservedBytes.All.Peak
		c.DriverMallocs, c.Plan = s.NumDeviceAlloc, stepplan.Of(t.plan)
	})
	return c, err
}

func (c *Curve) print(w io.Writer) {
	fmt.Fprintf(w, "%d steps of varying shapes, bytes\n\n", c.Steps)
	fmt.Fprintf(w, "allocated after a step   %d to %d, %d after the last\n", c.AllocatedLowest, c.AllocatedHighest, c.AllocatedLast)
	fmt.Fprintf(w, "peak allocated           %d\n", c.PeakAllocated)
	fmt.Fprintf(w, "peak reserved            %d after half of the steps, %d in the end\n", c.ReservedHalf, c.ReservedLast)
	fmt.Fprintf(w, "driver allocations       %d\n", c.DriverMallocs)
	if c.Plan != nil {
		fmt.Fprintf(w, "plan                     %s\n", c.Plan)
	}
}
