package lm

import (
	"flag"
	"fmt"
)

// Program is what the flags of a program say that trains: the run, and where and on what.
type Program struct {
	Config
	Device string
	Text   string
	JSON   string
}

// Flags adds the flags of a program to f, with their defaults.
func (p *Program) Flags(f *flag.FlagSet) {
	p.Config.Flags(f)
	f.StringVar(&p.Device, "device", "host", "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&p.Text, "text", "", "text to learn, in UTF-8 (default: Newton's Opticks, which every Go installation has)")
	f.StringVar(&p.JSON, "json", "", "file to write the figures to")
}

// Check refuses what cannot be trained, and arguments.
func (p *Program) Check(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return p.Config.Check()
}
