package harness

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/device"
)

// Failures are cells that could not be measured, each with its error. The others count all the same.
type Failures []string

// Add notes an error and returns nil, so that the next cell can be measured; or the error, if it ended the device.
func (f *Failures) Add(dev device.Device, cell string, err error) error {
	*f = append(*f, fmt.Sprintf("%s: %v", cell, err))
	if d, ok := dev.(interface{ Err() error }); ok && d.Err() != nil {
		return fmt.Errorf("%s: %w", cell, err)
	}
	return nil
}

// Print writes a line for each.
func (f Failures) Print(w io.Writer) error {
	for _, line := range f {
		if _, err := fmt.Fprintln(w, "FAILED", line); err != nil {
			return err
		}
	}
	return nil
}

// Err is an error if there are any.
func (f Failures) Err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("one cell failed: %s", f[0])
	}
	return fmt.Errorf("%d cells failed, first %s", len(f), f[0])
}
