package autograd

import "github.com/cistern-ml/cistern/tensor"

// Log1p is log(1+v), accurate near 0. Saves v.
func (v *Variable) Log1p() *Variable { return log1p.apply(nil, v) }

var log1p = define("log1p", log1pForward, rule{uses: input(0), grad: log1pGrad})

func log1pForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Log1p() }

// log1pGrad is g / (1+v).
func log1pGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(0).AddScalar(1))(func(d *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(d) })
}

// Expm1 is exp(v)-1, accurate near 0. Saves its result.
func (v *Variable) Expm1() *Variable { return expm1.apply(nil, v) }

var expm1 = define("expm1", expm1Forward, rule{uses: output, grad: expm1Grad})

func expm1Forward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Expm1() }

// expm1Grad is g * (exp(v)-1 + 1), computed in one tensor.
func expm1Grad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return changed(func() (*tensor.Tensor, error) { return n.savedOutput().AddScalar(1) }, multiplied(g))
}

// Erf is the error function. Saves v.
func (v *Variable) Erf() *Variable { return erf.apply(nil, v) }

var erf = define("erf", erfForward, rule{uses: input(0), grad: erfGrad})

func erfForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Erf() }

func erfGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.ErfGrad(n.savedInput(0))
}

// ELU is v where v > 0, else alpha*(exp(v)-1). PyTorch's default alpha is 1. Saves v.
func (v *Variable) ELU(alpha float64) *Variable { return elu.apply(alpha, v) }

var elu = define("elu", eluForward, rule{uses: input(0), grad: eluGrad})

func eluForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).ELU(n.arg.(float64)) }

func eluGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.ELUGrad(n.savedInput(0), n.arg.(float64))
}

// Hardtanh is v brought into lo..hi; PyTorch's defaults are -1 and 1. The gradient passes between the bounds, which are excluded.
// Saves v.
func (v *Variable) Hardtanh(lo, hi float64) *Variable { return hardtanh.apply(bounds{lo, hi}, v) }

// ReLU6 is v brought into 0..6, with Hardtanh's gradient. Saves v.
func (v *Variable) ReLU6() *Variable { return hardtanh.apply(bounds{0, 6}, v) }

var hardtanh = define("hardtanh", hardtanhForward, rule{uses: input(0), grad: hardtanhGrad})

func hardtanhForward(n *node) (*tensor.Tensor, error) {
	b := n.arg.(bounds)
	return n.tensor(0).Hardtanh(b.lo, b.hi)
}

func hardtanhGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	b := n.arg.(bounds)
	return g.HardtanhGrad(n.savedInput(0), b.lo, b.hi)
}

// Floor, Ceil, Round (to the even one of two) and Trunc round to integers. Their gradient is 0. They save nothing.
func (v *Variable) Floor() *Variable { return floor.apply(nil, v) }

// Ceil is the least integer that is not below v; see Floor.
func (v *Variable) Ceil() *Variable { return ceil.apply(nil, v) }

// Round is the nearest integer; see Floor.
func (v *Variable) Round() *Variable { return round.apply(nil, v) }

// Trunc is v without its fraction; see Floor.
func (v *Variable) Trunc() *Variable { return trunc.apply(nil, v) }

// Sign is -1, 0 or 1; see Floor.
func (v *Variable) Sign() *Variable { return sign.apply(nil, v) }

var (
	floor = rounding("floor", (*tensor.Tensor).Floor)
	ceil  = rounding("ceil", (*tensor.Tensor).Ceil)
	round = rounding("round", (*tensor.Tensor).Round)
	trunc = rounding("trunc", (*tensor.Tensor).Trunc)
	sign  = rounding("sign", (*tensor.Tensor).Sign)
)

func rounding(name string, f func(*tensor.Tensor) (*tensor.Tensor, error)) *op {
	return define(name, func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0)) }, rule{grad: zeroGrad})
}

// zeroGrad is one 0, repeated without taking memory.
func zeroGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	z, err := zero(g)
	if err != nil {
		return nil, err
	}
	return after(z, func(z *tensor.Tensor) (*tensor.Tensor, error) { return z.Expand(n.in[i].Shape()...) })
}

// IsNaN, IsInf and IsFinite test the elements. The results are of type bool, without gradients.
func (v *Variable) IsNaN() *Variable { return isNaN.apply(nil, v) }

// IsInf is true where v is infinite; see IsNaN.
func (v *Variable) IsInf() *Variable { return isInf.apply(nil, v) }

// IsFinite is true where v is neither infinite nor NaN; see IsNaN.
func (v *Variable) IsFinite() *Variable { return isFinite.apply(nil, v) }

var (
	isNaN    = testOf("isnan", (*tensor.Tensor).IsNaN)
	isInf    = testOf("isinf", (*tensor.Tensor).IsInf)
	isFinite = testOf("isfinite", (*tensor.Tensor).IsFinite)
)

func testOf(name string, f func(*tensor.Tensor) (*tensor.Tensor, error)) *op {
	return define(name, func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0)) }, notDifferentiable(steps))
}
