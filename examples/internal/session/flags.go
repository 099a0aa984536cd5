package session

import (
	"flag"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/internal/command"
)

// Flags are the flags of a program that trains: those that all such programs have, the program's own, and what is asked of their values.
type Flags struct {
	*flag.FlagSet
	Device string
	JSON   string
	Seed   uint64
	Watch  Watch

	stderr io.Writer
	checks []func() error
}

// NewFlags makes a program's flags, with -device, -json and -seed.
func NewFlags(program string, stderr io.Writer) *Flags {
	f := &Flags{FlagSet: command.NewFlagSet(program, stderr), stderr: stderr}
	f.StringVar(&f.Device, "device", "host", "where to run: host, host:4GiB or cuda:0")
	f.StringVar(&f.JSON, "json", "", "file to write the figures to")
	f.Uint64Var(&f.Seed, "seed", 1, "seed of all random numbers")
	f.Watch.AddFlags(f.FlagSet)
	return f
}

// Count adds a flag for a number of things, of which there is at least one.
func (f *Flags) Count(to *int, name string, value int, usage string) {
	f.IntVar(to, name, value, usage)
	f.checks = append(f.checks, func() error {
		if *to < 1 {
			return fmt.Errorf("-%s is %d, must be at least 1", name, *to)
		}
		return nil
	})
}

// Number adds a flag for a number that holds is true of; must says so, as in "be positive".
func (f *Flags) Number(to *float64, name string, value float64, usage, must string, holds func(v float64) bool) {
	f.Float64Var(to, name, value, usage)
	f.checks = append(f.checks, func() error {
		if !holds(*to) {
			return fmt.Errorf("-%s is %g, must %s", name, *to, must)
		}
		return nil
	})
}

// Rate adds a flag for a learning rate.
func (f *Flags) Rate(to *float64, name string, value float64, usage string) {
	f.Number(to, name, value, usage, "be positive", func(v float64) bool { return v > 0 })
}

// Read reads the arguments, and refuses values that must not be.
func (f *Flags) Read(args []string) error {
	if err := command.Parse(f.FlagSet, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	for _, check := range f.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
