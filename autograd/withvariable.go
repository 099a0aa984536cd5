package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// WithVariable runs f with y in the place of x: while f runs, operations on x compute with y, and so do errors and accessors. It is for what is put
// before a function that has x already, as a hook of a module is; calls nest. y has x's shape and type: otherwise, and if it is nil, released, of
// another graph, or stands for x itself, it is an error of the graph, and f is not run. It is no scope. It returns what f returns, y for x.
func (g *Graph) WithVariable(x, y *Variable, f func() *Variable) *Variable {
	const use = "WithVariable"
	if g == nil || f == nil {
		return g.without(use)
	}
	if !g.ready(use) {
		return g.poison
	}
	for i, v := range []*Variable{x, y} {
		if err := v.unusable(fmt.Sprintf("%s: variable %d", use, i)); err != nil {
			return g.Refuse(use, err)
		}
		if v.g != g {
			return g.Refuse(use, ErrOtherGraph, v)
		}
	}
	from, to := x.now(), y.now()
	switch {
	case from == to:
		return g.Refuse(use, &tensor.ValueError{Op: use, Detail: "a variable cannot stand for itself"}, x)
	case !from.Shape().Equal(to.Shape()):
		return g.Refuse(use, &tensor.ShapeError{Op: use, Shapes: []tensor.Shape{from.Shape().Clone(), to.Shape().Clone()},
			Detail: "what stands for a variable has its shape"}, x, y)
	case from.dtype != to.dtype:
		return g.Refuse(use, &tensor.DTypeError{Op: use, DTypes: []tensor.DType{from.dtype, to.dtype}, Detail: "what stands for a variable has its type"}, x, y)
	}
	from.next = to
	defer func() { from.next = nil }()
	if r := f(); r == nil || r.now() != to.now() {
		return r
	}
	return y
}
