package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/oneline"
)

// String is the optimizer in one line, as in "Adam: 2 groups, 31 parameters, lr 0.001, 120 steps". Groups of different learning rates
// show the least and the largest. Steps are those of the parameter that has taken most; steps that are counted on the device (see
// Capturable) are left out, because reading them would wait. StateDict has them.
func (o *Grouped) String() string {
	if o.unmade() {
		return "optimizer (nil)"
	}
	if o.err != nil {
		return failed(o.name, o.err)
	}
	text := fmt.Sprintf("%s: %s, %s, %s", o.name, oneline.Count(len(o.groups), "group"), oneline.Count(len(o.Parameters()), "parameter"), o.rates())
	if len(o.counters) > 0 {
		return text
	}
	steps := 0
	for _, s := range o.states {
		if s != nil {
			steps = max(steps, s.steps)
		}
	}
	return text + ", " + oneline.Count(steps, "step")
}

// rates is the learning rates of the groups, as in "lr 0.001 to 0.1".
func (o *Grouped) rates() string {
	least, most := o.LR(0), o.LR(0)
	for i := range o.groups {
		least, most = min(least, o.LR(i)), max(most, o.LR(i))
	}
	if least == most {
		return fmt.Sprintf("lr %v", least)
	}
	return fmt.Sprintf("lr %v to %v", least, most)
}

// String is the schedule in one line, as in "StepLR: epoch 3".
func (s *Schedule) String() string {
	if s == nil || s.opt == nil {
		return "schedule (nil)"
	}
	return scheduled(s.name, s.epoch, s.err)
}

// String is the schedule in one line, as in "ReduceLROnPlateau: epoch 3".
func (s *PlateauSchedule) String() string {
	if s == nil || s.opt == nil {
		return "schedule (nil)"
	}
	return scheduled(s.Name(), s.epoch, s.err)
}

func scheduled(name string, epoch int, err error) string {
	if err != nil {
		return failed(name, err)
	}
	return fmt.Sprintf("%s: epoch %d", name, epoch)
}

// failed is what cannot be used, with the first line of why.
func failed(name string, err error) string {
	return name + ", failed: " + oneline.Error(err)
}
