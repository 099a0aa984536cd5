package autograd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Operations in place change the memory of v and make v stand for the result: the package's documentation has the rules. What shares its memory is
// refused because the history of what else sees the change would be wrong.

// ErrInPlace is what every *InPlaceError matches with errors.Is.
var ErrInPlace = errors.New("operation in place is not possible")

// InPlaceError is an operation in place on a variable that must not be changed.
type InPlaceError struct {
	Operand Operand
	Detail  string
}

// Error is one line that says why.
func (e *InPlaceError) Error() string { return fmt.Sprintf("%s: %s", e.Operand, e.Detail) }

// Unwrap returns ErrInPlace.
func (e *InPlaceError) Unwrap() error { return ErrInPlace }

// now is the variable that v stands for: itself, or what operations in place have made of it.
func (v *Variable) now() *Variable {
	for v != nil && v.next != nil && !v.stands {
		v = v.next
	}
	return v
}

// writing makes the forward function of an operation in place.
func writing(change func(n *node, t *tensor.Tensor) error) func(n *node) (*tensor.Tensor, error) {
	return func(n *node) (*tensor.Tensor, error) {
		if err := n.changeable(); err != nil {
			return nil, err
		}
		t := n.tensor(0)
		if err := change(n, t); err != nil {
			return nil, err
		}
		return t, nil
	}
}

// inPlace marks an operation that writes its result over its first input.
func inPlace(o *op) *op {
	o.inPlace = true
	return o
}

// changeable refuses an operation in place on input 0 if the graph could not tell its history.
func (n *node) changeable() error {
	v := n.in[0]
	if n.g.noGrad {
		return nil
	}
	refuse := func(detail string) error { return &InPlaceError{Operand: v.operand(), Detail: detail} }
	switch {
	case v.requires && v.node == nil:
		return refuse("a leaf variable that requires a gradient is used in an operation in place")
	case n.differentiable() && slices.Contains(n.in[1:], v):
		return refuse("it is its own operand, whose value would be lost; use a copy of it")
	case n.differentiable() && !v.tensor().Exclusive():
		return refuse(v.shared())
	}
	return nil
}

// shared says with what v shares its memory, and what helps.
func (v *Variable) shared() string {
	const wrong, copied = ", whose history would be wrong; use a copy of it", ", or make it in a Scope of its own, whose end frees the other one"
	if v.node != nil {
		for _, in := range v.node.in {
			if in != v && in.sharesWith(v) {
				return fmt.Sprintf("it shares its memory with %s, of which %s is a view (%s)%s%s", in.operand(), v.operand(), v.node.op.name, wrong, copied)
			}
		}
	}
	for s := v.g.scope; s != nil; s = s.outer {
		for _, made := range s.made {
			if other := made.now(); other != v && other.sharesWith(v) {
				return fmt.Sprintf("it shares its memory with %s%s%s%s", other.operand(), other.madeBy(), wrong, copied)
			}
		}
	}
	return "it shares its memory with another tensor" + wrong
}

// madeBy names the operation that made v, if that is known.
func (v *Variable) madeBy() string {
	if v.node == nil {
		return ""
	}
	return fmt.Sprintf(" (the result of %s)", v.node.op.name)
}

// sharesWith reports whether the values of both are there, on one memory.
func (v *Variable) sharesWith(u *Variable) bool {
	return v != nil && v.val != nil && u.val != nil && v.tensor().SharesStorage(u.tensor())
}

// replaced makes the variable of an operation in place: it takes over input 0's value, and input 0 stands for it from now on. So do the
// gradient that a user asked input 0 to keep, and what is there of it; hooks stay, and see the gradient of what input 0 was. It is on
// no list of a scope: it ends when input 0 does.
func (n *node) replaced() *Variable {
	old := n.in[0]
	out := &Variable{g: n.g, val: old.val, dtype: old.dtype, ndim: old.ndim, dims: old.dims, keep: old.keep, retain: old.retain, grad: old.grad}
	old.val, old.next, old.retain, old.grad = nil, out, false, nil
	return out
}

// AddInPlace adds alpha*u, with broadcasting, to v. Saves nothing. The package's documentation says what all operations in place refuse.
func (v *Variable) AddInPlace(u *Variable, alpha float64) *Variable { return addTo.over(alpha, v, u) }

var addTo = inPlace(define("add_", writing(func(n *node, t *tensor.Tensor) error { return t.AddInPlace(n.tensor(1), n.arg.(float64)) }),
	rule{grad: passGrad}, rule{grad: alphaGrad}))

func alphaGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	if n.arg.(float64) == 1 {
		return g.Retain(), nil
	}
	return g.MulScalar(n.arg.(float64))
}

// SubInPlace subtracts u, with broadcasting, from v. Saves nothing.
func (v *Variable) SubInPlace(u *Variable) *Variable { return subFrom.over(nil, v, u) }

var subFrom = inPlace(define("sub_", writing(func(n *node, t *tensor.Tensor) error { return t.SubInPlace(n.tensor(1)) }),
	rule{grad: passGrad}, rule{grad: negGrad}))

// MulInPlace multiplies v by u, with broadcasting. Saves u, and a copy of what v was if u needs a gradient.
func (v *Variable) MulInPlace(u *Variable) *Variable { return mulBy.over(nil, v, u) }

var mulBy = inPlace(define("mul_", writing(func(n *node, t *tensor.Tensor) error {
	if err := n.keepOld(t, 1); err != nil {
		return err
	}
	return t.MulInPlace(n.tensor(1))
}), rule{uses: input(1), grad: mulGrad}, rule{uses: stash, grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.Mul(n.stashed(0))
}}))

// keepOld stashes a copy of input 0 for the rule of input i, if that has a gradient.
func (n *node) keepOld(t *tensor.Tensor, i int) error {
	if n.g.noGrad || !n.flows(i) {
		return nil
	}
	old, err := t.Clone()
	if err == nil {
		n.stash(old)
	}
	return err
}

// DivInPlace divides v by u, with broadcasting. Saves u, and its result if u needs a gradient.
func (v *Variable) DivInPlace(u *Variable) *Variable { return divBy.over(nil, v, u) }

var divBy = inPlace(define("div_", writing(func(n *node, t *tensor.Tensor) error { return t.DivInPlace(n.tensor(1)) }),
	rule{uses: input(1), grad: divGradDividend},
	rule{uses: input(1) | output, grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { // -g * (v/u) / u
		return changed(func() (*tensor.Tensor, error) { return g.Mul(n.savedOutput()) }, divided(n.savedInput(1)), scaledBy(-1))
	}}))

// LerpInPlace adds weight*(end-v), with broadcasting, to v. Saves weight if v or end needs a gradient, and end and a copy of what v was if weight does.
func (v *Variable) LerpInPlace(end, weight *Variable) *Variable {
	return lerpOver.over(nil, v, end, weight)
}

var lerpOver = inPlace(define("lerp_", writing(func(n *node, t *tensor.Tensor) error {
	if err := n.keepOld(t, 2); err != nil {
		return err
	}
	return t.LerpInPlace(n.tensor(1), n.tensor(2))
}), rule{uses: input(2), grad: lerpGradStart}, rule{uses: input(2), grad: lerpGradEnd},
	rule{uses: input(1) | stash, grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return inOwn(n.savedInput(1).Sub(n.stashed(0)))(g.Mul)
	}}))

// LerpScalarInPlace is LerpInPlace with one weight for all elements. Saves nothing.
func (v *Variable) LerpScalarInPlace(end *Variable, weight float64) *Variable {
	return lerpScalarOver.over(weight, v, end)
}

var lerpScalarOver = inPlace(define("lerp_scalar_", writing(func(n *node, t *tensor.Tensor) error {
	return t.LerpScalarInPlace(n.tensor(1), n.arg.(float64))
}), rule{grad: lerpScalarGradStart}, rule{grad: mulScalarGrad}))

// AddScalarInPlace adds s to v. Saves nothing.
func (v *Variable) AddScalarInPlace(s float64) *Variable { return addScalarTo.over(s, v) }

var addScalarTo = inPlace(define("add_scalar_", writing(func(n *node, t *tensor.Tensor) error {
	return t.AddScalarInPlace(n.arg.(float64))
}), rule{grad: passGrad}))

// MulScalarInPlace multiplies v by s. Saves nothing.
func (v *Variable) MulScalarInPlace(s float64) *Variable { return mulScalarBy.over(s, v) }

var mulScalarBy = inPlace(define("mul_scalar_", writing(func(n *node, t *tensor.Tensor) error {
	return t.MulScalarInPlace(n.arg.(float64))
}), rule{grad: mulScalarGrad}))

// mapOver is an operation of one input in place whose gradient is of its result.
func mapOver(name string, f func(*tensor.Tensor) error, grad func(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error)) *op {
	return inPlace(define(name, writing(func(_ *node, t *tensor.Tensor) error { return f(t) }), rule{uses: output, grad: grad}))
}

// ClampInPlace brings v into lo..hi. Saves where it was inside, one byte for each element.
func (v *Variable) ClampInPlace(lo, hi float64) *Variable { return clampOver.over(bounds{lo, hi}, v) }

type bounds struct{ lo, hi float64 }

var clampOver = inPlace(define("clamp_", writing(func(n *node, t *tensor.Tensor) error {
	b := n.arg.(bounds)
	if n.differentiable() {
		var w work
		inside, err := w.result(w.do(t.GeScalar(b.lo)).And(w.do(t.LeScalar(b.hi))))
		if err != nil {
			return err
		}
		n.stash(inside)
	}
	return t.ClampInPlace(b.lo, b.hi)
}), rule{uses: stash, grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { return keepWhere(n.stashed(0), g) }}))

// MaskedFillInPlace sets the elements of v where mask, of type bool, holds to s. Saves mask.
func (v *Variable) MaskedFillInPlace(mask *Variable, s float64) *Variable {
	return maskedFillOver.over(s, v, mask)
}

var maskedFillOver = inPlace(define("masked_fill_", writing(func(n *node, t *tensor.Tensor) error {
	return t.MaskedFillInPlace(n.tensor(1), n.arg.(float64))
}), rule{uses: input(1), grad: maskedFillGrad}, notDifferentiable("a condition is true or false")))

// over runs an operation in place. It returns the variable that was changed, or the graph's poison.
func (o *op) over(arg any, in ...*Variable) *Variable {
	v := in[0]
	if out := o.apply(arg, in...); out == nil || out == out.g.poison {
		return out
	}
	return v
}
