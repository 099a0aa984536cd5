package session

import "io"

// Flags are the flags of a program that trains: those that all such programs have, the program's own, and what is asked of their values.
type Flags struct {
	*Checked
	Device string
	JSON   string
	Seed   uint64
	Plan   bool
	Watch  Watch

	stderr io.Writer
}

// NewFlags makes a program's flags, with -device, -json, -seed and -plan.
func NewFlags(program string, stderr io.Writer) *Flags {
	f := &Flags{Checked: NewChecked(program, stderr), stderr: stderr}
	f.DeviceFlag(&f.Device, "where to run: host, host:4GiB or cuda:0")
	f.File(&f.JSON, "json", "", "file to write the figures to")
	f.Uint64Var(&f.Seed, "seed", 1, "seed of all random numbers")
	f.PlanFlag(&f.Plan)
	f.Watch.AddFlags(f.Checked)
	return f
}
