package nn

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// DropoutLayer sets elements, or whole channels, to 0 at random, in training only. The zero value is Dropout(0).
type DropoutLayer struct {
	Base
	P float64 // the probability of an element to become 0

	name  string // empty for Dropout
	dims  []int  // numbers of dimensions that it takes, empty for all
	alpha bool
}

// Dropout makes a layer that in training sets each element to 0 with probability p and divides the others by 1-p, drawing
// from the graph's generator. After Eval, or if p is 0, it returns its input. It goes by the mode alone, not by whether the graph computes
// gradients.
func Dropout(p float64) *DropoutLayer { return dropout("Dropout", p, false) }

// Dropout1d is Dropout for whole channels, of [N, C, L] or [C, L]: all elements of a channel become 0, or none.
func Dropout1d(p float64) *DropoutLayer { return dropout("Dropout1d", p, false, 2, 3) }

// Dropout2d is Dropout1d for [N, C, H, W], and, as in PyTorch, [N, C, L].
func Dropout2d(p float64) *DropoutLayer { return dropout("Dropout2d", p, false, 3, 4) }

// Dropout3d is Dropout1d for [N, C, D, H, W] or [C, D, H, W].
func Dropout3d(p float64) *DropoutLayer { return dropout("Dropout3d", p, false, 4, 5) }

// AlphaDropout is Dropout that keeps mean and variance of what SELU gives (Klambauer et al., 2017): elements become SELU's least value instead of 0, and
// all are scaled and shifted to make up for it.
func AlphaDropout(p float64) *DropoutLayer { return dropout("AlphaDropout", p, true) }

// FeatureAlphaDropout is AlphaDropout for whole channels, of [N, C, ...]: all elements of a channel are dropped, or none.
func FeatureAlphaDropout(p float64) *DropoutLayer { return dropout(featureAlpha, p, true) }

const featureAlpha = "FeatureAlphaDropout"

func dropout(name string, p float64, alpha bool, dims ...int) *DropoutLayer {
	d := &DropoutLayer{Base: Base{listed: true}, P: p, name: name, dims: dims, alpha: alpha}
	d.refuseProbability(name, p)
	return d
}

// Forward implements Layer.
func (d *DropoutLayer) Forward(x *autograd.Variable) *autograd.Variable {
	if d != nil && !d.Training() && !d.hooked() {
		return x
	}
	return within(d, x, func(g *autograd.Graph) *autograd.Variable {
		switch {
		case !d.Training():
			return x
		case d.alpha:
			return d.shifted(g, x)
		case len(d.dims) > 0:
			return d.channels(g, x)
		}
		return x.Dropout(d.P)
	})
}

// channels drops whole channels: the mask has one element for each.
func (d *DropoutLayer) channels(g *autograd.Graph, x *autograd.Variable) *autograd.Variable {
	n := x.NDim()
	if x.Alive() && n != d.dims[0] && n != d.dims[1] {
		return g.Refuse("dropout", shapeError(d.name, x, "%s; want %d or %d", dimensions(n), d.dims[0], d.dims[1]), x)
	}
	if d.P == 0 || !x.Alive() {
		return x.Dropout(d.P)
	}
	shape := x.Shape().Clone()
	kept := 2 // dimensions that the mask has
	if n == d.dims[0] && d.name != "Dropout2d" {
		kept = 1 // there is no batch
	}
	for i := kept; i < n; i++ {
		shape[i] = 1
	}
	return x.Mul(g.Ones(x.DType(), shape...).Dropout(d.P))
}

// leastSELU is what SELU tends to for small x: -alpha*scale of Klambauer et al.
const leastSELU = -1.7580993408473766

// shifted is alpha dropout.
func (d *DropoutLayer) shifted(g *autograd.Graph, x *autograd.Variable) *autograd.Variable {
	switch {
	case d.P == 0 || !x.Alive():
		return x.Dropout(d.P)
	case d.P == 1:
		return x.MulScalar(0)
	}
	shape := x.Shape().Clone()
	if d.name == featureAlpha {
		if len(shape) < 2 {
			return g.Refuse("dropout", shapeError(d.name, x, "%s; want 2 at least", dimensions(len(shape))), x)
		}
		for i := 2; i < len(shape); i++ {
			shape[i] = 1
		}
	}
	scale := 1 / math.Sqrt((1-d.P)*(1+d.P*leastSELU*leastSELU))
	mask := g.Ones(x.DType(), shape...).Dropout(d.P).Sign()
	dropped := mask.MulScalar(-1).AddScalar(1).MulScalar(leastSELU)
	return x.Mul(mask).Add(dropped).MulScalar(scale).AddScalar(-scale * leastSELU * d.P)
}

// String is PyTorch's description.
func (d *DropoutLayer) String() string {
	if d == nil {
		return "nil"
	}
	name := d.name
	if name == "" {
		name = "Dropout"
	}
	return fmt.Sprintf("%s(p=%v, inplace=False)", name, d.P)
}
