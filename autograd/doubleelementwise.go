package autograd

import "github.com/cistern-ml/cistern/tensor"

// Gradients of element-wise operations, as variables.

// slope is the gradient of an operation of one input: the incoming one times the derivative.
func slope(o *op, derivative func(r *rerun) *Variable) {
	kernel(o, func(r *rerun, gs []*Variable) []*Variable { return []*Variable{gs[0].Mul(derivative(r))} })
}

// each records what rules compute, of which each input has one of its own; nil stands for none. It is for rules that take the very steps of
// those of ordinary passes.
func each(o *op, rules ...func(r *rerun, g *Variable) *Variable) { o.double = eachOf(rules...) }

func eachOf(rules ...func(r *rerun, g *Variable) *Variable) double {
	return func(r *rerun, gs []*Variable) []*Variable {
		in := make([]*Variable, len(r.n.in))
		for i, f := range rules {
			if f != nil && r.needs(i) {
				in[i] = f(r, gs[0])
			}
		}
		return in
	}
}

func pass(_ *rerun, g *Variable) *Variable { return g }

func negated(_ *rerun, g *Variable) *Variable { return g.Neg() }

// number is the operation's argument.
func (r *rerun) number() float64 { return r.n.arg.(float64) }

// piecewise says that operations have a derivative that changes only at single points: their gradients are linear in the incoming one, and
// depend on nothing else. The rules of ordinary passes compute them, of the incoming gradient and of what was saved. Being products with a
// constant, they are their own adjoints.
func piecewise(ops ...*op) {
	for _, o := range ops {
		a := variadic(&op{name: o.name + "_backward", forward: pieceForward, rules: []rule{{uses: others, grad: pieceGrad}}})
		o.double = func(r *rerun, gs []*Variable) []*Variable {
			in := make([]*Variable, len(r.n.in))
			for i := range in {
				if r.needs(i) {
					in[i] = a.apply(&piece{of: r.n, to: i}, append([]*Variable{gs[0]}, r.constants()...)...)
				}
			}
			return in
		}
		a.double = func(r *rerun, gs []*Variable) []*Variable {
			in := make([]*Variable, len(r.n.in))
			list := []*Variable{gs[0]}
			for k := 1; k < len(in); k++ {
				list = append(list, r.input(k))
			}
			in[0] = a.apply(r.n.arg, list...)
			return in
		}
	}
}

// piece is the argument of the gradient of a piecewise operation: the node whose gradient for input to it is.
type piece struct {
	of *node
	to int
}

// constants are what the node saved, as variables without history.
func (r *rerun) constants() []*Variable {
	var list []*Variable
	for i := range r.n.saved {
		if s := &r.n.saved[i]; s.val != nil {
			list = append(list, r.n.g.newVariable(s.val.t.Retain()))
		}
	}
	return list
}

// rule runs the rule of an ordinary pass on g and on what constants gave.
func (p *piece) rule(g *tensor.Tensor, constants []*tensor.Tensor) (*tensor.Tensor, error) {
	n := &node{op: p.of.op, g: p.of.g, in: p.of.in, arg: p.of.arg}
	at := 0
	for i := range p.of.saved {
		s := p.of.saved[i]
		if s.val == nil {
			continue
		}
		n.saved = append(n.saved, saved{what: s.what, at: s.at, val: &value{t: constants[at], holders: 1, place: -1}})
		at++
	}
	return p.of.op.rule(p.to).grad(n, p.to, g)
}

func pieceForward(n *node) (*tensor.Tensor, error) {
	ts := n.tensors()
	return n.arg.(*piece).rule(ts[0], ts[1:])
}

func pieceGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var constants []*tensor.Tensor
	for k := 1; k < len(n.in); k++ {
		constants = append(constants, n.savedInput(k))
	}
	return n.arg.(*piece).rule(g, constants)
}
