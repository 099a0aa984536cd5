package optim

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/internal/isnil"
)

// Rated is what schedules drive: an optimizer with learning rates by group. *Grouped is one.
type Rated interface {
	Groups() int
	LR(group int) float64
	SetLR(lr float64, groups ...int)
	// InitialLR is the learning rate that the group had when it was first asked for: what schedules start from, also those
	// that are made when others have already changed the rate.
	InitialLR(group int) float64
	Momentum(group int) float64
	SetMomentum(momentum float64, group int)
}

var _ Rated = (*Grouped)(nil)

// Schedule changes the learning rates of an optimizer as training goes on: call Step after each epoch, or after each step of the
// optimizer, in whichever the schedule counts. The rates are a function of the number of calls alone, in PyTorch's closed forms:
// where PyTorch multiplies the last rate, which differs in the last digits, and by what a program set in between, they are those
// of the formula. A Schedule is for one goroutine at a time.
type Schedule struct {
	name  string
	opt   Rated
	base  []float64 // initial learning rates by group
	epoch int
	rule  rule
	err   error
}

// rule gives the learning rate of a group at an epoch, from 0 on.
type rule interface {
	rate(base float64, group, epoch int) float64
}

// momentumRule is a rule that changes the momentum too.
type momentumRule interface {
	rule
	momentum(group, epoch int) float64
}

// limited is a rule that ends.
type limited interface {
	check(epoch int) error
}

// factor is a rule that multiplies the initial learning rate.
type factor func(epoch int) float64

func (f factor) rate(base float64, _, epoch int) float64 { return base * f(epoch) }

// between is a rule whose result does not go through 0.
type between func(base float64, epoch int) float64

func (f between) rate(base float64, _, epoch int) float64 { return f(base, epoch) }

const noOptimizer = "the optimizer is nil, or was not made by a constructor"

// nobody is driven by a schedule that was given no optimizer.
type nobody struct{}

func (nobody) Groups() int              { return 0 }
func (nobody) LR(int) float64           { return 0 }
func (nobody) SetLR(float64, ...int)    {}
func (nobody) InitialLR(int) float64    { return 0 }
func (nobody) Momentum(int) float64     { return 0 }
func (nobody) SetMomentum(float64, int) {}

// driven is opt, or nobody.
func driven(opt Rated) Rated {
	if g, ok := opt.(*Grouped); isnil.Value(opt) || ok && g.unmade() {
		return nobody{}
	}
	return opt
}

// newSchedule sets the rates of epoch 0.
func newSchedule(name string, opt Rated, r rule, err error) *Schedule {
	s := &Schedule{name: name, opt: driven(opt), rule: r}
	if s.opt == (nobody{}) {
		s.err = &ConfigError{name, noOptimizer}
		return s
	}
	if err != nil {
		s.err = &ConfigError{name, err.Error()}
		return s
	}
	for i := range opt.Groups() {
		s.base = append(s.base, opt.InitialLR(i))
	}
	rates, err := s.rates(s.base, 0)
	if err != nil {
		s.err, s.base = &ConfigError{name, err.Error()}, nil
		return s
	}
	s.apply(rates)
	return s
}

// rates are those of an epoch. A formula that gives what is none is an error.
func (s *Schedule) rates(base []float64, epoch int) ([]float64, error) {
	lrs := make([]float64, len(base))
	for i := range base {
		if lrs[i] = s.rule.rate(base[i], i, epoch); !countable(lrs[i]) {
			return nil, fmt.Errorf("the learning rate of epoch %d would be %v, of group %d; it must be finite and not negative", epoch, lrs[i], i)
		}
	}
	return lrs, nil
}

// apply sets the rates of the present epoch.
func (s *Schedule) apply(rates []float64) {
	for i, lr := range rates {
		s.opt.SetLR(lr, i)
		if m, ok := s.rule.(momentumRule); ok {
			if v := m.momentum(i, s.epoch); v >= 0 {
				s.opt.SetMomentum(v, i)
			}
		}
	}
}

// Step goes to the next epoch and sets its learning rates. It returns what is wrong with the schedule's settings, if anything. A
// formula that gives a rate which is negative, infinite or NaN is a *ConfigError, and the schedule stays where it is.
func (s *Schedule) Step() error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.opt.Groups() != len(s.base) {
		return &ConfigError{s.name, fmt.Sprintf("the optimizer has %d groups; it had %d when the schedule was made",
			s.opt.Groups(), len(s.base))}
	}
	if l, ok := s.rule.(limited); ok {
		if err := l.check(s.epoch + 1); err != nil {
			return &ConfigError{s.name, err.Error()}
		}
	}
	rates, err := s.rates(s.base, s.epoch+1)
	if err != nil {
		return &ConfigError{s.name, err.Error()}
	}
	s.epoch++
	s.apply(rates)
	return nil
}

// Name is the function that made the schedule, as in "StepLR".
func (s *Schedule) Name() string {
	if s == nil || s.name == "" {
		return "Schedule"
	}
	return s.name
}

// Err returns what is wrong with the schedule's settings, if anything.
func (s *Schedule) Err() error {
	if s == nil || s.opt == nil {
		return unmade("Schedule")
	}
	return s.err
}

// Epoch is the number of calls of Step.
func (s *Schedule) Epoch() int {
	if s == nil {
		return 0
	}
	return s.epoch
}

// LastLR is the learning rates that the schedule has set last, by group.
func (s *Schedule) LastLR() []float64 {
	if s == nil {
		return nil
	}
	lrs := make([]float64, len(s.base))
	for i, base := range s.base {
		lrs[i] = s.rule.rate(base, i, s.epoch)
	}
	return lrs
}

// ScheduleState is where a Schedule is. The names in JSON are those of PyTorch's state_dict. Settings are not part of it: make the
// schedule with the same ones again.
type ScheduleState struct {
	Schedule  string    `json:"schedule,omitempty"` // its name, as in "StepLR"; empty in a state that does not say it, as PyTorch's do not
	LastEpoch int       `json:"last_epoch"`
	BaseLRs   []float64 `json:"base_lrs"`
	LastLR    []float64 `json:"_last_lr"`
}

// State returns what LoadState takes.
func (s *Schedule) State() (ScheduleState, error) {
	if err := s.Err(); err != nil {
		return ScheduleState{}, err
	}
	return ScheduleState{Schedule: s.name, LastEpoch: s.epoch, BaseLRs: slices.Clone(s.base), LastLR: s.LastLR()}, nil
}

// CheckState refuses what LoadState would, and changes nothing: a *StateError.
func (s *Schedule) CheckState(st ScheduleState) error {
	_, err := s.checkState(st)
	return err
}

// checkState returns the rates of the state too.
func (s *Schedule) checkState(st ScheduleState) ([]float64, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) error {
		return &StateError{Of: s.name, Method: loadState, Detail: fmt.Sprintf(format, args...)}
	}
	if st.Schedule != "" && st.Schedule != s.name {
		return nil, another(s.name, loadState, st.Schedule)
	}
	if st.LastEpoch < 0 || st.LastEpoch > maxSteps {
		return nil, wrong("epoch %d; want one from 0 to 2^53", st.LastEpoch)
	}
	if n := len(s.base); len(st.BaseLRs) != n || len(st.LastLR) != n && st.LastLR != nil || s.opt.Groups() != n {
		return nil, wrong("%d base and %d last learning rates; the schedule has %d groups, the optimizer %d", len(st.BaseLRs), len(st.LastLR), n, s.opt.Groups())
	}
	for _, lr := range slices.Concat(st.BaseLRs, st.LastLR) {
		if !countable(lr) {
			return nil, wrong("learning rates %v and %v; they must be finite and not negative", st.BaseLRs, st.LastLR)
		}
	}
	if l, ok := s.rule.(limited); ok {
		if err := l.check(st.LastEpoch); err != nil {
			return nil, wrong("%v", err)
		}
	}
	rates, err := s.rates(st.BaseLRs, st.LastEpoch)
	if err != nil {
		return nil, wrong("%v", err)
	}
	return rates, s.checkMomenta(st, wrong)
}

// checkMomenta refuses a state whose momenta the optimizer would not take.
func (s *Schedule) checkMomenta(st ScheduleState, wrong func(string, ...any) error) error {
	m, ok := s.rule.(momentumRule)
	if !ok {
		return nil
	}
	for i := range st.BaseLRs {
		if v, old := m.momentum(i, st.LastEpoch), s.opt.Momentum(i); v >= 1 || v >= 0 && (v == 0) != (old == 0) {
			return wrong("the momentum of epoch %d would be %v; that of group %d is %v", st.LastEpoch, v, i, old)
		}
	}
	return nil
}

// LoadState goes on from a state, and sets the learning rates that belong to it.
func (s *Schedule) LoadState(st ScheduleState) error {
	rates, err := s.checkState(st)
	if err != nil {
		return err
	}
	s.epoch, s.base = st.LastEpoch, slices.Clone(st.BaseLRs)
	s.apply(rates)
	return nil
}
