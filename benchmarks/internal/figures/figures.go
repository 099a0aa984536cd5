// Package figures writes what a benchmark measures while it goes on: a program that is ended, or loses its device, leaves what it had.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/cistern-ml/cistern/device"
)

// Write writes v as JSON to a file, which always is a whole one: it takes the place of the last one at once. "" is no file.
func Write(file string, v any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

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
