package classify

import "github.com/cistern-ml/cistern/autograd/optim"

// Schedule is how the learning rate goes from the first training step to the last.
type Schedule int

const (
	// Linear lets the rate fall to 0 along a line.
	Linear Schedule = iota
	// OneCycle lets the rate rise for three tenths of the steps and fall to almost 0 in the others (optim.OneCycleLR).
	OneCycle
)

// usage describes the rate that a program's -lr sets.
func (s Schedule) usage() string {
	if s == OneCycle {
		return "the largest learning rate; the rate rises to it and falls to almost 0"
	}
	return "learning rate at the start; it falls to 0 linearly"
}

// over is the schedule of a training of so many steps, for the rate that opt has.
func (s Schedule) over(opt optim.Rated, steps int) *optim.Schedule {
	if s == OneCycle {
		return optim.OneCycleLR(opt, []float64{opt.LR(0)}, steps)
	}
	return optim.LinearLR(opt, 1, 0, steps)
}
