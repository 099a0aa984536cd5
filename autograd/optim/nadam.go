package optim

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// NAdam is torch.optim.NAdam: Adam with Nesterov's momentum (Dozat, "Incorporating Nesterov Momentum into Adam", 2016). Options: LR, Betas,
// Eps, WeightDecay (added to the gradient, or with DecoupledWeightDecay as AdamW's), MomentumDecay, Maximize. It keeps two tensors for each
// parameter, and a number.
func NAdam(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("NAdam", nadam{}, Settings{LR: 2e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, MomentumDecay: 4e-3}, params, opts)
}

type nadam struct{}

func (nadam) check(s *Settings) error { return checkBetas(s) }

func (nadam) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), betas(s), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay),
		number("momentum_decay", &s.MomentumDecay), truth(decoupledKey, &s.DecoupledWeightDecay), truth("maximize", &s.Maximize),
	}
}

func (nadam) counts() bool { return true }

func (nadam) numbered(*Settings) bool { return true }

func (nadam) buffers(*Settings) []buffer {
	return []buffer{{name: "exp_avg"}, {name: "exp_avg_sq"}, {name: "mu_product", start: 1, scalar: true}}
}

func (nadam) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	grad, param := c.decay(s, at)
	mean, squares := c.ema(at.buffers[0], grad, s.Beta1), c.emaSquare(at.buffers[1], grad, s.Beta2)
	mu, next := nadamMomentum(s, at.step), nadamMomentum(s, at.step+1)
	product := c.of(at.buffers[2].MulScalar(mu))
	root := c.of(squares.DivScalar(1 - math.Pow(s.Beta2, float64(at.step))))
	c.do(root.SqrtInPlace())
	c.do(root.AddScalarInPlace(s.Eps))
	for _, part := range []struct {
		of      *tensor.Tensor
		rate    float64
		product *tensor.Tensor // the rate is divided by 1 less this
	}{{grad, s.LR * (1 - mu), product}, {mean, s.LR * next, c.of(product.MulScalar(next))}} {
		step := c.of(part.of.Div(root))
		c.do(step.MulInPlace(c.of(c.of(part.product.RSubScalar(1)).RDivScalar(part.rate))))
		c.do(param.SubInPlace(step))
	}
	return param, []*tensor.Tensor{mean, squares, product}
}

// nadamMomentum is the momentum of a step: it rises from half the first beta to the whole.
func nadamMomentum(s *Settings, step int) float64 {
	return s.Beta1 * (1 - 0.5*math.Pow(0.96, float64(step)*s.MomentumDecay))
}

// decay is the gradient, and a new tensor with the parameter, one of them with weight decay.
func (c *calc) decay(s *Settings, at moment) (grad, param *tensor.Tensor) {
	if s.DecoupledWeightDecay {
		return at.grad, c.shrunk(s, at)
	}
	return c.decayed(s, at), c.of(at.param.Clone())
}

// RAdam is torch.optim.RAdam: Adam that begins with steps of momentum alone, until its second moment can be trusted (Liu et al., "On the
// Variance of the Adaptive Learning Rate and Beyond", 2020). Options: LR, Betas, Eps, WeightDecay (added to the gradient, or with
// DecoupledWeightDecay as AdamW's), Maximize. It keeps two tensors for each parameter.
func RAdam(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("RAdam", radam{}, adamDefaults(0), params, opts)
}

type radam struct{}

func (radam) check(s *Settings) error { return checkBetas(s) }

func (radam) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), betas(s), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay),
		truth(decoupledKey, &s.DecoupledWeightDecay), truth("maximize", &s.Maximize),
	}
}

func (radam) counts() bool { return true }

func (radam) numbered(*Settings) bool { return true }

func (radam) buffers(*Settings) []buffer { return []buffer{{name: "exp_avg"}, {name: "exp_avg_sq"}} }

func (radam) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	grad, param := c.decay(s, at)
	mean, squares := c.ema(at.buffers[0], grad, s.Beta1), c.emaSquare(at.buffers[1], grad, s.Beta2)
	rate := s.LR / (1 - math.Pow(s.Beta1, float64(at.step)))
	if rect := rectification(s.Beta2, at.step); rect > 0 {
		root := c.of(squares.Sqrt())
		c.do(root.AddScalarInPlace(s.Eps))
		c.do(param.AddCDivInPlace(mean, root, -rate*rect))
	} else {
		c.do(param.AddInPlace(mean, -rate))
	}
	return param, []*tensor.Tensor{mean, squares}
}

// rectification is RAdam's factor of a step, with the correction of the second moment; 0 while its variance is not tractable.
func rectification(beta2 float64, step int) float64 {
	n, power := float64(step), math.Pow(beta2, float64(step))
	most := 2/(1-beta2) - 1 // the length of the average in the limit
	length := most - 2*n*power/(1-power)
	if length <= 5 {
		return 0
	}
	return math.Sqrt((1 - power) * (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
}
