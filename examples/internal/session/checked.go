package session

import (
	"flag"
	"fmt"
	"io"
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/command"
)

// Bounds of numbers that several programs have: more than anybody means, and few enough that the arithmetic of sizes has no overflow and that
// what is prepared on the host is far below its memory.
const (
	MostSteps   = 1_000_000_000
	MostBatch   = 1 << 16
	MostWidth   = 1 << 16 // units or channels of a layer
	MostWritten = 100_000 // characters or tokens
	MostTokens  = 1 << 24 // different ones, and those of a batch
)

// Checked is a flag set whose values have bounds: the help tells them, and Read refuses what is outside, before any work.
type Checked struct {
	*flag.FlagSet
	checks  []func() error
	written []func() []Output
}

// NewChecked makes a program's flag set, without flags.
func NewChecked(program string, stderr io.Writer) *Checked {
	return &Checked{FlagSet: command.NewFlagSet(program, stderr)}
}

// Check adds what Read asks after the flags are read, in the order of the calls.
func (c *Checked) Check(f func() error) { c.checks = append(c.checks, f) }

// File adds a flag for a file that the program writes.
func (c *Checked) File(to *string, name, value, usage string) {
	c.StringVar(to, name, value, usage)
	c.Writes(func() []Output { return []Output{{name, *to}} })
}

// Writes tells of files that the program writes, as its flags say. Read refuses one that several flags name.
func (c *Checked) Writes(f func() []Output) { c.written = append(c.written, f) }

// Count adds a flag for a number of things.
func (c *Checked) Count(to *int, name string, value, least, most int, usage string) {
	c.IntVar(to, name, value, fmt.Sprintf("%s; %d to %d", usage, least, most))
	c.Check(func() error {
		if *to < least || *to > most {
			return fmt.Errorf("-%s is %d, must be %d to %d", name, *to, least, most)
		}
		return nil
	})
}

// Product bounds two counts of at least 1 together, which have flags already.
func (c *Checked) Product(most int, a *int, nameA string, b *int, nameB string) {
	for _, name := range []string{nameA, nameB} {
		c.Lookup(name).Usage += fmt.Sprintf(", and -%s times -%s up to %d", nameA, nameB, most)
	}
	c.Check(func() error {
		if *a > most / *b {
			return fmt.Errorf("-%s is %d and -%s %d, their product must be at most %d", nameA, *a, nameB, *b, most)
		}
		return nil
	})
}

// Number adds a flag for a number that holds is true of; must says so, as in "be positive".
func (c *Checked) Number(to *float64, name string, value float64, usage, must string, holds func(v float64) bool) {
	c.Float64Var(to, name, value, fmt.Sprintf("%s; must %s", usage, must))
	c.Check(func() error {
		if !holds(*to) {
			return fmt.Errorf("-%s is %g, must %s", name, *to, must)
		}
		return nil
	})
}

// Positive adds a flag for a positive number, as learning rates are.
func (c *Checked) Positive(to *float64, name string, value float64, usage string) {
	c.Number(to, name, value, usage, "be positive and finite", func(v float64) bool { return v > 0 && !math.IsInf(v, 0) })
}

// Part adds a flag for a number from 0 to 1.
func (c *Checked) Part(to *float64, name string, value float64, usage string) {
	c.Number(to, name, value, usage, "be 0 to 1", func(v float64) bool { return v >= 0 && v <= 1 })
}

// DeviceFlag adds -device. A name of no device is a wrong flag; a device that is not there is found out when it is opened.
func (c *Checked) DeviceFlag(to *string, usage string) {
	c.StringVar(to, "device", "host", usage)
	c.Check(func() error {
		if _, err := device.ParseSpec(*to); err != nil {
			return fmt.Errorf("-device: %w", err)
		}
		return nil
	})
}

// Read reads the arguments, and refuses values that must not be.
func (c *Checked) Read(args []string) error {
	if err := command.Parse(c.FlagSet, args); err != nil {
		return err
	}
	if c.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", c.Arg(0))
	}
	for _, check := range c.checks {
		if err := check(); err != nil {
			return err
		}
	}
	var all []Output
	for _, f := range c.written {
		all = append(all, f()...)
	}
	return distinct(all)
}
