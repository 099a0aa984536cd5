// Package classify trains models to recognize handwritten digits: what examples/mnist does with a small network and examples/cnn
// with a convolutional one.
package classify

import (
	"io"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// Options are the flags of a program, with their defaults, and what the learning rate does.
type Options struct {
	Device   string
	Data     string
	JSON     string
	Epochs   int
	Batch    int
	Seed     uint64
	LR       float64
	Fraction float64
	Plan     bool
	Watch    session.Watch

	Schedule Schedule
}

// Model makes a model, without values, for images of rows*cols elements.
type Model func(rows, cols int) (nn.Layer, error)

// Program is a training program.
type Program struct {
	Name     string
	Defaults Options
	// Flags adds the program's own flags.
	Flags func(f *session.Checked)
	Model Model
}

// Run is the main of a program with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, and
// 130 after Ctrl-C, which ends training after the step that runs; the table tells of the steps until then.
func (p *Program) Run(args []string, stdout, stderr io.Writer) int {
	var o *Options
	return command.Run(p.Name, stderr, func() (err error) {
		o, err = p.parse(args, stderr)
		return err
	}, func() error { return o.program(p.Model, stdout, stderr) })
}

func (p *Program) parse(args []string, stderr io.Writer) (*Options, error) {
	o := p.Defaults
	f := session.NewChecked(p.Name, stderr)
	f.DeviceFlag(&o.Device, "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.Data, "data", "", "folder with the four IDX files of MNIST, plain or gzipped (default: the embedded digits)")
	f.File(&o.JSON, "json", "", "file to write the figures to")
	f.Count(&o.Epochs, "epochs", o.Epochs, 1, 1_000_000, "passes over the training images")
	f.Count(&o.Batch, "batch", o.Batch, 1, session.MostBatch, "images per training step")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.Positive(&o.LR, "lr", o.LR, o.Schedule.usage())
	f.Part(&o.Fraction, "memory-fraction", 1, "part of the device's memory that may be reserved")
	f.PlanFlag(&o.Plan)
	o.Watch.AddFlags(f)
	p.Flags(f)
	return &o, f.Read(args)
}
