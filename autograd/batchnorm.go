package autograd

import (
	"errors"

	"github.com/cistern-ml/cistern/tensor"
)

// BatchNorm is (v-mean)/sqrt(variance + eps) times weight plus bias, for v of shape [N, C, ...] and moments of each channel;
// weight and bias are [C] or nil. In training these are the batch's own, and running mean and variance, if they are there, become
// (1-momentum)*running + momentum*new, with the unbiased variance; else they are the running ones, which may then not be
// nil. PyTorch's defaults are momentum 0.1 and eps 1e-5. The running statistics are parameters that need no gradient, of v's type or
// float32 for half precision, and are changed in place as the result is computed: not if there is no memory for it.
//
// It saves v, the weight if v needs a gradient, and two numbers for each channel.
func (v *Variable) BatchNorm(mean, variance *Parameter, weight, bias *Variable, training bool, momentum, eps float64) *Variable {
	a := batchNorm{mean: mean, variance: variance, training: training, momentum: momentum, eps: eps}
	return batchNorms.apply(a, v, weight, bias, acrossChannels(v))
}

var batchNorms = defineNorm("batch_norm", true)

// batchNorm is the argument of batch norm.
type batchNorm struct {
	mean, variance *Parameter
	training       bool
	momentum, eps  float64
}

func (a batchNorm) forward(n *node, weight, bias *tensor.Tensor) (out *tensor.Tensor, m tensor.Moments, err error) {
	mean, err := a.adopt(n.g, a.mean)
	if err != nil {
		return nil, m, err
	}
	variance, err := a.adopt(n.g, a.variance)
	if err != nil {
		mean.Release()
		return nil, m, err
	}
	if a.training {
		defer mean.Release()
		defer variance.Release()
		return a.train(n, mean, variance, weight, bias)
	}
	m = tensor.Moments{Mean: mean, Var: variance, Eps: a.eps}
	if mean == nil || variance == nil {
		err = errors.New("without training there must be a running mean and a running variance")
	} else {
		out, err = tensor.BatchNorm(n.tensor(0), m, weight, bias)
	}
	if err != nil {
		m.Release()
		return nil, tensor.Moments{}, err
	}
	return out, m, nil
}

// train normalises by the moments of the batch, and brings the running ones up to date.
func (a batchNorm) train(n *node, mean, variance, weight, bias *tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
	out, m, err := tensor.BatchNormTraining(n.tensor(0), mean, variance, weight, bias, a.momentum, a.eps)
	if err == nil {
		err = a.follow(n.g)
	}
	if err != nil {
		out.Release()
		m.Release()
		return nil, tensor.Moments{}, err
	}
	return out, m, nil
}

// adopt takes a handle on running statistics that works under the graph's Exec; nil if there are none.
func (a batchNorm) adopt(g *Graph, p *Parameter) (*tensor.Tensor, error) {
	if p == nil {
		return nil, nil
	}
	if v := g.replaced[p]; v != nil {
		if err := v.unusable("running statistics " + p.name); err != nil {
			return nil, err
		}
		return v.tensor().Retain(), nil
	}
	if p.Tensor() == nil {
		return nil, &ParameterError{Name: p.name, Shape: p.shape}
	}
	return g.adopt("running statistics "+p.name, p.Tensor())
}

// follow makes the streams of the running statistics wait for their change.
func (a batchNorm) follow(g *Graph) error {
	for _, p := range []*Parameter{a.mean, a.variance} {
		if p == nil || g.replaced[p] != nil {
			continue
		}
		if s := p.value.Exec().Stream(); s.ID() != g.exec.Stream().ID() {
			if err := order(g.dev, g.exec.Stream(), s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a batchNorm) saved(stashed func(int) *tensor.Tensor) tensor.Moments {
	if a.training {
		return tensor.Moments{Mean: stashed(0), Rstd: stashed(1)}
	}
	return tensor.Moments{Mean: stashed(0), Var: stashed(1), Eps: a.eps}
}

func (a batchNorm) grad(g, t *tensor.Tensor, m tensor.Moments, weight, product, sum *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.BatchNorm(g, t, m, weight, product, sum)
}

func (a batchNorm) sums(g, t *tensor.Tensor, m tensor.Moments) (weight, bias *tensor.Tensor, err error) {
	return gradients.BatchNormSums(g, t, m)
}

func (a batchNorm) biasGrad(g *tensor.Tensor, _ tensor.Shape) (*tensor.Tensor, error) {
	return sumChannels(g)
}

func (a batchNorm) inputNeedsSums() bool { return a.training }
