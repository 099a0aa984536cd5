// Gan teaches two networks against each other, one to draw handwritten digits and one to tell drawn from real ones, and tells how far the drawn ones
// are from real ones and what memory it took.
//
//	go run ./examples/gan                      on the host, with the 10,000 digits that ship with examples/mnist
//	go run ./examples/gan -png digits.png      with a picture of what was drawn
//	go run ./examples/gan -data DIR            with the four files of the full database, plain or gzipped
//	go run ./examples/gan -device cuda:0       on a GPU
//
// Both networks are convolutional (Radford and others, 2016). The distance is the one of Fréchet between features that a classifier of real digits sees
// in 1,000 drawn and in real digits: 18.9 before training and 0.8 after the usual steps, where as many real digits are at 0.1. It ends with a table,
// some of the digits in characters, and the memory summary of the device; -json writes the numbers to a file, -save the generator's weights. Ctrl-C ends
// what runs after its batch, draws some digits, saves, and prints the table; the exit code is 130.
package main

import (
	"io"

	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	data, png, save              string
	steps, batch, channels, code int
	lr                           float64
	seed                         uint64
}

// report is the program's JSON. Distances that were not taken, after Ctrl-C, are left out.
type report struct {
	FirstDistance float64 `json:"first_distance,omitempty"` // of what is drawn before the first step
	LastDistance  float64 `json:"last_distance,omitempty"`  // and after the last
	RealDistance  float64 `json:"real_distance,omitempty"`  // of as many digits of those that were trained on
	DrawnLoss     float64 `json:"generator_loss"`
	JudgedLoss    float64 `json:"discriminator_loss"`
	session.Memory

	drawn []float32 // some digits
	side  int
}

func main() { command.Main("gan", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	f := session.NewFlags("gan", stderr)
	return command.Run("gan", stderr, func() error { return o.parse(f, args) }, func() error { return program(f, o, stdout, stderr) })
}

func (o *options) parse(f *session.Flags, args []string) error {
	f.StringVar(&o.data, "data", "", "folder with the four IDX files of MNIST, plain or gzipped (default: the embedded digits)")
	f.File(&o.png, "png", "", "file to draw some digits into, as PNG")
	f.File(&o.save, "save", "", "file to write the generator's weights to, at the end")
	f.Count(&o.steps, "steps", 1000, 1, session.MostSteps, "training steps")
	f.Count(&o.batch, "batch", 64, 1, session.MostBatch, "digits per training step")
	f.Count(&o.channels, "channels", 16, 1, session.MostWidth, "channels of the largest images inside; the smaller ones have twice as many")
	f.Count(&o.code, "code", 32, 1, session.MostWidth, "random numbers that a digit is drawn from")
	f.Positive(&o.lr, "lr", 1e-3, "learning rate of both networks")
	err := f.Read(args)
	o.seed = f.Seed
	return err
}

func program(f *session.Flags, o options, stdout, stderr io.Writer) error {
	var r report
	return f.Run(session.Work{
		Train:  func(s *session.Session) error { return train(s, o, &r, stderr) },
		Needs:  "digits to draw",
		Report: &r, Memory: &r.Memory,
		Outputs: []session.Output{{Flag: "png", File: o.png}, {Flag: "save", File: o.save}},
		Rows: func(row session.Row) {
			row("training steps", "%d", r.Steps)
			row("distance from real digits", "%s", digits.Distances(r.FirstDistance, r.LastDistance, r.RealDistance))
			row("loss", "%.4f of the generator, %.4f of the discriminator", r.DrawnLoss, r.JudgedLoss)
		},
		Write: func(stdout io.Writer) error { return digits.Show(stdout, o.png, r.drawn, r.side) },
	}, stdout)
}
