package autograd

import (
	"math/bits"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Gradients that are computed by kernels of their own, which know the edges of their functions. A pass with CreateGraph runs the same rules as
// an ordinary one, so that the gradients are the same to the bit, and records them as one operation of the incoming gradients and of
// what forward saved. The derivatives of that operation are those of a formula, written in variables. It is computed when a pass comes to
// the operation, in a graph of its own that ends with the rule: until then nothing is held but what the operation has read.

// kernel says that the gradients of o are recorded as one operation, with the derivatives of the formula.
func kernel(o *op, formula double) { kernelOf(o, formula, reading{output: true}) }

// reading says what a formula reads besides the inputs that are saved.
type reading struct {
	output bool // the result, if it is saved: else no gradient flows to it, nor on to the inputs
	all    bool // the values of all inputs, also of those that are not saved
}

// kernelOf is kernel for a formula with other readings.
func kernelOf(o *op, formula double, by reading) {
	a := variadic(&op{name: o.name + "_backward", several: gradientForward, joints: gradientAgain, rules: []rule{{uses: inputs}}})
	o.double = func(r *rerun, gs []*Variable) []*Variable {
		arg := &gradientArg{of: r.n, formula: formula}
		in := arg.inputs(r, gs, by)
		list := make([]*Variable, len(r.n.in))
		for k, out := range a.applyAll(len(arg.to), arg, in...) {
			list[arg.to[k]] = out
		}
		return list
	}
	a.double = gradientDouble
}

// gradientArg is the argument of the operation that computes the gradients of a node.
type gradientArg struct {
	of      *node
	formula double
	to      []int   // the inputs of the node whose gradients the results are
	from    []int   // the results of the node whose gradients the first inputs are
	reads   []saved // what the inputs after these are to the node
}

// inputs are those of the operation.
func (a *gradientArg) inputs(r *rerun, gs []*Variable, by reading) (in []*Variable) {
	n := r.n
	for i := range n.in {
		if r.needs(i) {
			a.to = append(a.to, i)
		}
	}
	for i, g := range gs {
		if g != nil {
			a.from, in = append(a.from, i), append(in, g)
		}
	}
	read := func(what uses, at int, v *Variable) {
		a.reads, in = append(a.reads, saved{what: what, at: at}), append(in, v)
	}
	for i := range n.saved {
		switch s := &n.saved[i]; {
		case s.val == nil:
		case s.what == stash:
			read(stash, s.at, r.stashed(s.at))
		case s.what == output && by.output:
			read(output, 0, n.out.as(s.val))
		case s.what == output:
			read(output, 0, n.g.newVariable(s.val.t.Retain()))
		default:
			read(s.what, 0, n.in[s.input()].as(s.val))
		}
	}
	for i := range n.in {
		if by.all && r.saved(input(i)) == nil {
			read(input(i), 0, r.input(i))
		}
	}
	return in
}

// input is which input of the operation was saved.
func (s *saved) input() int { return bits.TrailingZeros64(uint64(s.what)) }

// shadow is the node as if forward had run in g on what in has of its values. The gradients that it shall compute are those of a.to.
func (a *gradientArg) shadow(g *Graph, in []*Variable) *node {
	n := &node{op: a.of.op, g: g, arg: a.of.arg, out: a.of.out.without(g)}
	for _, v := range a.of.more {
		n.more = append(n.more, v.without(g))
	}
	for i, v := range a.of.in {
		u := v.without(g)
		u.requires = slices.Contains(a.to, i)
		n.in = append(n.in, u)
	}
	for k, s := range a.reads {
		v := in[len(a.from)+k]
		n.saved = append(n.saved, saved{what: s.what, at: s.at, val: v.val, version: v.Version()})
	}
	return n
}

// without is a variable of v's shape and type in g, without value and history.
func (v *Variable) without(g *Graph) *Variable {
	return &Variable{g: g, dtype: v.dtype, ndim: v.ndim, dims: v.dims}
}

func gradientForward(n *node) ([]*tensor.Tensor, error) {
	a := n.arg.(*gradientArg)
	gs := make([]*tensor.Tensor, a.of.outputs())
	for k, i := range a.from {
		gs[i] = n.tensor(k)
	}
	return a.shadow(n.g, n.in).gradients(a.to, gs)
}

// gradients runs the rules of an ordinary pass for some inputs, of gradients that are not theirs to write over.
func (n *node) gradients(to []int, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var all []*tensor.Tensor
	var err error
	switch {
	case n.op.joints != nil:
		all, err = n.op.joints(n, gs)
	case n.op.joint != nil:
		all, err = n.op.joint(n, gs[0])
	default:
		all = make([]*tensor.Tensor, len(n.in))
		for _, i := range to {
			if err == nil {
				all[i], err = n.op.rule(i).grad(n, i, gs[0])
			}
		}
	}
	defer func() { releaseAll(all) }()
	list := make([]*tensor.Tensor, len(to))
	for k, i := range to {
		if err == nil && all[i] == nil {
			all[i], err = tensor.Zeros(n.g.exec, n.in[i].dtype, n.in[i].Shape()...)
		}
		if err == nil {
			t := all[i]
			all[i] = nil
			list[k], err = n.fit(i, t, nil)
		}
	}
	if err != nil {
		releaseAll(list)
		return nil, err
	}
	return list, nil
}

// variables are the results as the formula gives them, of variables for the operation's inputs. Where a result depends on none of them it is
// nil.
func (a *gradientArg) variables(g *Graph, in []*Variable) []*Variable {
	n := a.shadow(g, in)
	for k, s := range a.reads {
		switch v := in[len(a.from)+k].original(); s.what {
		case stash:
			if p := n.place(s.at); p != nil {
				*p = v
			}
		case output:
			n.out = v
		default:
			n.in[s.input()] = v
		}
	}
	gs := make([]*Variable, a.of.outputs())
	for k, i := range a.from {
		gs[i] = in[k]
	}
	list := a.formula(&rerun{n: n, needs: func(i int) bool { return slices.Contains(a.to, i) }}, gs)
	outs := make([]*Variable, len(a.to))
	for k, i := range a.to {
		if i < len(list) && list[i] != nil {
			outs[k] = fitted(list[i], n.in[i])
		}
	}
	return outs
}

// original is the variable whose place in the graph v takes.
func (v *Variable) original() *Variable {
	if v.stands {
		return v.next
	}
	return v
}

// gradientAgain computes the formula, and its gradients, in a graph that ends with this function.
func gradientAgain(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	sub := n.g.child(n.g.gen, nil, false)
	defer sub.Release()
	sub.retaining = true // what was saved is not the formula's to write over
	in := make([]*Variable, len(n.in))
	var wanted []*Variable
	for i := range in {
		in[i] = sub.Input(n.savedInput(i))
		if n.flows(i) {
			in[i].requires = true
			wanted = append(wanted, in[i])
		}
	}
	if sub.err != nil {
		return nil, sub.err
	}
	var outs []*Variable
	var seeds []*tensor.Tensor
	results := sub.Scopes(func() []*Variable { return n.arg.(*gradientArg).variables(sub, in) })
	for k, v := range results {
		if gs[k] != nil && v != nil && v.requires {
			outs, seeds = append(outs, v), append(seeds, gs[k])
		}
	}
	list := make([]*tensor.Tensor, len(in))
	if sub.err != nil || len(outs) == 0 {
		return list, sub.err
	}
	b, _, err := gradOf(outs, wanted, []BackwardOption{WithGradient(seeds...)})
	if err != nil {
		return nil, err
	}
	for i, v := range in {
		list[i] = b.wanted[v]
	}
	return list, nil
}

// gradientDouble is gradientAgain as variables.
func gradientDouble(r *rerun, gs []*Variable) []*Variable {
	g := r.n.g
	in := make([]*Variable, len(r.n.in))
	for i := range in {
		in[i] = r.input(i)
	}
	from := g.nodes
	if g.err != nil {
		return nil
	}
	return r.through(from, r.n.arg.(*gradientArg).variables(g, in), gs)
}
