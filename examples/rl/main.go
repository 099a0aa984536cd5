// Rl teaches an agent to balance a pole on a cart, by proximal policy optimization, and tells how long it does and what memory that took.
//
//	go run ./examples/rl                       on the host
//	go run ./examples/rl -updates 500          for longer
//	go run ./examples/rl -device cuda:0        on a GPU
//
// Some carts are pushed at once, by actions that the actor's probabilities are drawn from; after a number of steps the actor learns from how much
// better than the critic's expectation they went, and the critic what to expect. An episode ends when the pole falls, the cart leaves its track, or
// after 500 steps. It ends with a table of the mean length of the first and the last 100 episodes (about 20 and, after the usual updates, more than
// 300), and the memory summary of the device; -json writes the numbers to a file. Ctrl-C ends it at the next step of the carts or the optimizer; the exit code
// is 130.
package main

import (
	"fmt"
	"io"
	"math"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
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
	f := session.NewFlags("rl", stderr)
	return command.Run("rl", stderr, func() error { return o.parse(f, args) }, func() error { return program(f, o, stdout, stderr) })
}

func (o *options) parse(f *session.Flags, args []string) error {
	f.Count(&o.updates, "updates", 150, 1, session.MostSteps, "times that the carts are pushed, and that the agent learns of it")
	f.Count(&o.carts, "carts", 16, 1, session.MostBatch, "carts that are pushed at once")
	f.Count(&o.horizon, "horizon", 32, 1, session.MostBatch, "steps of each cart for an update")
	f.Product(1<<22, &o.carts, "carts", &o.horizon, "horizon")
	f.Count(&o.epochs, "epochs", 6, 1, 10_000, "steps of the optimizer for an update")
	f.Count(&o.width, "width", 64, 1, session.MostWidth, "units of a hidden layer")
	f.Positive(&o.lr, "lr", 1e-2, "learning rate")
	f.Part(&o.gamma, "gamma", 0.99, "what a reward is worth a step later")
	f.Number(&o.entropy, "entropy", 0.01, "weight of the actor's entropy", "be finite and not negative",
		func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) })
	err := f.Read(args)
	o.seed = f.Seed
	return err
}

func program(f *session.Flags, o options, stdout, stderr io.Writer) error {
	var r report
	return f.Run(session.Work{
		Train:  func(s *session.Session) error { return train(s, o, &r, stderr) },
		Needs:  "actions to draw",
		Report: &r, Memory: &r.Memory,
		Rows: func(row session.Row) {
			row("updates", "%d", r.Updates)
			row("episodes", "%d", r.Episodes)
			row("steps of the first 100", "%.1f", r.FirstLength)
			row("steps of the last 100", "%.1f", r.LastLength)
		},
	}, stdout)
}

func train(s *session.Session, o options, r *report, stderr io.Writer) error {
	t, err := newTrainer(s, o)
	if err != nil {
		return err
	}
	defer func() {
		s.Trained(t.agent.Parameters(), t.opt)
		t.release()
		s.Released()
		r.Updates, r.Episodes, r.LastLength = s.Steps, len(t.lengths), t.recent()
		r.FirstLength = mean(t.lengths[:min(len(t.lengths), 100)])
	}()
	return s.Loop(stderr, o.updates, func() (string, error) {
		loss, err := t.step()
		if err != nil {
			return "", err
		}
		r.LastLoss = loss
		return fmt.Sprintf("%5.1f steps", t.recent()), nil
	})
}
