// Diffusion teaches a network to find the noise in noisy digits, draws digits by taking noise away step by step, and tells how far they are from
// real ones and what memory it took.
//
//	go run ./examples/diffusion                    on the host, with the 10,000 digits that ship with examples/mnist, of 14 by 14 pixels
//	go run ./examples/diffusion -png digits.png    with a picture of what was drawn
//	go run ./examples/diffusion -full -steps 5000  with digits of 28 by 28 pixels, for longer
//	go run ./examples/diffusion -device cuda:0     on a GPU
//
// It is a denoising diffusion probabilistic model (Ho and others, 2020) with the cosine schedule; digits are drawn by the mean of the weights over the
// last steps (nn.EMA). The distance is the one of Fréchet between features that a classifier of real digits sees in drawn and in real digits: 3.2 before
// training and 0.5 after the usual steps, where as many real digits are at 0.2. It ends with a table, some of the digits in characters, and the memory
// summary of the device; -json writes the numbers to a file, -save the mean weights. Ctrl-C ends what runs after its batch, draws some digits, saves,
// and prints the table; the exit code is 130.
package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	data, png, save               string
	full                          bool
	steps, batch, channels, times int
	compared                      int
	lr, decay                     float64
	seed                          uint64
}

// report is the program's JSON. Distances that were not taken, after Ctrl-C, are left out.
type report struct {
	FirstDistance float64 `json:"first_distance,omitempty"` // of what is drawn before the first step
	LastDistance  float64 `json:"last_distance,omitempty"`  // and after the last
	RealDistance  float64 `json:"real_distance,omitempty"`  // of as many digits of those that were trained on
	FirstLoss     float64 `json:"first_loss"`
	LastLoss      float64 `json:"last_loss"` // mean of the last steps
	session.Memory

	drawn []float32
	side  int
}

func main() { command.Main("diffusion", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	f := session.NewFlags("diffusion", stderr)
	return command.Run("diffusion", stderr, func() error { return o.parse(f, args) }, func() error { return program(f, o, stdout, stderr) })
}

func (o *options) parse(f *session.Flags, args []string) error {
	f.StringVar(&o.data, "data", "", "folder with the four IDX files of MNIST, plain or gzipped (default: the embedded digits)")
	f.File(&o.png, "png", "", "file to draw some digits into, as PNG")
	f.File(&o.save, "save", "", "file to write the mean weights to, at the end")
	f.BoolVar(&o.full, "full", false, "digits of 28 by 28 pixels")
	f.Count(&o.steps, "steps", 1000, 1, session.MostSteps, "training steps")
	f.Count(&o.batch, "batch", 64, 1, session.MostBatch, "digits per training step")
	f.Count(&o.channels, "channels", 16, 1, session.MostWidth, "channels of the largest images inside, a multiple of 4; the smaller ones have twice as many")
	f.Count(&o.times, "times", 50, 1, 10_000, "steps from an image to noise, and back")
	f.Count(&o.compared, "compared", 300, 1, 100_000, "digits to draw and compare")
	f.Positive(&o.lr, "lr", 2e-3, "learning rate")
	f.Part(&o.decay, "decay", 0.99, "part of the mean weights that stays in a step")
	err := f.Read(args)
	if err == nil && o.channels%groups != 0 {
		err = fmt.Errorf("-channels is %d, must be a multiple of %d", o.channels, groups)
	}
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
			row("loss", "%.4f at first, %.4f at last", r.FirstLoss, r.LastLoss)
		},
		Write: func(stdout io.Writer) error { return digits.Show(stdout, o.png, r.drawn, r.side) },
	}, stdout)
}
