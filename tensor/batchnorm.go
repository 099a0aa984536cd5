package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Batch norm in its parts, as torch.batch_norm_stats, batch_norm_elemt, batch_norm_backward_reduce and
// batch_norm_backward_elemt. Tensors are [N, C, ...], and moments are those of channels.

// BatchMoments computes mean and reciprocal standard deviation of each channel, of the biased variance, and brings running
// statistics, which are [C] or nil, up to date in place: r = (1-momentum)*r + momentum*new, where the new variance is the
// unbiased one. Running statistics have t's type or, if that is half precision, float32. A channel of fewer than two elements
// has no variance to learn from: that is a *ShapeError.
func BatchMoments(t, runningMean, runningVar *Tensor, momentum, eps float64) (Moments, error) {
	n, m, err := batchMoments(t, runningMean, runningVar, momentum, eps)
	if err != nil {
		return Moments{}, err
	}
	if err := n.learn(&m, runningMean, runningVar); err != nil {
		return Moments{}, err
	}
	return m, nil
}

// batchMoments is BatchMoments before its launch, which is learn. The error is one of the arguments.
func batchMoments(t, runningMean, runningVar *Tensor, momentum, eps float64) (*normalisation, Moments, error) {
	const name = "BatchMoments"
	shape, err := channels(name, t)
	if err != nil {
		return nil, Moments{}, err
	}
	if shape[0]*shape[2] < 2 {
		return nil, Moments{}, shapeErr(name, []Shape{t.Shape()}, "needs more than one value for each channel in training mode (layers: nn.Eval)")
	}
	if err := checkRunning(name, t, shape[1], runningMean, runningVar); err != nil {
		return nil, Moments{}, err
	}
	n := &normalisation{name: name}
	n.begin(op.ChannelStats, t, shape, 0)
	n.call.call.F[0], n.call.call.F[1] = eps, momentum
	n.in(t)
	return n, Moments{Eps: eps, Mean: n.stats(shape[1]), Rstd: n.stats(shape[1])}, nil
}

// learn launches what batchMoments has prepared. After an error the moments are released.
func (n *normalisation) learn(m *Moments, runningMean, runningVar *Tensor) error {
	if n.err == nil && runningMean != nil {
		n.flag(op.NormRunning)
		for _, r := range []*Tensor{runningMean, runningVar} {
			r.storage.changed()
			n.call.out(r, &r.layout)
		}
	}
	return n.run(m.Mean, m.Rstd)
}

// BatchNormTraining is BatchNorm by the moments of BatchMoments, which it returns too. All memory is there before anything is
// launched: if there is not enough, the running statistics are as they were, and the batch can be tried again.
func BatchNormTraining(t, runningMean, runningVar, weight, bias *Tensor, momentum, eps float64) (*Tensor, Moments, error) {
	const name = "BatchNormTraining"
	if err := usable(name, t); err != nil {
		return nil, Moments{}, err
	}
	x, err := t.inFormat(name, t.layout.format(), t.exec) // once, for both launches
	if err != nil {
		return nil, Moments{}, err
	}
	defer x.Release()
	stats, m, err := batchMoments(x, runningMean, runningVar, momentum, eps)
	if err != nil {
		return nil, Moments{}, err
	}
	var norm *normalisation
	var out *Tensor
	if stats.err == nil {
		norm, out, stats.err = batchNorm(x, m, weight, bias)
	}
	if norm != nil && stats.err == nil {
		stats.err = norm.err
	}
	if err := stats.learn(&m, runningMean, runningVar); err != nil {
		if norm != nil {
			norm.err = err
			return nil, Moments{}, norm.run(out)
		}
		return nil, Moments{}, err
	}
	if err := norm.run(out); err != nil {
		m.Release()
		return nil, Moments{}, err
	}
	return out, m, nil
}

// checkRunning refuses running statistics that cannot be brought up to date.
func checkRunning(name string, t *Tensor, channels int, mean, variance *Tensor) error {
	if mean == nil && variance == nil {
		return nil
	}
	if mean == nil || variance == nil {
		return valueErr(name, "there are a running mean and a running variance, or neither")
	}
	if dt := mean.dtype; dt != t.dtype && dt != op.ComputeType(t.dtype) {
		return dtypeErr(name, "the running statistics have the input's type, or float32 for half precision; To converts", t.dtype, dt)
	}
	if err := checkAffine(name, t, Shape{channels}, mean, variance); err != nil {
		return err
	}
	for _, r := range []*Tensor{mean, variance} {
		if !r.IsContiguous() {
			return shapeErr(name, []Shape{t.Shape(), r.Shape()}, "running statistics must be contiguous")
		}
	}
	return nil
}

// BatchNorm is (t-mean)*rstd*weight + bias with moments of each channel: those of BatchMoments in training, else running
// statistics as Mean and Var. weight and bias are [C] or nil. The result has t's memory format.
func BatchNorm(t *Tensor, m Moments, weight, bias *Tensor) (*Tensor, error) {
	n, out, err := batchNorm(t, m, weight, bias)
	if err != nil {
		return nil, err
	}
	if err := n.run(out); err != nil {
		return nil, err
	}
	return out, nil
}

// batchNorm is BatchNorm before its launch. The error is one of the arguments.
func batchNorm(t *Tensor, m Moments, weight, bias *Tensor) (*normalisation, *Tensor, error) {
	const name = "BatchNorm"
	shape, err := channels(name, t)
	if err != nil {
		return nil, nil, err
	}
	if err := checkMoments(name, t, &m, shape[1], true); err != nil {
		return nil, nil, err
	}
	if err := checkAffine(name, t, Shape{shape[1]}, weight, bias); err != nil {
		return nil, nil, err
	}
	n := &normalisation{name: name}
	n.begin(op.ChannelNorm, t, shape, 0)
	n.in(t)
	n.moments(&m)
	n.affine(weight, bias)
	return n, n.like(t.dtype, t), nil
}

// BatchNormSums are the gradients of BatchNorm with respect to weight and bias, [C] each, in the type of the moments.
func (gradients) BatchNormSums(grad, t *Tensor, m Moments) (weight, bias *Tensor, err error) {
	const name = "BatchNormSums"
	shape, err := channelGrad(name, grad, t, &m)
	if err != nil {
		return nil, nil, err
	}
	return normSums(name, grad, t, &m, shape, 0, Shape{shape[1]})
}

func channelGrad(name string, grad, t *Tensor, m *Moments) (shape [3]int, err error) {
	if err := sameFloat(name, grad, t); err != nil {
		return shape, err
	}
	if shape, err = channels(name, t); err != nil {
		return shape, err
	}
	if !grad.Shape().Equal(t.Shape()) {
		return shape, shapeErr(name, []Shape{grad.Shape(), t.Shape()}, "shapes differ")
	}
	return shape, checkMoments(name, t, m, shape[1], true)
}

// BatchNorm is the gradient of tensor.BatchNorm with respect to t. If the moments are those of t itself, as in training, it takes
// both results of BatchNormSums; for constant moments these are nil.
func (gradients) BatchNorm(grad, t *Tensor, m Moments, weight, product, sum *Tensor) (*Tensor, error) {
	const name = "BatchNormGrad"
	shape, err := channelGrad(name, grad, t, &m)
	if err != nil {
		return nil, err
	}
	if err := checkAffine(name, t, Shape{shape[1]}, weight, nil); err != nil {
		return nil, err
	}
	training := product != nil
	if training {
		if err := checkMoments(name, t, &Moments{Mean: product, Rstd: sum}, shape[1], true); err != nil {
			return nil, err
		}
	}
	n := normalisation{name: name}
	n.begin(op.ChannelNormGrad, t, shape, 0)
	n.in(grad)
	n.in(t)
	n.moments(&m)
	n.affine(weight, nil)
	if training {
		n.flag(op.NormTraining)
		n.stat(product)
		n.stat(sum)
	}
	out := n.like(t.dtype, t)
	if err := n.run(out); err != nil {
		return nil, err
	}
	return out, nil
}
