package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// RSubScalar is s - v. Saves nothing.
func (v *Variable) RSubScalar(s float64) *Variable { return rsubScalar.apply(s, v) }

var rsubScalar = define("rsub_scalar", rsubScalarForward, rule{grad: negGrad})

func rsubScalarForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).RSubScalar(n.arg.(float64))
}

// RDivScalar is s / v, true division. Saves v.
func (v *Variable) RDivScalar(s float64) *Variable { return rdivScalar.apply(s, v) }

var rdivScalar = define("rdiv_scalar", rdivScalarForward, rule{uses: input(0), grad: rdivScalarGrad})

func rdivScalarForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).RDivScalar(n.arg.(float64))
}

// rdivScalarGrad is -s*g / v / v.
func rdivScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	v := n.savedInput(0)
	return changed(func() (*tensor.Tensor, error) { return g.MulScalar(-n.arg.(float64)) }, divided(v), divided(v))
}

// RPowScalar is s to the power of v. Saves its result.
func (v *Variable) RPowScalar(s float64) *Variable { return rpowScalar.apply(s, v) }

var rpowScalar = define("rpow_scalar", rpowScalarForward, rule{uses: output, grad: rpowScalarGrad})

func rpowScalarForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).RPowScalar(n.arg.(float64))
}

// rpowScalarGrad is g * s^v * log(s). For s = 0 it is 0 where v is not negative, so that s^v is 0 or 1: the limit, which 0*log(0)
// would miss. A g that is NaN stays NaN there.
func rpowScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	s := n.arg.(float64)
	if s != 0 {
		return changed(func() (*tensor.Tensor, error) { return g.Mul(n.savedOutput()) }, scaledBy(math.Log(s)))
	}
	var w work
	power := n.savedOutput()
	d := w.do(zeroWhere(w.do(power.LeScalar(1)), w.do(power.MulScalar(math.Inf(-1)))))
	return w.result(g.Mul(d))
}

// truncated is the quotient v/u without its fraction.
func truncated(v, u *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(v.Div(u))((*tensor.Tensor).Trunc)
}

// floored is the largest whole number that is not above v/u, as Python's //. It is found from the remainder, as in PyTorch: so it
// fits the remainder where v/u is rounded up to a whole number, and where u is infinite. Where u is 0 it is v/u.
func floored(v, u *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	rest := w.do(v.Fmod(u))
	v = w.do(v.To(rest.DType())) // a bool has no difference
	whole := w.do(w.do(w.do(v.Sub(rest)).Div(u)).Round())
	opposite := w.do(w.do(u.LtScalar(0)).Ne(w.do(rest.LtScalar(0))))
	below := w.do(w.do(w.do(rest.NeScalar(0)).And(opposite)).To(whole.DType()))
	return w.result(tensor.Where(w.do(u.EqScalar(0)), w.do(v.Div(u)), w.do(whole.Sub(below))))
}

// quotientGrad is -g times the whole quotient v/u.
func quotientGrad(whole func(v, u *tensor.Tensor) (*tensor.Tensor, error)) func(*node, int, *tensor.Tensor) (*tensor.Tensor, error) {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		q, err := whole(n.savedInput(0), n.savedInput(1))
		if err != nil {
			return nil, err
		}
		return changed(func() (*tensor.Tensor, error) { return q, nil }, multiplied(g), scaledBy(-1))
	}
}

// FmodScalar is the remainder of v/s with the sign of v. Saves nothing.
func (v *Variable) FmodScalar(s float64) *Variable { return fmodScalar.apply(s, v) }

// RemainderScalar is the remainder of v/s with the sign of s. Saves nothing.
func (v *Variable) RemainderScalar(s float64) *Variable { return remainderScalar.apply(s, v) }

var (
	fmodScalar = define("fmod_scalar", func(n *node) (*tensor.Tensor, error) {
		return n.tensor(0).FmodScalar(n.arg.(float64))
	}, rule{grad: passGrad})
	remainderScalar = define("remainder_scalar", func(n *node) (*tensor.Tensor, error) {
		return n.tensor(0).RemainderScalar(n.arg.(float64))
	}, rule{grad: passGrad})
)

// Lerp is v + weight*(end-v), with broadcasting. Saves weight if v or end needs a gradient, and v and end if weight does.
func (v *Variable) Lerp(end, weight *Variable) *Variable { return lerp.apply(nil, v, end, weight) }

var lerp = define("lerp", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).Lerp(n.tensor(1), n.tensor(2)) },
	rule{uses: input(2), grad: lerpGradStart}, rule{uses: input(2), grad: lerpGradEnd}, rule{uses: input(0) | input(1), grad: lerpGradWeight})

func lerpGradStart(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(2).RSubScalar(1))(g.Mul)
}

func lerpGradEnd(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.Mul(n.savedInput(2))
}

func lerpGradWeight(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(1).Sub(n.savedInput(0)))(g.Mul)
}

// LerpScalar is v + weight*(end-v) with one weight for all elements. Saves nothing.
func (v *Variable) LerpScalar(end *Variable, weight float64) *Variable {
	return lerpScalar.apply(weight, v, end)
}

var lerpScalar = define("lerp_scalar", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).LerpScalar(n.tensor(1), n.arg.(float64))
}, rule{grad: lerpScalarGradStart}, rule{grad: mulScalarGrad})

func lerpScalarGradStart(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.MulScalar(1 - n.arg.(float64))
}

// AddCMul is v + value*a*b, with broadcasting. Saves each factor whose partner needs a gradient.
func (v *Variable) AddCMul(a, b *Variable, value float64) *Variable {
	return addCMul.apply(value, v, a, b)
}

var addCMul = define("addcmul", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).AddCMul(n.tensor(1), n.tensor(2), n.arg.(float64))
}, rule{grad: passGrad}, rule{uses: input(2), grad: addCMulGrad}, rule{uses: input(1), grad: addCMulGrad})

func addCMulGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	if n.arg.(float64) == 1 {
		return g.Mul(n.savedInput(3 - i))
	}
	// The factor is multiplied first, as in PyTorch: with a value of 0 nothing can overflow.
	return inOwn(n.savedInput(3 - i).MulScalar(n.arg.(float64)))(g.Mul)
}

// AddCDiv is v + value*a/b, with broadcasting. Saves b, and also a if b needs a gradient.
func (v *Variable) AddCDiv(a, b *Variable, value float64) *Variable {
	return addCDiv.apply(value, v, a, b)
}

var addCDiv = define("addcdiv", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).AddCDiv(n.tensor(1), n.tensor(2), n.arg.(float64))
}, rule{grad: passGrad}, rule{uses: input(2), grad: addCDivGradA}, rule{uses: input(1) | input(2), grad: addCDivGradB})

func addCDivGradA(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return changed(func() (*tensor.Tensor, error) { return g.MulScalar(n.arg.(float64)) }, divided(n.savedInput(2)))
}

// addCDivGradB is -g * (value*a / b / b), in the order of PyTorch: a product of g and a may vanish or overflow where the quotients do not. a may be of
// integers, into which the factor does not go.
func addCDivGradB(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a, b := n.savedInput(1), n.savedInput(2)
	scaled := func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.MulScalar(-n.arg.(float64)) }
	quotient := func(t *tensor.Tensor) (*tensor.Tensor, error) {
		return changed(func() (*tensor.Tensor, error) { return t.Div(b) }, divided(b))
	}
	return inOwn(inOwn(inOwn(a.To(g.DType()))(scaled))(quotient))(g.Mul)
}

// MaskedFill is s where mask, of type bool, holds, and v elsewhere, with broadcasting. Saves mask.
func (v *Variable) MaskedFill(mask *Variable, s float64) *Variable {
	return maskedFill.apply(s, v, mask)
}

var maskedFill = define("masked_fill", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).MaskedFill(n.tensor(1), n.arg.(float64))
}, rule{uses: input(1), grad: maskedFillGrad}, notDifferentiable("a condition is true or false"))

func maskedFillGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.MaskedFill(n.savedInput(1), 0)
}
