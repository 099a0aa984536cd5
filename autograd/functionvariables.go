package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// BackwardVariables of a Function: in a pass with CreateGraph it runs in the graph, and is recorded; if the function has a Backward too, that
// gives the values. In an ordinary pass it stands for a Backward that is not there, in a graph that records nothing.

// sourced is the argument of a node whose stashes may be values of its inputs or results.
type sourced interface{ source(at int) int }

// source says what was saved: 1+i is input i, -1-i is result i, and 0 is neither.
func (c *call[A]) source(at int) int {
	if at >= len(c.ctx.sources) {
		return 0
	}
	return c.ctx.sources[at]
}

// place is where the node has the variable whose value is stash at, nil if it is that of none.
func (n *node) place(at int) **Variable {
	c, ok := n.arg.(sourced)
	if !ok {
		return nil
	}
	switch i := c.source(at); {
	case i > 0:
		return &n.in[i-1]
	case i == -1:
		return &n.out
	case i < -1:
		return &n.more[-i-2]
	}
	return nil
}

// stashed is stash at, with the history of the input or result that it is.
func (r *rerun) stashed(at int) *Variable {
	p := r.n.place(at)
	if p == nil {
		return r.stash(at)
	}
	for i := range r.n.saved {
		if s := &r.n.saved[i]; s.what == stash && s.at == at && s.val != nil {
			return (*p).as(s.val)
		}
	}
	return nil
}

// variables calls BackwardVariables.
func (f *Function[A]) variables(r *rerun, gs []*Variable) []*Variable {
	c := r.n.arg.(*call[A])
	defer func(before *rerun) { c.ctx.r = before }(c.ctx.r)
	c.ctx.r = r
	g := r.n.g
	list := f.BackwardVariables(&c.ctx, c.arg, gs)
	if g.err != nil {
		return nil
	}
	if len(list) != len(r.n.in) {
		g.Fail(fmt.Errorf("BackwardVariables returned %d gradients for %d inputs", len(list), len(r.n.in)))
		return nil
	}
	for i, v := range list {
		if v == nil {
			continue
		}
		err := v.unusable(fmt.Sprintf("gradient %d of BackwardVariables", i))
		if err == nil && v.g != g {
			err = fmt.Errorf("gradient %d of BackwardVariables: %w", i, ErrOtherGraph)
		}
		if err == nil {
			_, err = tensor.BroadcastShapes(v.Shape(), r.n.in[i].Shape())
		}
		if err != nil {
			g.Fail(err)
			return nil
		}
		list[i] = v.now()
	}
	return list
}

// computed is what BackwardVariables gives, as tensors, in an ordinary pass.
func (f *Function[A]) computed(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	sub := n.g.child(n.g.gen, nil, true)
	defer sub.Release()
	s := &node{op: n.op, g: sub, arg: n.arg, out: n.out.without(sub)}
	for _, v := range n.more {
		s.more = append(s.more, v.without(sub))
	}
	for _, v := range n.in {
		s.in = append(s.in, v.without(sub))
	}
	for i := range n.saved {
		if k := &n.saved[i]; k.val != nil {
			s.saved = append(s.saved, saved{what: k.what, at: k.at, val: sub.Input(k.val.t).val})
		}
	}
	in := make([]*Variable, len(gs))
	for i, g := range gs {
		if g != nil {
			in[i] = sub.Input(g)
		}
	}
	if sub.err != nil {
		return nil, sub.err
	}
	list := f.variables(&rerun{n: s, needs: n.flows}, in)
	if sub.err != nil {
		return nil, sub.err
	}
	grads := make([]*tensor.Tensor, len(list))
	for i, v := range list {
		if v != nil {
			grads[i] = v.tensor().Retain()
		}
	}
	return grads, nil
}

// SavedVariable is Saved for BackwardVariables: an input or a result that was saved comes with its history, so that gradients flow to it. Other
// tensors are constants.
func (c *Context) SavedVariable(i int) *Variable {
	if !c.running() || c.r == nil {
		return nil
	}
	for k := range c.r.n.saved {
		switch s := &c.r.n.saved[k]; {
		case s.what != stash || s.at != i:
		case s.val == nil: // Save was given nil
			return nil
		default:
			return c.r.stashed(i)
		}
	}
	g := c.r.n.g
	return g.fail(&tensor.ValueError{Op: "SavedVariable", Detail: fmt.Sprintf("tensor %d is not saved", i)})
}
