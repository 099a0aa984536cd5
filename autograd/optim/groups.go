package optim

import "fmt"

// What of a group's settings can be read and changed while training: what schedules drive.

// Groups is the number of groups.
func (o *Grouped) Groups() int { return len(o.list()) }

// LR returns the learning rate of a group, 0 if there is no such group.
func (o *Grouped) LR(group int) float64 {
	if group < 0 || group >= len(o.list()) {
		return 0
	}
	return o.groups[group].settings.LR
}

// InitialLR is the learning rate that a group had when InitialLR was first called for it: what schedules start from. It is 0 if
// there is no such group. A StateDict has it, as "initial_lr".
func (o *Grouped) InitialLR(group int) float64 {
	if group < 0 || group >= len(o.list()) {
		return 0
	}
	g := o.groups[group]
	if g.initial == nil {
		lr := g.settings.LR
		g.initial = &lr
	}
	return *g.initial
}

// SetLR changes the learning rate from the next step on: of the given groups, or of all if none is given. A rate
// that LR would not take, and a group that does not exist, are errors of Err and Step.
func (o *Grouped) SetLR(lr float64, groups ...int) {
	for _, i := range groups {
		o.exists("SetLR", i)
	}
	for i, g := range o.list() {
		if len(groups) == 0 {
			g.settings.LR = lr
		}
		for _, j := range groups {
			if i == j {
				g.settings.LR = lr
			}
		}
	}
	if o != nil && !countable(lr) {
		o.fail(&ConfigError{o.name, fmt.Sprintf("learning rate %v; it must be finite and not negative", lr)})
	}
}

// Momentum returns what a group calls momentum: that of SGD and RMSprop, and of the Adam family and Lion the first of the betas.
// It is 0 if there is no such group.
func (o *Grouped) Momentum(group int) float64 {
	if group < 0 || group >= len(o.list()) {
		return 0
	}
	return *o.momentumOf(group)
}

// exists refuses a group that does not.
func (o *Grouped) exists(method string, group int) bool {
	if group >= 0 && group < len(o.list()) {
		return true
	}
	if o.unmade() {
		return false
	}
	o.fail(&ConfigError{o.name, fmt.Sprintf("%s: there is no group %d, of %d", method, group, len(o.groups))})
	return false
}

// SetMomentum changes it from the next step on. It is an error, kept as SetLR keeps it, if there is no such group, if
// the value is not in [0, 1), or if it would switch a momentum on or off: that state would be missing, or useless.
func (o *Grouped) SetMomentum(momentum float64, group int) {
	if !o.exists("SetMomentum", group) {
		return
	}
	m := o.momentumOf(group)
	if !(momentum >= 0 && momentum < 1) || m == &o.groups[group].settings.Momentum && (*m == 0) != (momentum == 0) {
		o.fail(&ConfigError{o.name, fmt.Sprintf("momentum changed from %v to %v; it must stay in (0, 1)", *m, momentum)})
		return
	}
	*m = momentum
}

// momentumOf is the setting that stands for the momentum.
func (o *Grouped) momentumOf(group int) *float64 {
	s := &o.groups[group].settings
	for _, f := range o.method.fields(s) {
		if f.key == "betas" {
			return f.numbers[0]
		}
	}
	return &s.Momentum
}
