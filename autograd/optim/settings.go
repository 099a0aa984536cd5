package optim

import "fmt"

// Settings are what options change. Each optimizer uses those that PyTorch's has.
type Settings struct {
	LR          float64
	WeightDecay float64
	Maximize    bool
	// of SGD
	Momentum  float64
	Dampening float64
	Nesterov  bool
	// of Adam and AdamW
	Beta1, Beta2 float64
	Eps          float64
}

// Option changes a setting.
type Option func(*Settings)

// LR is the learning rate. The default of Adam and AdamW is 1e-3, that of SGD is 1e-3 too.
func LR(lr float64) Option { return func(s *Settings) { s.LR = lr } }

// WeightDecay draws parameters to 0: it is added to the gradient as weight decay times parameter, except by AdamW, which
// multiplies the parameter by 1 - lr*weight decay. The default is 0, and 0.01 for AdamW.
func WeightDecay(wd float64) Option { return func(s *Settings) { s.WeightDecay = wd } }

// Maximize goes up the gradient, not down.
func Maximize() Option { return func(s *Settings) { s.Maximize = true } }

// Momentum is the factor by which SGD keeps its former direction. The default is 0.
func Momentum(m float64) Option { return func(s *Settings) { s.Momentum = m } }

// Dampening is by how much SGD's momentum takes less of the new gradient. The default is 0.
func Dampening(d float64) Option { return func(s *Settings) { s.Dampening = d } }

// Nesterov uses Nesterov's momentum. It needs a momentum and no dampening.
func Nesterov() Option { return func(s *Settings) { s.Nesterov = true } }

// Betas are the factors by which Adam keeps its first and second moment. The defaults are 0.9 and 0.999.
func Betas(beta1, beta2 float64) Option {
	return func(s *Settings) { s.Beta1, s.Beta2 = beta1, beta2 }
}

// Eps is added to Adam's denominator. The default is 1e-8.
func Eps(eps float64) Option { return func(s *Settings) { s.Eps = eps } }

// check refuses what no optimizer takes, with PyTorch's rules. Comparisons are written so that NaN fails them.
func (s *Settings) check(name string) error {
	for _, v := range []struct {
		what  string
		value float64
	}{{"learning rate", s.LR}, {"weight decay", s.WeightDecay}, {"momentum", s.Momentum}, {"epsilon", s.Eps}} {
		if !(v.value >= 0) {
			return &ConfigError{name, fmt.Sprintf("%s %v; it must not be negative", v.what, v.value)}
		}
	}
	return nil
}
