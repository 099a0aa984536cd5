package lm

import "github.com/cistern-ml/cistern/examples/internal/session"

// Program is what the flags of a program say that trains: the run, and where and on what.
type Program struct {
	Config
	Device string
	Text   string
	JSON   string
}

// Flags adds the flags of a program to f, with their defaults; there are so many steps at least.
func (p *Program) Flags(f *session.Checked, leastSteps int) {
	p.Config.Flags(f, leastSteps)
	f.DeviceFlag(&p.Device, "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&p.Text, "text", "", "text to learn, in UTF-8 (default: Newton's Opticks, which every Go installation has)")
	f.File(&p.JSON, "json", "", "file to write the figures to")
}
