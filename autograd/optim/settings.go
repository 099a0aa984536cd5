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
	// of SGD and RMSprop
	Momentum float64
	// of SGD
	Dampening float64
	Nesterov  bool
	// of Adam, AdamW and Lion
	Beta1, Beta2 float64
	// of Adam and AdamW
	AMSGrad bool
	// of Adam, AdamW, RMSprop and Adagrad
	Eps float64
	// of RMSprop
	Alpha    float64
	Centered bool
	// of Adagrad
	LRDecay            float64
	InitialAccumulator float64
	// of all; it belongs to the program, not to the state
	Capturable bool
}

// Option changes a setting. One that the optimizer does not have is an error of Err and Step, as in PyTorch. It may be called several times.
type Option func(*Settings)

// LR is the learning rate. The default of SGD, Adam and AdamW is 1e-3, that of RMSprop and Adagrad 1e-2, that of Lion 1e-4.
func LR(lr float64) Option { return func(s *Settings) { s.LR = lr } }

// WeightDecay draws parameters to 0: it is added to the gradient as weight decay times parameter, except by AdamW and Lion, which
// multiply the parameter by 1 - lr*weight decay. The default is 0, and 0.01 for AdamW.
func WeightDecay(wd float64) Option { return func(s *Settings) { s.WeightDecay = wd } }

// Maximize goes up the gradient, not down.
func Maximize() Option { return func(s *Settings) { s.Maximize = true } }

// Momentum is the factor by which SGD and RMSprop keep their former direction. The default is 0.
func Momentum(m float64) Option { return func(s *Settings) { s.Momentum = m } }

// Dampening is by how much SGD's momentum takes less of the new gradient. The default is 0.
func Dampening(d float64) Option { return func(s *Settings) { s.Dampening = d } }

// Nesterov uses Nesterov's momentum. It needs a momentum and no dampening.
func Nesterov() Option { return func(s *Settings) { s.Nesterov = true } }

// Betas are the factors by which Adam keeps its first and second moment; the defaults are 0.9 and 0.999. Those of Lion, with
// defaults 0.9 and 0.99, mix momentum and gradient: for the direction of the step, and for the momentum that is kept.
func Betas(beta1, beta2 float64) Option {
	return func(s *Settings) { s.Beta1, s.Beta2 = beta1, beta2 }
}

// Eps is added to the denominator of Adam, RMSprop (defaults 1e-8) and Adagrad (default 1e-10).
func Eps(eps float64) Option { return func(s *Settings) { s.Eps = eps } }

// AMSGrad makes Adam and AdamW divide by the largest second moment so far (Reddi et al., "On the Convergence of Adam and Beyond",
// 2018).
func AMSGrad() Option { return func(s *Settings) { s.AMSGrad = true } }

// Alpha is the factor by which RMSprop keeps its average of squares. The default is 0.99.
func Alpha(alpha float64) Option { return func(s *Settings) { s.Alpha = alpha } }

// Centered makes RMSprop divide by an estimate of the gradient's deviation from its average.
func Centered() Option { return func(s *Settings) { s.Centered = true } }

// LRDecay is by how much Adagrad's learning rate falls: at step n it is lr/(1 + (n-1)*decay). The default is 0.
func LRDecay(decay float64) Option { return func(s *Settings) { s.LRDecay = decay } }

// InitialAccumulator is what Adagrad's sums of squares start with. The default is 0.
func InitialAccumulator(v float64) Option { return func(s *Settings) { s.InitialAccumulator = v } }

// Capturable counts the steps on the device from the first one on, so that Step can be captured in a graph whose replays count too
// (memory.Caching.CaptureGraph), once it has made its state. StepScaled, which a GradScaler calls, does so without being asked. The
// settings are those at the time of the capture.
func Capturable() Option { return func(s *Settings) { s.Capturable = true } }

// foreign is the option that sets a setting which the optimizer does not have, empty for none.
func foreign(m method, opt Option) string {
	var s Settings
	own := map[any]bool{&s.Capturable: true}
	for _, f := range m.fields(&s) {
		own[f.flag] = true
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
		} else {
			f.SetFloat(v)
		}
	}
	return s
}

// optionOf is the option of a setting, which mostly has its name.
func optionOf(setting string) string {
	if strings.HasPrefix(setting, "Beta") {
		return "Betas"
	}
	return setting
}

// check refuses what no optimizer takes: PyTorch's rules, and what is infinite. Comparisons are written so that NaN fails them.
func (s *Settings) check(name string) error {
	for _, v := range []struct {
		what  string
		value float64
	}{{"learning rate", s.LR}, {"weight decay", s.WeightDecay}, {"momentum", s.Momentum}, {"epsilon", s.Eps},
		{"alpha", s.Alpha}, {"learning rate decay", s.LRDecay}, {"initial accumulator", s.InitialAccumulator}} {
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
