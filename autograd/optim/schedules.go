package optim

import (
	"cmp"
	stderrors "errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// The schedules whose rates are simple functions. base is a group's initial learning rate.

// LambdaLR sets base*f(epoch) (torch.optim.lr_scheduler.LambdaLR). With several functions there is one for each group.
func LambdaLR(opt Rated, f ...func(epoch int) float64) *Schedule {
	var err error
	if n := driven(opt).Groups(); len(f) != 1 && len(f) != n {
		err = fmt.Errorf("%d functions for %d groups", len(f), n)
	}
	if slices.ContainsFunc(f, func(f func(int) float64) bool { return f == nil }) {
		err = stderrors.New("a function is nil")
	}
	return newSchedule("LambdaLR", opt, lambdas(f), err)
}

type lambdas []func(epoch int) float64

func (f lambdas) rate(base float64, group, epoch int) float64 {
	if len(f) == 1 {
		group = 0
	}
	return base * f[group](epoch)
}

// StepLR multiplies by gamma every size epochs (torch.optim.lr_scheduler.StepLR; PyTorch's default gamma is 0.1).
func StepLR(opt Rated, size int, gamma float64) *Schedule {
	return newSchedule("StepLR", opt, factor(func(epoch int) float64 { return math.Pow(gamma, float64(epoch/size)) }),
		cmp.Or(positive("step size", size), amount("gamma", gamma)))
}

// MultiStepLR multiplies by gamma at each milestone (torch.optim.lr_scheduler.MultiStepLR; PyTorch's default gamma is 0.1).
// Milestones are epochs in any order; one that is there twice counts twice.
func MultiStepLR(opt Rated, milestones []int, gamma float64) *Schedule {
	sorted := slices.Clone(milestones)
	slices.Sort(sorted)
	return newSchedule("MultiStepLR", opt, factor(func(epoch int) float64 {
		return math.Pow(gamma, float64(passed(sorted, epoch)))
	}), amount("gamma", gamma))
}

// passed is how many milestones the epoch has reached.
func passed(milestones []int, epoch int) int { return sort.SearchInts(milestones, epoch+1) }

// ExponentialLR multiplies by gamma every epoch (torch.optim.lr_scheduler.ExponentialLR).
func ExponentialLR(opt Rated, gamma float64) *Schedule {
	return newSchedule("ExponentialLR", opt, factor(func(epoch int) float64 { return math.Pow(gamma, float64(epoch)) }),
		amount("gamma", gamma))
}

// ConstantLR sets base*f until epoch total, and base from then on (torch.optim.lr_scheduler.ConstantLR; PyTorch's defaults are
// 1/3 and 5).
func ConstantLR(opt Rated, f float64, total int) *Schedule {
	return newSchedule("ConstantLR", opt, factor(func(epoch int) float64 {
		if epoch < total {
			return f
		}
		return 1
	}), unit("factor", f))
}

// LinearLR goes from base*start to base*end in total epochs, and stays there: a warm-up
// (torch.optim.lr_scheduler.LinearLR; PyTorch's defaults are 1/3, 1 and 5). start is in (0, 1], end in [0, 1].
func LinearLR(opt Rated, start, end float64, total int) *Schedule {
	err := cmp.Or(positive("total", total), unit("end factor", end))
	if !(start > 0 && start <= 1) {
		err = fmt.Errorf("start factor %v; it must be in (0, 1]", start)
	}
	return newSchedule("LinearLR", opt, factor(func(epoch int) float64 {
		return start + (end-start)*float64(min(epoch, total))/float64(total)
	}), err)
}

// CosineAnnealingLR goes from base to etaMin in half a cosine of tMax epochs, and back in the next half
// (torch.optim.lr_scheduler.CosineAnnealingLR; PyTorch's default etaMin is 0; Loshchilov and Hutter, "SGDR", 2017).
func CosineAnnealingLR(opt Rated, tMax int, etaMin float64) *Schedule {
	err := cmp.Or(positive("T max", tMax), amount("eta min", etaMin))
	if etaMin == 0 { // then it multiplies, and can be chained
		return newSchedule("CosineAnnealingLR", opt, factor(func(epoch int) float64 { return halfCosine(epoch, tMax) }), err)
	}
	return newSchedule("CosineAnnealingLR", opt, between(func(base float64, epoch int) float64 {
		return etaMin + (base-etaMin)*halfCosine(epoch, tMax)
	}), err)
}

// halfCosine falls from 1 at 0 to 0 at period.
func halfCosine(epoch, period int) float64 {
	return (1 + math.Cos(math.Pi*float64(epoch)/float64(period))) / 2
}

// CosineAnnealingWarmRestarts goes from base to etaMin in half a cosine of t0 epochs, starts anew with one tMult times as long,
// and so on (torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; PyTorch's defaults of tMult and etaMin are 1 and 0).
func CosineAnnealingWarmRestarts(opt Rated, t0, tMult int, etaMin float64) *Schedule {
	err := cmp.Or(positive("T 0", t0), positive("T mult", tMult), amount("eta min", etaMin))
	return newSchedule("CosineAnnealingWarmRestarts", opt, between(func(base float64, epoch int) float64 {
		period := t0
		for epoch >= period {
			if tMult == 1 {
				epoch %= period
				break
			}
			epoch -= period
			if period > math.MaxInt/tMult { // the next one has no end
				period = math.MaxInt
				break
			}
			period *= tMult
		}
		return etaMin + (base-etaMin)*halfCosine(epoch, period)
	}), err)
}

// SequentialLR follows schedules one after the other (torch.optim.lr_scheduler.SequentialLR): the next begins, at its epoch 0, at
// each milestone, so there is one fewer of these. The schedules are of the same optimizer, and only their formulas are used.
func SequentialLR(opt Rated, schedules []*Schedule, milestones []int) *Schedule {
	var err error
	if len(schedules) == 0 || len(milestones) != len(schedules)-1 {
		err = fmt.Errorf("%d schedules and %d milestones; there must be one milestone fewer", len(schedules), len(milestones))
	}
	if !slices.IsSorted(milestones) {
		err = fmt.Errorf("milestones %v do not rise", milestones)
	}
	r := sequence{starts: append([]int{0}, milestones...)}
	for _, s := range schedules {
		if s == nil {
			err = stderrors.New("a schedule is nil")
			continue
		}
		if s.opt != opt {
			err = fmt.Errorf("%s is of another optimizer", s.name)
		}
		if e := s.Err(); e != nil {
			err = e
		}
		r.rules = append(r.rules, s.rule)
	}
	return newSchedule("SequentialLR", opt, &r, err)
}

type sequence struct {
	rules  []rule
	starts []int
}

// at is the rule of an epoch, and the epoch as that counts.
func (s *sequence) at(epoch int) (rule, int) {
	i := max(passed(s.starts, epoch)-1, 0)
	return s.rules[i], epoch - s.starts[i]
}

func (s *sequence) rate(base float64, group, epoch int) float64 {
	r, e := s.at(epoch)
	return r.rate(base, group, e)
}

func (s *sequence) momentum(group, epoch int) float64 {
	r, e := s.at(epoch)
	if m, ok := r.(momentumRule); ok {
		return m.momentum(group, e)
	}
	return -1
}

func (s *sequence) check(epoch int) error {
	r, e := s.at(epoch)
	if l, ok := r.(limited); ok {
		return l.check(e)
	}
	return nil
}

func positive(what string, v int) error {
	if v < 1 {
		return fmt.Errorf("%s %d; it must be at least 1", what, v)
	}
	return nil
}

// amount refuses what no learning rate can be, or be multiplied by.
func amount(what string, v float64) error {
	if !countable(v) {
		return fmt.Errorf("%s %v; it must be finite and not negative", what, v)
	}
	return nil
}

func unit(what string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return fmt.Errorf("%s %v; it must be in [0, 1]", what, v)
	}
	return nil
}
