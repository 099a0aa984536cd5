package matrix

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// Pinv is the pseudo-inverse [..., n, m] of matrices [..., m, n]. Its gradient is right where the rank stays. Saves a and the result.
func Pinv(a *autograd.Variable) *autograd.Variable { return pinv.Apply(none{}, a) }

var pinv = autograd.Function[none]{
	Name: "linalg_pinv",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		p, err := linalg.Pinv(in[0])
		c.Save(in[0], p)
		return p, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		return w.ends(w.ofPinv(c.Saved(0), c.Saved(1), grad))
	},
}

// ofPinv is the gradient of a, with p its pseudo-inverse and k = gradT*p (Golub and Pereyra, 1973):
// -(p*k)T + (1 - a*p)*k*pT + pT*p*(gradT - k*a).
func (w *work) ofPinv(a, p, grad *tensor.Tensor) *tensor.Tensor {
	gt, pt := w.flipped(grad), w.flipped(p)
	k := w.times(gt, p)
	kpt := w.times(k, pt)
	sum := w.of(kpt.Sub(w.flipped(w.times(p, k))))
	sum = w.of(sum.Sub(w.times(a, w.times(p, kpt))))
	return w.of(sum.Add(w.times(pt, w.times(p, w.of(gt.Sub(w.times(k, a)))))))
}

// Lstsq is the x [..., n, k] of least norm for which a*x - b is of least norm, for matrices a [..., m, n] and b [..., m, k], whose batches broadcast.
// Its gradient is right where the rank of a stays; it decomposes a again. Saves a and b.
func Lstsq(a, b *autograd.Variable) *autograd.Variable { return lstsq.Apply(none{}, a, b) }

// The result is p*b, with p the pseudo-inverse of a.
var lstsq = autograd.Function[none]{
	Name: "linalg_lstsq",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		x, err := linalg.Lstsq(in[0], in[1])
		c.Save(in[0], in[1])
		return x, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		a, b := c.Saved(0), c.Saved(1)
		p := w.of(linalg.Pinv(a))
		gb := w.times(w.flipped(p), grad)
		if !c.NeedsGrad(0) {
			return w.ends(nil, gb)
		}
		return w.ends(w.ofPinv(a, p, w.times(grad, w.flipped(b))), gb)
	},
}
