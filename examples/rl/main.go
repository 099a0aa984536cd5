// Rl teaches an agent to balance a pole on a cart, by proximal policy optimization, and tells how long it does and what memory that took.
//
//	go run ./examples/rl                       on the host
//	go run ./examples/rl -updates 500          for longer
//	go run ./examples/rl -device cuda:0        on a GPU
//
// Some carts are pushed at once, by actions that the actor's probabilities are drawn from; after a number of steps the actor learns from how much
// better than the critic's expectation they went, and the critic what to expect. An episode ends when the pole falls, the cart leaves its track, or
// after 500 steps. It ends with a table of the mean length of the first and the last 100 episodes (about 20 and, after the usual updates, more than
// 300), and the memory summary of the device; -json writes the numbers to a file. Ctrl-C ends it after the update that runs; the exit code is 130.
package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	device, json                   string
	updates, carts, horizon, width int
	epochs                         int
	lr, gamma, entropy             float64
	seed                           uint64
}

// report is the program's JSON.
type report struct {
	Updates     int     `json:"updates"`
	Episodes    int     `json:"episodes"`
	FirstLength float64 `json:"first_length"` // mean of the first 100 episodes
	LastLength  float64 `json:"last_length"`  // and of the last
	LastLoss    float64 `json:"last_loss"`
	session.Memory
}

func main() { command.Main("rl", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("rl", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("rl", stderr)
	f.IntVar(&o.updates, "updates", 150, "times that the carts are pushed, and that the agent learns of it")
	f.IntVar(&o.carts, "carts", 16, "carts that are pushed at once")
	f.IntVar(&o.horizon, "horizon", 32, "steps of each cart for an update")
	f.IntVar(&o.epochs, "epochs", 6, "steps of the optimizer for an update")
	f.IntVar(&o.width, "width", 64, "units of a hidden layer")
	f.Float64Var(&o.lr, "lr", 1e-2, "learning rate")
	f.Float64Var(&o.gamma, "gamma", 0.99, "what a reward is worth a step later")
	f.Float64Var(&o.entropy, "entropy", 0.01, "weight of the actor's entropy")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random numbers")
	f.StringVar(&o.device, "device", "host", "where to run: host, host:4GiB or cuda:0")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	for name, n := range map[string]int{"updates": o.updates, "carts": o.carts, "horizon": o.horizon, "epochs": o.epochs, "width": o.width} {
		if n < 1 {
			return fmt.Errorf("-%s is %d, must be at least 1", name, n)
		}
	}
	switch {
	case !(o.lr > 0):
		return fmt.Errorf("-lr is %g, must be positive", o.lr)
	case !(o.gamma >= 0 && o.gamma <= 1):
		return fmt.Errorf("-gamma is %g, must be 0 to 1", o.gamma)
	case !(o.entropy >= 0):
		return fmt.Errorf("-entropy is %g, must not be negative", o.entropy)
	}
	return nil
}

func program(o options, stdout, stderr io.Writer) error {
	if err := session.CheckOutputs(session.Output{Flag: "json", File: o.json}); err != nil {
		return err
	}
	s, err := session.Open(o.device, 1)
	if err != nil {
		return err
	}
	var r report
	err = s.Close(train(s, o, &r, stderr))
	if err != nil && !errors.Is(err, session.ErrInterrupted) {
		return err
	}
	s.Print(stdout, func(row session.Row) {
		row("updates", "%d", r.Updates)
		row("episodes", "%d", r.Episodes)
		row("steps of the first 100", "%.1f", r.FirstLength)
		row("steps of the last 100", "%.1f", r.LastLength)
	})
	return errors.Join(err, session.WriteJSON(o.json, r))
}

func train(s *session.Session, o options, r *report, stderr io.Writer) error {
	if !s.Computes() {
		return fmt.Errorf("%s does not compute: there are no actions to draw", s.Name)
	}
	t, err := newTrainer(s, o)
	if err != nil {
		return err
	}
	defer func() {
		s.Trained(t.agent.Parameters(), t.opt)
		t.release()
		s.Released()
		r.Memory = s.Memory
		r.Updates, r.Episodes, r.LastLength = s.Steps, len(t.lengths), t.recent()
		r.FirstLength = mean(t.lengths[:min(len(t.lengths), 100)])
	}()
	to, end := session.Progress(stderr)
	defer end()
	bar := progressbar.NewOptions(o.updates, progressbar.OptionSetWriter(to), progressbar.OptionShowCount(), progressbar.OptionFullWidth())
	for range o.updates {
		if s.Interrupted() {
			return session.ErrInterrupted
		}
		if r.LastLoss, err = t.step(); err != nil {
			return err
		}
		bar.Describe(fmt.Sprintf("%5.1f steps", t.recent()))
		_ = bar.Add(1)
	}
	return bar.Finish()
}
