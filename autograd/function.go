package autograd

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/tensor"
)

// Function is an operation that a program defines: a forward computation on tensors, and the rule of its gradients
// (torch.autograd.Function). A is the type of what it has besides its inputs: a struct of settings, or struct{} for none. Make
// one for each operation, as a package variable, and do not change it afterwards.
//
//	var scaledTanh = autograd.Function[float64]{
//		Name: "scaled_tanh",
//		Forward: func(c *autograd.Context, scale float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
//			y, err := in[0].Tanh()
//			if err != nil {
//				return nil, err
//			}
//			c.Save(y)
//			return y.MulScalar(scale)
//		},
//		Backward: func(c *autograd.Context, scale float64, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
//			g, err := grad.MulScalar(scale)
//			if err != nil {
//				return nil, err
//			}
//			defer g.Release()
//			dx, err := g.TanhGrad(c.Saved(0))
//			return []*tensor.Tensor{dx}, err
//		},
//	}
//
//	y := scaledTanh.Apply(2, x)
//
// It is an operation like any other: inputs are checked, a Caster is asked about it by its name (package amp lets operations that
// it does not know run in the types of their inputs; amp.CastInputs gives it one type), errors say its name, anomaly detection
// looks at its gradients, hooks and checkpoints see it, and what it saved is freed when its rule has run.
type Function[A any] struct {
	Name string // for errors and casters: like PyTorch's names, "scaled_tanh"

	// Forward computes the result from the values of the inputs, which are borrowed. It returns a new tensor, made by operations
	// on the inputs or under c.Exec, or a handle on an input (Retain), and releases what else it makes and does not Save.
	Forward func(c *Context, arg A, in []*tensor.Tensor) (*tensor.Tensor, error)

	// Backward computes the gradient of each input from that of the result, which is borrowed. The list has an entry for each
	// input, a new tensor or a handle that the graph takes over; nil stands for zeros, and is right for inputs for which
	// c.NeedsGrad is false. Gradients are brought to the shape and type of their inputs: broadcast dimensions are summed. A nil
	// Backward makes an operation without gradients.
	Backward func(c *Context, arg A, grad *tensor.Tensor) ([]*tensor.Tensor, error)

	once sync.Once
	op   *op
}

// Context is what one run of a Function has: the tensors that it saves, and the graph that it runs in.
type Context struct {
	n    *node
	kept []*tensor.Tensor // during Forward: what Save was given
}

// call is the argument of a Function's node.
type call[A any] struct {
	arg A
	ctx Context
}

// Apply runs the function on inputs of one graph. Errors are the graph's.
func (f *Function[A]) Apply(arg A, in ...*Variable) *Variable {
	f.once.Do(f.define)
	return f.op.apply(&call[A]{arg: arg}, in...)
}

// define makes the operation. It is not in the table of this package's own.
func (f *Function[A]) define() {
	name := f.Name
	if name == "" {
		name = "function"
	}
	r := rule{}
	if f.Backward == nil {
		r.none = "the function has no Backward"
	}
	f.op = variadic(&op{name: name, forward: f.forward, rules: []rule{r}, keep: keepSaved[A]})
	if f.Backward != nil {
		f.op.joints = f.backward
	}
}

func (f *Function[A]) forward(n *node) (*tensor.Tensor, error) {
	c := n.arg.(*call[A])
	c.ctx.n = n
	if f.Forward == nil {
		return nil, fmt.Errorf("the function has no Forward")
	}
	in := make([]*tensor.Tensor, len(n.in))
	for i := range in {
		in[i] = n.tensor(i)
	}
	out, err := f.Forward(&c.ctx, c.arg, in)
	if err == nil && (out == nil || out.Released()) {
		err = &tensor.ReleasedError{Op: "Forward"}
	}
	if err == nil && slices.Contains(in, out) { // borrowed: the result is another handle
		out = out.Retain()
	}
	if err != nil || !n.differentiable() || !out.DType().IsFloat() {
		c.ctx.forget(in, out)
		if err != nil {
			return nil, err
		}
		return n.g.own(out)
	}
	return c.ctx.own(in, out)
}

// own takes over the result and what was saved.
func (c *Context) own(in []*tensor.Tensor, out *tensor.Tensor) (*tensor.Tensor, error) {
	owned, err := c.n.g.own(out)
	for i, t := range c.kept {
		switch {
		case t == out:
			c.kept[i] = owned
		case t != nil && !slices.Contains(in, t):
			var failed error
			if c.kept[i], failed = c.n.g.own(t); err == nil {
				err = failed
			}
		}
	}
	if err != nil {
		c.forget(in, owned)
		owned.Release()
		return nil, err
	}
	return owned, nil
}

// forget releases what was saved for nothing: neither inputs nor the result.
func (c *Context) forget(in []*tensor.Tensor, out *tensor.Tensor) {
	for _, t := range c.kept {
		if t != out && !slices.Contains(in, t) {
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
	for _, v := range append([]*Variable{n.out}, n.in...) {
		if v.val.t == t {
			n.save(stash, at, v.val.hold())
			return
		}
	}
	n.save(stash, at, n.g.ledger.add(t))
}

func (f *Function[A]) backward(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	c := n.arg.(*call[A])
	grads, err := f.Backward(&c.ctx, c.arg, gs[0])
	if err == nil && len(grads) != len(n.in) {
		err = fmt.Errorf("Backward returned %d gradients for %d inputs", len(grads), len(n.in))
	}
	if err != nil {
		for _, t := range grads {
			t.Release()
		}
		return nil, err
	}
	for i, t := range grads {
		if t == gs[0] { // borrowed
			grads[i] = t.Retain()
		}
	}
	return grads, nil
}

// Save keeps tensors for Backward, which gets them from Saved in the same order: inputs, the result, or others, which the graph
// takes over. It does nothing if no gradient will be needed, except that others are released after Forward. Nil tensors are
// kept as nil.
func (c *Context) Save(ts ...*tensor.Tensor) { c.kept = append(c.kept, ts...) }

// Saved returns tensor i of those that were saved, borrowed: it is freed when Backward returns.
func (c *Context) Saved(i int) *tensor.Tensor { return c.n.stashed(i) }

// NeedsGrad reports whether input i gets a gradient.
func (c *Context) NeedsGrad(i int) bool { return i >= 0 && i < len(c.n.in) && c.n.flows(i) }

// GradEnabled reports whether Backward may be called at all: else saving is in vain.
func (c *Context) GradEnabled() bool { return c.n.differentiable() }

// Exec is what tensors are made under.
func (c *Context) Exec() tensor.Exec { return c.n.g.exec }

// Generator is what random numbers are drawn from.
func (c *Context) Generator() *tensor.Generator { return c.n.g.Generator() }
