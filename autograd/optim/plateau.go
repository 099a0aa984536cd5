package optim

import (
	"fmt"
	"math"
)

// PlateauOption changes a setting of ReduceLROnPlateau.
type PlateauOption func(*PlateauSchedule)

// MaxMode waits for a metric that rises. By default it must fall.
func MaxMode() PlateauOption { return func(s *PlateauSchedule) { s.rise = true } }

// PlateauFactor is what the rate is multiplied by. The default is 0.1; it must be in [0, 1).
func PlateauFactor(f float64) PlateauOption { return func(s *PlateauSchedule) { s.factor = f } }

// Patience is how many steps without improvement are borne. The default is 10.
func Patience(steps int) PlateauOption { return func(s *PlateauSchedule) { s.patience = steps } }

// Threshold is by how much the metric must change to count as better: by that part of the best one, or, if it is absolute, by that
// much. The default is 1e-4, relative.
func Threshold(v float64, absolute bool) PlateauOption {
	return func(s *PlateauSchedule) { s.threshold, s.absolute = v, absolute }
}

// Cooldown is how many steps after a reduction are not looked at. The default is 0.
func Cooldown(steps int) PlateauOption { return func(s *PlateauSchedule) { s.cooldown = steps } }

// MinLR is the least learning rate, for all groups, or one for each. The default is 0.
func MinLR(lr ...float64) PlateauOption { return func(s *PlateauSchedule) { s.least = lr } }

// PlateauEps is the least change of a rate that is made. The default is 1e-8.
func PlateauEps(eps float64) PlateauOption { return func(s *PlateauSchedule) { s.eps = eps } }

// PlateauSchedule is what ReduceLROnPlateau makes. It is for one goroutine at a time.
type PlateauSchedule struct {
	opt                Rated
	rise, absolute     bool
	factor             float64
	patience, cooldown int
	threshold, eps     float64
	least              []float64
	err                error

	best  float64
	bad   int // steps without improvement
	cool  int // steps of cooldown left
	epoch int
}

// ReduceLROnPlateau multiplies the learning rates by 0.1 when a metric has not improved for 10 steps
// (torch.optim.lr_scheduler.ReduceLROnPlateau).
func ReduceLROnPlateau(opt Rated, opts ...PlateauOption) *PlateauSchedule {
	s := &PlateauSchedule{opt: driven(opt), factor: 0.1, patience: 10, threshold: 1e-4, eps: 1e-8, least: []float64{0}}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	s.best = s.worst()
	if detail := s.wrong(); detail != "" {
		s.err = &ConfigError{"ReduceLROnPlateau", detail}
	}
	return s
}

// wrong says what is wrong with the settings, if anything.
func (s *PlateauSchedule) wrong() string {
	switch {
	case s.opt == (nobody{}):
		return noOptimizer
	case !(s.factor >= 0 && s.factor < 1):
		return fmt.Sprintf("factor %v; it must be at least 0 and less than 1", s.factor)
	case len(s.least) != 1 && len(s.least) != s.opt.Groups():
		return fmt.Sprintf("%d least rates for %d groups", len(s.least), s.opt.Groups())
	case !countable(math.Abs(s.threshold)) || !countable(math.Abs(s.eps)):
		return fmt.Sprintf("threshold %v and eps %v; they must be finite", s.threshold, s.eps)
	}
	for _, lr := range s.least {
		if err := amount("least rate", lr); err != nil {
			return err.Error()
		}
	}
	return ""
}

// settled returns what is wrong with the settings, if anything.
func (s *PlateauSchedule) settled() error {
	if s == nil || s.opt == nil {
		return unmade("ReduceLROnPlateau")
	}
	return s.err
}

// Step looks at the metric of an epoch, and reduces the rates if it is time. It returns what is wrong with the settings, if
// anything. A metric that is NaN is no improvement.
func (s *PlateauSchedule) Step(metric float64) error {
	if err := s.settled(); err != nil {
		return err
	}
	s.epoch++
	if s.better(metric) {
		s.best, s.bad = metric, 0
	} else {
		s.bad++
	}
	if s.cool > 0 {
		s.cool--
		s.bad = 0
	}
	if s.bad > s.patience {
		s.reduce()
		s.cool, s.bad = s.cooldown, 0
	}
	return nil
}

func (s *PlateauSchedule) better(v float64) bool {
	switch {
	case s.rise && s.absolute:
		return v > s.best+s.threshold
	case s.rise:
		return v > s.best*(1+s.threshold)
	case s.absolute:
		return v < s.best-s.threshold
	}
	return v < s.best*(1-s.threshold)
}

func (s *PlateauSchedule) reduce() {
	for i := range s.opt.Groups() {
		least := s.least[0]
		if len(s.least) > 1 && i < len(s.least) {
			least = s.least[i]
		}
		old := s.opt.LR(i)
		if lr := max(old*s.factor, least); old-lr > s.eps {
			s.opt.SetLR(lr, i)
		}
	}
}

// Name is "ReduceLROnPlateau".
func (s *PlateauSchedule) Name() string { return "ReduceLROnPlateau" }

// PlateauState is where a PlateauSchedule is. The names in JSON are those of PyTorch's state_dict. The learning rates are the
// optimizer's state.
type PlateauState struct {
	Best            *float64 `json:"best"` // null while no metric was better than the worst
	NumBadEpochs    int      `json:"num_bad_epochs"`
	CooldownCounter int      `json:"cooldown_counter"`
	LastEpoch       int      `json:"last_epoch"`
}

// State returns what LoadState takes.
func (s *PlateauSchedule) State() (PlateauState, error) {
	if s == nil || s.opt == nil {
		return PlateauState{}, s.settled()
	}
	st := PlateauState{NumBadEpochs: s.bad, CooldownCounter: s.cool, LastEpoch: s.epoch}
	if best := s.best; best != s.worst() { // -Inf in JSON is an error, but a metric that is -Inf is nothing else
		st.Best = &best
	}
	return st, s.err
}

// worst is the metric that every other is better than.
func (s *PlateauSchedule) worst() float64 {
	if s.rise {
		return math.Inf(-1)
	}
	return math.Inf(1)
}

// CheckState refuses what LoadState would, and changes nothing: a *StateError.
func (s *PlateauSchedule) CheckState(st PlateauState) error {
	if err := s.settled(); err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return &StateError{Of: "ReduceLROnPlateau", Method: loadState, Detail: fmt.Sprintf(format, args...)}
	}
	if st.Best != nil && math.IsNaN(*st.Best) {
		return wrong("best NaN; it must be a number")
	}
	for _, c := range []struct {
		name  string
		value int
	}{{"num_bad_epochs", st.NumBadEpochs}, {"cooldown_counter", st.CooldownCounter}, {"last_epoch", st.LastEpoch}} {
		if c.value < 0 || c.value > maxSteps {
			return wrong("%s %d; want one from 0 to 2^53", c.name, c.value)
		}
	}
	return nil
}

// LoadState goes on from a state.
func (s *PlateauSchedule) LoadState(st PlateauState) error {
	if err := s.CheckState(st); err != nil {
		return err
	}
	s.best = s.worst()
	if st.Best != nil {
		s.best = *st.Best
	}
	s.bad, s.cool, s.epoch = st.NumBadEpochs, st.CooldownCounter, st.LastEpoch
	return nil
}
