package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Prod is the product of the elements along dims, or of all if there are none. Saves v. The gradient is the product of the other
// elements, also where that of all is beyond the type's range: backward computes it in float64, in two temporaries of v's size.
func (v *Variable) Prod(dims []int, keep bool) *Variable { return prod.apply(reduction{dims, keep}, v) }

var prod = define("prod", prodForward, rule{uses: input(0), grad: prodGrad})

func prodForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).Prod(r.dims, r.keep)
}

// prodGrad is g times the product of the other elements. With the zeros left out that is the product of all divided by the element:
// right if there are no zeros, and right for the zero if there is one; everything else is 0, or NaN if an infinity or NaN is among
// the others. In a product of all elements with more than one zero everything is 0, as in PyTorch, which looks no further then.
func prodGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	r, v := n.arg.(reduction), n.savedInput(0)
	if r.count(v.Shape()) == 1 { // there is no other, of which the product is 1
		return w.result(r.restore(g, v.Shape()))
	}
	g = w.do(w.do(r.restore(g, v.Shape())).To(tensor.Float64))
	zeros := w.do(v.EqScalar(0))
	vanishes := w.do(w.others(r, zeros))
	special := w.do(w.do(v.IsFinite()).Not())
	d := w.do(quotients(r, v, g, zeros, special))
	d = w.do(zeroWhere(vanishes, w.do(d.To(v.DType()))))
	undefined := w.do(vanishes.And(w.do(w.others(r, special))))
	if len(r.dims) == 0 {
		undefined = w.do(undefined.And(w.do(w.do(zeros.CountNonzero()).LeScalar(1))))
	}
	return w.result(d.MaskedFill(undefined, math.NaN()))
}

// quotients is g times the product of all elements but the zeros, divided by the element, in float64. A product of narrower types that
// leaves float64's range leaves their range also when it is divided by an element; only that of float64 has to be formed otherwise.
func quotients(r reduction, v, g, zeros, special *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	rest := w.do(v.To(tensor.Float64))
	if v.DType() == tensor.Float64 {
		rest = w.do(v.MaskedFill(zeros, 1))
	} else if w.err == nil {
		w.fail(rest.MaskedFillInPlace(zeros, 1))
	}
	p := w.do(w.do(rest.Prod(r.dims, true)).Mul(g))
	d := w.do(p.Div(rest))
	if v.DType() != tensor.Float64 || w.err != nil || v.Len() == 0 {
		return w.result(d.Retain(), nil)
	}
	const smallest = 0x1p-1022 // of full precision
	inRange := w.do(w.do(p.IsFinite()).And(w.do(w.do(p.Abs()).GeScalar(smallest))))
	anySpecial := w.do(special.Any(r.dims, true))
	exact := w.do(w.do(otherProducts(r, rest)).Mul(g))
	return w.result(tensor.Where(w.do(inRange.Or(anySpecial)), d, exact))
}

// otherProducts is, for each element of v, the product of the others along r, of those before it and those behind it: none of them is
// divided. It is the gradient of a running product of which only the last element counts.
func otherProducts(r reduction, v *tensor.Tensor) (*tensor.Tensor, error) {
	if v == nil {
		return nil, tensor.ErrReleased
	}
	var w work
	order, back := r.reducedLast(v.NDim())
	moved := w.do(v.Permute(order...))
	if w.err != nil {
		return w.result(nil, nil)
	}
	shape, count := moved.Shape().Clone(), r.count(v.Shape())
	rows := w.do(moved.Reshape(v.Len()/count, count))
	last := w.do(tensor.Zeros(v.Exec(), tensor.Float64, v.Len()/count, count))
	if w.err == nil {
		w.fail(w.do(last.Narrow(1, count-1, 1)).FillInPlace(1))
	}
	d := w.do(gradients.CumProd(last, rows, w.do(rows.CumProd(1)), 1))
	return w.result(w.do(d.Reshape(shape...)).Permute(back...))
}

// reducedLast is an order of ndim dimensions in which the reduced ones are the last, and the order that leads back.
func (r reduction) reducedLast(ndim int) (order, back []int) {
	for _, reduced := range []bool{false, true} {
		for i := range ndim {
			if r.reduces(i, ndim) == reduced {
				order = append(order, i)
			}
		}
	}
	back = make([]int, ndim)
	for to, from := range order {
		back[from] = to
	}
	return order, back
}

// others is true where mask is at another element of those that are reduced together.
func (w *work) others(r reduction, mask *tensor.Tensor) (*tensor.Tensor, error) {
	if w.err != nil {
		return nil, w.err
	}
	count := w.do(reduction{dims: r.dims}.restore(w.do(mask.CountNonzero(r.dims...)), mask.Shape()))
	return count.Ne(mask)
}
