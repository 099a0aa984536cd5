package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Context is what one run of a Function has: the tensors that it saves, and the graph that it runs in.
type Context struct {
	n    *node
	kept []*tensor.Tensor // during Forward: what Save was given

	sources []int  // what was saved; see call.source
	r       *rerun // during BackwardVariables
}

// Save keeps tensors for Backward, which gets them from Saved in the same order: inputs, results, or others, which the graph
// takes over. It does nothing if no gradient will be needed, except that others are released after Forward. Nil tensors are
// kept as nil.
func (c *Context) Save(ts ...*tensor.Tensor) {
	if c.running() {
		c.kept = append(c.kept, ts...)
	}
}

// running reports whether the Context is that of a run, and neither nil nor a zero value.
func (c *Context) running() bool { return c != nil && c.n != nil }

// Saved returns tensor i of those that were saved, borrowed: it is freed when Backward returns.
func (c *Context) Saved(i int) *tensor.Tensor {
	if !c.running() {
		return nil
	}
	return c.n.g.lend(c.n.stashed(i))
}

// NeedsGrad reports whether input i gets a gradient.
func (c *Context) NeedsGrad(i int) bool {
	if c.running() && c.r != nil {
		return i >= 0 && i < len(c.n.in) && c.r.needs(i)
	}
	return c.running() && i >= 0 && i < len(c.n.in) && c.n.flows(i)
}

// GradEnabled reports whether Backward may be called at all: else saving is in vain.
func (c *Context) GradEnabled() bool { return c.running() && c.n.differentiable() }

// Exec is what tensors are made under.
func (c *Context) Exec() tensor.Exec {
	if !c.running() {
		return tensor.Exec{}
	}
	return c.n.g.outer
}

// Generator is what random numbers are drawn from.
func (c *Context) Generator() *tensor.Generator {
	if !c.running() {
		return nil
	}
	return c.n.g.Generator()
}

// own takes over the results and what was saved, and puts the inputs' own handles for the lent ones.
func (c *Context) own(in, outs []*tensor.Tensor) (err error) {
	take := func(t *tensor.Tensor) *tensor.Tensor {
		owned, failed := c.n.g.own("Forward", t)
		if failed != nil && err == nil {
			err = failed
		}
		c.rename(t, owned)
		return owned
	}
	for i, t := range outs {
		outs[i] = take(t)
	}
	taken := slices.Clone(outs)
	for _, t := range slices.Clone(c.kept) {
		if t != nil && !slices.Contains(in, t) && !slices.Contains(taken, t) && slices.Contains(c.kept, t) {
			taken = append(taken, take(t))
		}
	}
	if err != nil {
		c.forget(in, outs)
		return err
	}
	for i, t := range in {
		c.rename(t, c.n.tensor(i))
	}
	return nil
}

// rename puts another handle in the places of one that was saved.
func (c *Context) rename(from, to *tensor.Tensor) {
	for k, kept := range c.kept {
		if kept == from {
			c.kept[k] = to
		}
	}
}

// forget releases what was saved for nothing: neither inputs nor results.
func (c *Context) forget(in, outs []*tensor.Tensor) {
	for _, t := range c.kept {
		if !slices.Contains(in, t) && !slices.Contains(outs, t) {
			t.Release()
		}
	}
	c.kept = nil
}

// keepSaved moves what Forward saved to the node: inputs and the result share their handles, the rest is taken over.
func keepSaved[A any](n *node) {
	c := &n.arg.(*call[A]).ctx
	for at, t := range c.kept {
		c.keep(at, t)
	}
	c.kept = nil
}

func (c *Context) keep(at int, t *tensor.Tensor) {
	n := c.n
	if t == nil {
		n.saved = append(n.saved, saved{what: stash, at: at})
		return
	}
	for i, v := range slices.Concat(n.in, []*Variable{n.out}, n.more) {
		if v.val.t != t {
			continue
		}
		if i++; i > len(n.in) {
			i = len(n.in) - i
		}
		c.sources = append(append(c.sources, make([]int, at-len(c.sources))...), i)
		n.save(stash, at, v.val.hold())
		return
	}
	n.save(stash, at, n.g.ledger.add(t))
}
