package optim

import (
	stderrors "errors"
	"fmt"
	"math"
	"slices"
)

// Schedules that multiply: rates are products over epochs, or over schedules.

// PolynomialLR falls from base to 0 in total epochs, as a power of what is left of them
// (torch.optim.lr_scheduler.PolynomialLR; PyTorch's defaults are 5 and 1).
func PolynomialLR(opt Rated, total int, power float64) *Schedule {
	err := positive("total", total)
	if err == nil {
		err = amount("power", power)
	}
	return newSchedule("PolynomialLR", opt, factor(func(epoch int) float64 {
		return math.Pow(1-float64(min(total, epoch))/float64(total), power)
	}), err)
}

// MultiplicativeLR multiplies the last rate by f(epoch) at each epoch from 1 on (torch.optim.lr_scheduler.MultiplicativeLR). With several
// functions there is one for each group. They are called once for every epoch, and again for all of them after LoadState.
func MultiplicativeLR(opt Rated, f ...func(epoch int) float64) *Schedule {
	var err error
	if n := driven(opt).Groups(); len(f) != 1 && len(f) != n {
		err = fmt.Errorf("%d functions for %d groups", len(f), n)
	}
	if slices.ContainsFunc(f, func(f func(int) float64) bool { return f == nil }) {
		err = stderrors.New("a function is nil")
	}
	products := make([]runningProduct, len(f))
	for i := range f {
		products[i] = runningProduct{f: f[i], value: 1}
	}
	return newSchedule("MultiplicativeLR", opt, multiplied(products), err)
}

// runningProduct is f(1)*...*f(epoch), for the epoch asked for last.
type runningProduct struct {
	f     func(epoch int) float64
	epoch int
	value float64
}

func (p *runningProduct) at(epoch int) float64 {
	if epoch < p.epoch {
		p.epoch, p.value = 0, 1
	}
	for p.epoch < epoch {
		p.epoch++
		p.value *= p.f(p.epoch)
	}
	return p.value
}

type multiplied []runningProduct

func (m multiplied) rate(base float64, group, epoch int) float64 {
	if len(m) == 1 {
		group = 0
	}
	return base * m[group].at(epoch)
}

// maxFactors is up to which epoch a product is computed: a state that says more would keep the program busy for long.
const maxFactors = 1 << 28

func (m multiplied) check(epoch int) error {
	if epoch > maxFactors {
		return fmt.Errorf("epoch %d; the product is computed for 2^28 epochs at most", epoch)
	}
	return nil
}

// ChainedScheduler multiplies base by the factors of several schedules of the same optimizer, which all begin at epoch 0
// (torch.optim.lr_scheduler.ChainedScheduler). The schedules are those that multiply: StepLR, MultiStepLR, ExponentialLR, ConstantLR,
// LinearLR, PolynomialLR, MultiplicativeLR, CosineAnnealingLR with an etaMin of 0, and ChainedScheduler. Only their formulas are used.
func ChainedScheduler(opt Rated, schedules ...*Schedule) *Schedule {
	var err error
	if len(schedules) == 0 {
		err = stderrors.New("no schedules")
	}
	var c chain
	for _, s := range schedules {
		if e := s.Err(); e != nil {
			err = e
			continue
		}
		if s.opt != opt {
			err = fmt.Errorf("%s is of another optimizer", s.name)
		}
		switch s.rule.(type) {
		case factor, multiplied, chain:
		default:
			err = fmt.Errorf("%s sets rates and does not multiply them, so it cannot be chained", s.name)
		}
		c = append(c, s.rule)
	}
	return newSchedule("ChainedScheduler", opt, c, err)
}

// chain is the product of rules.
type chain []rule

func (c chain) rate(base float64, group, epoch int) float64 {
	for _, r := range c {
		base = r.rate(base, group, epoch)
	}
	return base
}

func (c chain) check(epoch int) error {
	for _, r := range c {
		if l, ok := r.(limited); ok {
			if err := l.check(epoch); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rates makes what schedules drive of variables that hold the learning rates of a program's own optimizer, one for each group:
//
//	schedule := optim.CosineAnnealingLR(optim.Rates(&mine.LR), 100, 0)
//
// It has no momentum. Schedules that are joined (SequentialLR, ChainedScheduler) must be of the same result of one call.
func Rates(lr ...*float64) Rated {
	r := &rates{lr: slices.Clone(lr), initial: make([]*float64, len(lr))}
	for i, p := range r.lr {
		if p == nil {
			r.lr[i] = new(float64)
		}
	}
	return r
}

type rates struct{ lr, initial []*float64 }

func (r *rates) Groups() int { return len(r.lr) }

func (r *rates) LR(group int) float64 {
	if group < 0 || group >= len(r.lr) {
		return 0
	}
	return *r.lr[group]
}

func (r *rates) SetLR(lr float64, groups ...int) {
	for i, p := range r.lr {
		if len(groups) == 0 || slices.Contains(groups, i) {
			*p = lr
		}
	}
}

func (r *rates) InitialLR(group int) float64 {
	if group < 0 || group >= len(r.lr) {
		return 0
	}
	if r.initial[group] == nil {
		lr := *r.lr[group]
		r.initial[group] = &lr
	}
	return *r.initial[group]
}

func (*rates) Momentum(int) float64 { return 0 }

func (*rates) SetMomentum(float64, int) {}
