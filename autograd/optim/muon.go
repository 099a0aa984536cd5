package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Muon steps by the momentum of a matrix made orthogonal, by five Newton-Schulz iterations (Jordan et al., "Muon: An optimizer for hidden
// layers in neural networks", 2024; torch.optim.Muon since 2.9). Options: LR, WeightDecay (acts on the parameters directly, 0.1 by default),
// Momentum (0.95 by default), Nesterov (on by default; a program's own Option can switch it off), MatchRMSAdamW. It keeps one tensor for
// each parameter.
//
// It is for the matrices of hidden layers: a parameter that does not have two dimensions is a *ConfigError. Give those, and embeddings and the
// last layer, to AdamW. PyTorch orthogonalises in bfloat16; here it is done in the parameter's type, float32 at least.
func Muon(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Muon", muon{}, Settings{LR: 1e-3, WeightDecay: 0.1, Momentum: 0.95, Nesterov: true}, params, opts)
}

type muon struct{}

func (muon) check(s *Settings) error {
	if !(s.Momentum < 1) {
		return fmt.Errorf("momentum is %v; it must be in [0, 1)", s.Momentum)
	}
	return nil
}

// admit refuses what is no matrix.
func (muon) admit(p *autograd.Parameter) error {
	if shape := p.Shape(); len(shape) != 2 {
		return fmt.Errorf("shape %v; it takes matrices alone: give other parameters to AdamW", shape)
	}
	return nil
}

func (muon) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("weight_decay", &s.WeightDecay), number("momentum", &s.Momentum), truth("nesterov", &s.Nesterov),
		truth("match_rms_adamw", &s.MatchRMSAdamW),
	}
}

func (muon) counts() bool { return false }

func (muon) numbered(*Settings) bool { return false }

func (muon) buffers(*Settings) []buffer { return []buffer{{name: "momentum_buffer"}} }

func (muon) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	mean := c.ema(at.buffers[0], at.grad, s.Momentum)
	direction := mean
	if s.Nesterov {
		direction = c.ema(mean, at.grad, s.Momentum)
	}
	param := c.shrunk(s, at)
	if c.err == nil && param.Len() > 0 {
		c.do(param.AddInPlace(c.orthogonal(direction), -s.LR*muonScale(s, param.Shape())))
	}
	return param, []*tensor.Tensor{mean}
}

// muonScale makes steps of matrices of all shapes alike: as large as those of square ones, or as AdamW's.
func muonScale(s *Settings, shape tensor.Shape) float64 {
	rows, columns := float64(shape[0]), float64(shape[1])
	if s.MatchRMSAdamW {
		return 0.2 * math.Sqrt(max(rows, columns))
	}
	return math.Sqrt(max(1, rows/columns))
}

const (
	newtonSchulzSteps = 5
	newtonSchulzEps   = 1e-7
)

// newtonSchulz are the coefficients of the iteration x = a*x + (b*g + c*g*g)*x with g = x*xT. They do not converge to singular values of 1,
// but bring all of them near it fast.
var newtonSchulz = struct{ a, b, c float64 }{3.4445, -4.7750, 2.0315}

// orthogonal is a matrix near U*VT, if t is U*S*VT.
func (c *calc) orthogonal(t *tensor.Tensor) *tensor.Tensor {
	tall := t.Dim(0) > t.Dim(1)
	if tall {
		t = c.of(t.T()) // the products with itself are then the smaller ones
	}
	norm := c.of(t.Norm(2, nil, false))
	c.do(norm.ClampInPlace(newtonSchulzEps, math.Inf(1)))
	x := c.of(t.Div(norm))
	for range newtonSchulzSteps {
		if c.err != nil {
			return nil
		}
		var step calc // what an iteration makes is not needed in the next, but for its result
		gram := step.of(x.MM(step.of(x.T())))
		factor := step.of(tensor.AddMM(gram, gram, gram, newtonSchulz.b, newtonSchulz.c))
		c.do(step.err)
		x = c.of(tensor.AddMM(x, factor, x, newtonSchulz.a, 1))
		step.release()
	}
	if tall {
		x = c.of(x.T())
	}
	return x
}
