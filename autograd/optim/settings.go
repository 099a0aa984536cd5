package optim

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Settings are what options change. Each optimizer uses those that PyTorch's has.
type Settings struct {
	LR          float64
	WeightDecay float64
	Maximize    bool
	// of SGD, RMSprop and Muon
	Momentum float64
	// of SGD
	Dampening float64
	// of SGD and Muon
	Nesterov bool
	// of the Adam family and Lion
	Beta1, Beta2 float64
	// of Adam and AdamW
	AMSGrad bool
	// of the Adam family, RMSprop, Adagrad and Adadelta
	Eps float64
	// of RMSprop and ASGD
	Alpha float64
	// of RMSprop
	Centered bool
	// of Adagrad
	LRDecay            float64
	InitialAccumulator float64
	// of Adadelta
	Rho float64
	// of NAdam
	MomentumDecay float64
	// of NAdam and RAdam
	DecoupledWeightDecay bool
	// of Rprop
	EtaMinus, EtaPlus float64
	StepMin, StepMax  float64
	// of Muon
	MatchRMSAdamW bool
	// of ASGD
	Lambd, T0 float64
	// of LBFGS
	MaxIter, MaxEval, HistorySize  int
	ToleranceGrad, ToleranceChange float64
	StrongWolfe                    bool
	// of all; it belongs to the program, not to the state
	Capturable bool
}

// Option changes a setting. One that the optimizer does not have is an error of Err and Step, as in PyTorch. It may be called several times.
type Option func(*Settings)

// LR is the learning rate. The default of SGD, Adam, AdamW, RAdam and Muon is 1e-3, that of Adamax and NAdam 2e-3, that of RMSprop,
// Adagrad, ASGD and Rprop 1e-2, that of Lion 1e-4, that of Adadelta 1.
func LR(lr float64) Option { return func(s *Settings) { s.LR = lr } }

// WeightDecay draws parameters to 0: it is added to the gradient as weight decay times parameter, except by AdamW, Lion and Muon, which
// multiply the parameter by 1 - lr*weight decay. The default is 0, 0.01 for AdamW, and 0.1 for Muon.
func WeightDecay(wd float64) Option { return func(s *Settings) { s.WeightDecay = wd } }

// Maximize goes up the gradient, not down.
func Maximize() Option { return func(s *Settings) { s.Maximize = true } }

// Momentum is the factor by which SGD, RMSprop and Muon keep their former direction. The default is 0, and 0.95 for Muon.
func Momentum(m float64) Option { return func(s *Settings) { s.Momentum = m } }

// Dampening is by how much SGD's momentum takes less of the new gradient. The default is 0.
func Dampening(d float64) Option { return func(s *Settings) { s.Dampening = d } }

// Nesterov uses Nesterov's momentum, in SGD and Muon. SGD needs a momentum for it and no dampening; Muon has it by default.
func Nesterov() Option { return func(s *Settings) { s.Nesterov = true } }

// Betas are the factors by which Adam keeps its first and second moment; the defaults are 0.9 and 0.999. Those of Lion, with
// defaults 0.9 and 0.99, mix momentum and gradient: for the direction of the step, and for the momentum that is kept.
func Betas(beta1, beta2 float64) Option {
	return func(s *Settings) { s.Beta1, s.Beta2 = beta1, beta2 }
}

// Eps is added to the denominator of the Adam family, RMSprop (defaults 1e-8), Adagrad (default 1e-10) and Adadelta (default 1e-6).
func Eps(eps float64) Option { return func(s *Settings) { s.Eps = eps } }

// AMSGrad makes Adam and AdamW divide by the largest second moment so far (Reddi et al., "On the Convergence of Adam and Beyond",
// 2018).
func AMSGrad() Option { return func(s *Settings) { s.AMSGrad = true } }

// Alpha is the factor by which RMSprop keeps its average of squares, 0.99 by default, and the power by which ASGD's rate falls, 0.75.
func Alpha(alpha float64) Option { return func(s *Settings) { s.Alpha = alpha } }

// Centered makes RMSprop divide by an estimate of the gradient's deviation from its average.
func Centered() Option { return func(s *Settings) { s.Centered = true } }

// LRDecay is by how much Adagrad's learning rate falls: at step n it is lr/(1 + (n-1)*decay). The default is 0.
func LRDecay(decay float64) Option { return func(s *Settings) { s.LRDecay = decay } }

// InitialAccumulator is what Adagrad's sums of squares start with. The default is 0.
func InitialAccumulator(v float64) Option { return func(s *Settings) { s.InitialAccumulator = v } }

// Rho is the factor by which Adadelta keeps its averages of squares. The default is 0.9.
func Rho(rho float64) Option { return func(s *Settings) { s.Rho = rho } }

// MomentumDecay is how fast NAdam's momentum rises from half the first beta to the whole: it has half of the way left after 17/decay steps.
// The default is 0.004.
func MomentumDecay(decay float64) Option { return func(s *Settings) { s.MomentumDecay = decay } }

// DecoupledWeightDecay makes the weight decay of NAdam and RAdam act on the parameters directly, as AdamW's.
func DecoupledWeightDecay() Option { return func(s *Settings) { s.DecoupledWeightDecay = true } }

// Etas are what Rprop multiplies the size of a step by when the gradient's sign changes, and when it stays. The defaults are 0.5 and 1.2.
func Etas(minus, plus float64) Option {
	return func(s *Settings) { s.EtaMinus, s.EtaPlus = minus, plus }
}

// StepSizes are the least and the largest size of Rprop's steps. The defaults are 1e-6 and 50.
func StepSizes(least, most float64) Option {
	return func(s *Settings) { s.StepMin, s.StepMax = least, most }
}

// MatchRMSAdamW makes Muon's steps as large as AdamW's are, so that it can have AdamW's learning rate and weight decay (Liu et al., "Muon is
// Scalable for LLM Training", 2025). By default the steps of a matrix with more rows than columns are larger than those of others.
func MatchRMSAdamW() Option { return func(s *Settings) { s.MatchRMSAdamW = true } }

// Lambd is how fast ASGD's rate falls: at step n it is lr/(1 + lambd*lr*(n-1))^alpha. The default is 1e-4.
func Lambd(lambd float64) Option { return func(s *Settings) { s.Lambd = lambd } }

// T0 is after how many steps ASGD begins to average. The default is 1e6.
func T0(steps float64) Option { return func(s *Settings) { s.T0 = steps } }

// MaxIter is how many iterations a step of LBFGS takes at most. The default is 20.
func MaxIter(n int) Option { return func(s *Settings) { s.MaxIter = n } }

// MaxEval is after how many calls of its closure a step of LBFGS begins no other iteration. The default is 5/4 of MaxIter.
func MaxEval(n int) Option { return func(s *Settings) { s.MaxEval = n } }

// HistorySize is how many steps LBFGS remembers. The default is 100.
func HistorySize(n int) Option { return func(s *Settings) { s.HistorySize = n } }

// ToleranceGrad ends a step of LBFGS when no element of the gradient is larger. The default is 1e-7.
func ToleranceGrad(v float64) Option { return func(s *Settings) { s.ToleranceGrad = v } }

// ToleranceChange ends a step of LBFGS when neither the loss nor an element of a parameter changes by more. The default is 1e-9.
func ToleranceChange(v float64) Option { return func(s *Settings) { s.ToleranceChange = v } }

// StrongWolfe makes LBFGS search along its direction for a step that meets the strong Wolfe conditions. By default the step's length is the
// learning rate.
func StrongWolfe() Option { return func(s *Settings) { s.StrongWolfe = true } }

// Capturable counts the steps on the device from the first one on, so that Step can be captured in a graph whose replays count too
// (memory.Caching.CaptureGraph), once it has made its state. StepScaled, which a GradScaler calls, does so without being asked. The
// settings are those at the time of the capture; with package autograd/stepgraph, which needs no such option, those of each replay. Optimizers
// without a kernel of their own refuse it.
func Capturable() Option { return func(s *Settings) { s.Capturable = true } }

// foreign is the option that sets a setting which the optimizer does not have, empty for none.
func foreign(fields func(s *Settings) []field, opt Option) string {
	var s Settings
	own := map[any]bool{&s.Capturable: true}
	for _, f := range fields(&s) {
		own[f.flag], own[f.whole] = true, true
		for _, n := range f.numbers {
			own[n] = true
		}
	}
	all := reflect.ValueOf(&s).Elem()
	for _, probe := range []Settings{probe(1, false), probe(2, true)} { // what it changes is not known before it did; it may set 1, or false
		s = probe
		opt(&s)
		for i := range all.NumField() {
			if all.Field(i).Interface() != reflect.ValueOf(probe).Field(i).Interface() && !own[all.Field(i).Addr().Interface()] {
				return optionOf(all.Type().Field(i).Name)
			}
		}
	}
	return ""
}

// probe has the same in all settings of a type.
func probe(v float64, flag bool) (s Settings) {
	all := reflect.ValueOf(&s).Elem()
	for i := range all.NumField() {
		if f := all.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(flag)
		} else if f.Kind() == reflect.Int {
			f.SetInt(int64(v))
		} else {
			f.SetFloat(v)
		}
	}
	return s
}

// optionOf is the option of a setting, which mostly has its name.
func optionOf(setting string) string {
	for prefix, option := range map[string]string{"Beta": "Betas", "Eta": "Etas", "Step": "StepSizes"} {
		if strings.HasPrefix(setting, prefix) {
			return option
		}
	}
	return setting
}

// check refuses what no optimizer takes: PyTorch's rules, and what is infinite. Comparisons are written so that NaN fails them.
func (s *Settings) check(name string) error {
	for _, v := range []struct {
		what  string
		value float64
	}{{"learning rate", s.LR}, {"weight decay", s.WeightDecay}, {"momentum", s.Momentum}, {"epsilon", s.Eps},
		{"alpha", s.Alpha}, {"learning rate decay", s.LRDecay}, {"initial accumulator", s.InitialAccumulator},
		{"momentum decay", s.MomentumDecay}} {
		if !countable(v.value) {
			return &ConfigError{name, fmt.Sprintf("%s %v; it must be finite and not negative", v.what, v.value)}
		}
	}
	if !(math.Abs(s.Dampening) <= math.MaxFloat64) {
		return &ConfigError{name, fmt.Sprintf("dampening %v; it must be finite", s.Dampening)}
	}
	return nil
}

// countable reports whether v is finite and not negative.
func countable(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
