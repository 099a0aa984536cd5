package autograd

import "github.com/cistern-ml/cistern/tensor"

// The gradient of an operation that is linear in each of its inputs is an operation of the same kind: for y = f(x, w) the gradient of x is
// A(g, w), linear in g and w, and <A(g, w), x> = <g, f(x, w)>. So the gradient of A with respect to g is f of the gradient that comes in, and
// the gradient with respect to w is f's own for w at that place. Two functions that are there already, forward and the rule, are all
// that differentiating such an operation takes, any number of times: views, sums, copies, indexing, products, convolutions.

// adjoint is the argument of an operation that computes the gradient of input to of an operation. Its inputs are the gradient of the
// result, and the other inputs.
type adjoint struct {
	of  *op
	to  int
	in  []*Variable // of the operation, for their shapes and types
	arg any
}

// adjoints are the operations themselves, one for each that is linear. They are not in the table: only passes with CreateGraph run them, which
// no caster sees.
var adjoints = map[*op]*op{}

// multilinear says that the gradients of operations are their adjoints.
func multilinear(ops ...*op) {
	for _, o := range ops {
		a := variadic(&op{name: o.name + "_backward", forward: adjointForward, rules: []rule{{uses: inputs, grad: adjointGrad}}})
		adjoints[o] = a
		o.double = func(r *rerun, gs []*Variable) []*Variable {
			in := make([]*Variable, len(r.n.in))
			for i := range in {
				if r.needs(i) {
					in[i] = r.adjoint(i, gs[0])
				}
			}
			return in
		}
		a.double = adjointDouble
	}
}

// adjoint is the gradient of input i as an operation on g and the other inputs.
func (r *rerun) adjoint(i int, g *Variable) *Variable {
	in := []*Variable{g}
	for k, v := range r.n.in {
		switch {
		case k == i:
		case r.saved(input(k)) != nil:
			in = append(in, r.input(k))
		default: // the rule reads nothing of it
			in = append(in, v)
		}
	}
	return adjoints[r.n.op].apply(&adjoint{of: r.n.op, to: i, in: r.n.in, arg: linearPart(r.n.arg)}, in...)
}

// linearPart is the argument of an operation without what it adds to its linear part, and without what it computes besides.
func linearPart(arg any) any {
	switch a := arg.(type) {
	case *fusion:
		return nil
	case padArg:
		a.value = 0
		return a
	case embeddingArg:
		return embeddingArg{}
	}
	return arg
}

// place is the input of the operation that input k of the adjoint is. That of the gradient is -1.
func (a *adjoint) place(k int) int {
	if k == 0 {
		return -1
	}
	if k <= a.to {
		return k - 1
	}
	return k
}

// with lists values for all inputs of the operation: those of the adjoint's, and that for the place to which it leads.
func with[T any](a *adjoint, ins []T, at T) []T {
	list := make([]T, len(a.in))
	list[a.to] = at
	for k := 1; k < len(ins); k++ {
		list[a.place(k)] = ins[k]
	}
	return list
}

// shadow is a node of the operation, as if forward had run on these tensors.
func (a *adjoint) shadow(g *Graph, ts []*tensor.Tensor) *node {
	n := &node{op: a.of, g: g, arg: a.arg, in: make([]*Variable, len(ts))}
	for i, t := range ts {
		v := *a.in[i]
		v.val, v.next, v.requires, v.node = nil, nil, false, nil
		if t != nil {
			v.val = &value{t: t, holders: 1, place: -1}
			n.saved = append(n.saved, saved{what: input(i), val: v.val, version: t.Version()})
		}
		n.in[i] = &v
	}
	return n
}

func adjointForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(*adjoint)
	s := a.shadow(n.g, with(a, n.tensors(), nil))
	t, err := a.of.rule(a.to).grad(s, a.to, n.tensor(0))
	return s.fit(a.to, t, err)
}

// adjointGrad is the gradient of input k in a pass that is not recorded.
func adjointGrad(n *node, k int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(*adjoint)
	ts := make([]*tensor.Tensor, len(n.in))
	for i := range ts {
		ts[i] = n.savedInput(i)
	}
	s := a.shadow(n.g, with(a, ts, g))
	if k == 0 {
		return a.of.forward(s)
	}
	return a.of.rule(a.place(k)).grad(s, a.place(k), ts[0])
}

// adjointDouble is adjointGrad as variables.
func adjointDouble(r *rerun, gs []*Variable) []*Variable {
	a := r.n.arg.(*adjoint)
	ins := make([]*Variable, len(r.n.in))
	for i := range ins {
		ins[i] = r.input(i)
	}
	in := with(a, ins, gs[0])
	list := make([]*Variable, len(r.n.in))
	for k := range list {
		switch {
		case !r.needs(k):
		case k == 0:
			list[k] = a.of.apply(a.arg, in...)
		default:
			to := a.place(k)
			rest := []*Variable{ins[0]}
			for i, v := range in {
				if i != to {
					rest = append(rest, v)
				}
			}
			list[k] = adjoints[a.of].apply(&adjoint{of: a.of, to: to, in: a.in, arg: a.arg}, rest...)
		}
	}
	return list
}
