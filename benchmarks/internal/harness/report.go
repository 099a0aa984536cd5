package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/device"
)

// Head is what reports have besides the results.
type Head struct {
	Machine  machine.Facts `json:"machine"`
	Device   string        `json:"device"`
	Runs     int           `json:"runs"`
	Duration string        `json:"duration"` // of one run, about
	PyTorch  string        `json:"pytorch"`  // its version, or why it was left out
	Failed   Failures      `json:"failed,omitempty"`
}

// Head is the head of a report on a device, before PyTorch has run.
func (o *Flags) Head(dev device.Device) Head {
	return Head{Machine: machine.Here(), Device: dev.Properties().Name, Runs: o.Runs, Duration: o.Duration.String(), PyTorch: "not measured yet"}
}

// String is some lines.
func (h *Head) String() string {
	return fmt.Sprintf("%s\n%s\nmedian of %d runs of %s (fastest-slowest)\nPyTorch: %s\n", h.Machine, h.Device, h.Runs, h.Duration, h.PyTorch)
}

// Table writes a table of cells that tabs end, aligned to the right.
func Table(w io.Writer, rows func(w io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows(t)
	return t.Flush()
}

// WriteJSON writes v as JSON to a file, as Replace does. "" is no file.
func WriteJSON(file string, v any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return Replace(file, append(text, '\n'))
}

// Replace writes a file, which always is a whole one: it takes the place of the last one at once, so a program that is ended, or loses its
// device, leaves what it had.
func Replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
