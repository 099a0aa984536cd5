package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/device"
)

// report collects the figures of a run. On a simulated device accuracy and losses are 0, as nothing is computed there.
type report struct {
	Device          string  `json:"device"`
	Accuracy        float64 `json:"test_accuracy"`
	FirstLoss       float64 `json:"first_loss"`
	LastLoss        float64 `json:"last_loss"`
	Steps           int     `json:"steps"`
	StepsPerSecond  float64 `json:"steps_per_second"`
	PeakAllocated   int64   `json:"peak_allocated_bytes"`
	PeakReserved    int64   `json:"peak_reserved_bytes"`
	DriverMallocs   int64   `json:"driver_mallocs"`
	MallocsAfterTwo int64   `json:"driver_mallocs_after_step_2"`
	AfterRelease    uint64  `json:"allocated_after_release_bytes"` // after training, when all graphs are released
	Leaf            uint64  `json:"leaf_bytes"`                    // what parameters and optimizer state hold then
	AtEnd           uint64  `json:"allocated_at_end_bytes"`        // when the model is released too

	trainTime time.Duration
	summary   string
}

// step notes a training step: its loss, and the driver allocations so far.
func (r *report) step(loss float64, mallocs int64) {
	r.Steps++
	if r.Steps == 1 {
		r.FirstLoss = loss
	}
	if r.Steps <= 2 {
		r.MallocsAfterTwo = mallocs
	}
	r.LastLoss = loss
}

// print writes the closing table and the memory summary.
func (r *report) print(w io.Writer, t *trainer) {
	s := t.alloc.Stats()
	r.Device = t.dev.ID().String()
	r.PeakAllocated, r.PeakReserved = s.AllocatedBytes.All.Peak, s.ReservedBytes.All.Peak
	r.DriverMallocs = s.NumDeviceAlloc
	r.StepsPerSecond = float64(r.Steps) / r.trainTime.Seconds()

	size := func(n uint64) string { return fmt.Sprintf("%s (%d bytes)", device.FormatBytes(n), n) }
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(table, name+"\t"+format+"\n", args...) }
	fmt.Fprintln(table)
	row("device", "%s", r.Device)
	row("images", "%d to train, %d to test", t.train.Len(), t.test.Len())
	if t.dev.ID().Kind == device.Sim {
		row("test accuracy", "none: a simulated device does not compute")
	} else {
		row("test accuracy", "%.2f %%", 100*r.Accuracy)
		row("loss", "%.4f at first, %.4f at last", r.FirstLoss, r.LastLoss)
	}
	row("training steps", "%d, %.0f per second", r.Steps, r.StepsPerSecond)
	row("peak allocated", "%s", size(uint64(r.PeakAllocated)))
	row("peak reserved", "%s", size(uint64(r.PeakReserved)))
	row("driver allocations", "%d, of which %d in the first two steps", r.DriverMallocs, r.MallocsAfterTwo)
	row("allocated after training", "%s", size(r.AfterRelease))
	row("parameters, optimizer state", "%s", size(r.Leaf))
	row("allocated at the end", "%s", size(r.AtEnd))
	table.Flush()
	fmt.Fprintf(w, "\n%s", r.summary)
}

// write saves the figures as JSON, unless the file has no name.
func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return errors.WithStack(err)
	}
	return errors.Wrap(os.WriteFile(file, append(text, '\n'), 0o666), "writing the figures")
}
