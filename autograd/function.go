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
//	var scaledExp = autograd.Function[float64]{
//		Name: "scaled_exp",
//		Forward: func(c *autograd.Context, scale float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
//			e, err := in[0].Exp()
//			if err != nil {
//				return nil, err
//			}
//			defer e.Release()
//			y, err := e.MulScalar(scale)
//			c.Save(y)
//			return y, err
//		},
//		Backward: func(c *autograd.Context, scale float64, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
//			dx, err := grad.Mul(c.Saved(0)) // the derivative is the result
//			return []*tensor.Tensor{dx}, err
//		},
//	}
//
//	y := scaledExp.Apply(2, x)
//
// It is an operation like any other: inputs are checked, a Caster is asked about it by its name (package amp lets operations that
// it does not know run in the types of their inputs; amp.CastInputs gives it one type), errors say its name, anomaly detection
// looks at its gradients, hooks and checkpoints see it, and what it saved is freed when its rule has run.
type Function[A any] struct {
	Name string // for errors and casters: like PyTorch's names, "scaled_exp"

	// Forward computes the result from the values of the inputs, which are borrowed. It returns a new tensor, made by operations
	// on the inputs or under c.Exec, or a handle on an input (Retain), and releases what else it makes and does not Save.
	Forward func(c *Context, arg A, in []*tensor.Tensor) (*tensor.Tensor, error)

	// Backward computes the gradient of each input from that of the result, which is borrowed. The list has an entry for each
	// input, a new tensor or a handle that the graph takes over; nil stands for zeros, and is right for inputs for which
	// c.NeedsGrad is false. Gradients are brought to the shape and type of their inputs: broadcast dimensions are summed. A nil
	// Backward makes an operation without gradients.
	Backward func(c *Context, arg A, grad *tensor.Tensor) ([]*tensor.Tensor, error)

	// BackwardVariables computes the gradients with variables, of which there is one for each result: so CreateGraph can record them, and they can be
	// differentiated again. c.SavedVariable gives what was saved. The list is as Backward's; a new graph must not be made, and values from
	// outside of it are constants. A function with Backward too, which ordinary passes run, has its values with CreateGraph as well, and
	// derivatives of BackwardVariables. Without it CreateGraph is an error that matches ErrHigherOrder.
	BackwardVariables func(c *Context, arg A, grads []*Variable) []*Variable

	// ForwardAll and BackwardAll take the place of Forward and Backward in an operation of several results, whose number is
	// Results, at most 1024, and which is called by ApplyAll. The gradient of a result on which nothing depended is nil.
	Results     int
	ForwardAll  func(c *Context, arg A, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	BackwardAll func(c *Context, arg A, grads []*tensor.Tensor) ([]*tensor.Tensor, error)

	once sync.Once
	op   *op
}

// call is the argument of a Function's node.
type call[A any] struct {
	arg A
	ctx Context
}

// Apply runs the function on inputs of one graph. Errors are the graph's. Of several results it returns the first.
func (f *Function[A]) Apply(arg A, in ...*Variable) *Variable { return f.ApplyAll(arg, in...)[0] }

// ApplyAll is Apply for a function of several results.
func (f *Function[A]) ApplyAll(arg A, in ...*Variable) []*Variable {
	if f == nil {
		return []*Variable{graphOf(in).without("Function.Apply")}
	}
	f.once.Do(f.define)
	return f.op.applyAll(f.results(), &call[A]{arg: arg}, in...)
}

func (f *Function[A]) results() int {
	if f.ForwardAll == nil {
		return 1
	}
	return min(max(f.Results, 1), tooMany)
}

// define makes the operation. It is not in the table of this package's own.
func (f *Function[A]) define() {
	name := f.Name
	if name == "" {
		name = "function"
	}
	r := rule{}
	plain := f.Backward != nil || f.BackwardAll != nil
	if !plain && f.BackwardVariables == nil {
		r.none = "the function has no Backward"
	}
	f.op = variadic(&op{name: name, several: f.forward, rules: []rule{r}, keep: keepSaved[A]})
	if r.none == "" {
		f.op.joints = f.backward
		if !plain {
			f.op.joints = f.computed
		}
	}
	switch {
	case f.BackwardVariables == nil:
	case plain:
		kernel(f.op, f.variables)
	default:
		f.op.double = f.variables
	}
}

// compute calls the forward function that there is.
func (f *Function[A]) compute(c *call[A], in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	switch {
	case f.ForwardAll != nil:
		outs, err := f.ForwardAll(&c.ctx, c.arg, in)
		if err == nil && len(outs) != f.results() {
			err = fmt.Errorf("ForwardAll returned %d results; Results is %d", len(outs), f.Results)
		}
		return outs, err
	case f.Forward != nil:
		out, err := f.Forward(&c.ctx, c.arg, in)
		return []*tensor.Tensor{out}, err
	}
	return nil, fmt.Errorf("the function has no Forward")
}

// guarded is compute. If that panics, what it has saved is released.
func (f *Function[A]) guarded(c *call[A], in []*tensor.Tensor) (outs []*tensor.Tensor, err error) {
	returned := false
	defer func() {
		if !returned {
			c.ctx.forget(in, nil)
		}
	}()
	outs, err = f.compute(c, in)
	returned = true
	return outs, err
}

func (f *Function[A]) forward(n *node) ([]*tensor.Tensor, error) {
	c := n.arg.(*call[A])
	c.ctx.n = n
	in := make([]*tensor.Tensor, len(n.in))
	for i := range in {
		in[i] = n.g.lend(n.tensor(i))
	}
	outs, err := f.guarded(c, in)
	if err == nil {
		err = n.checkInputs() // which Forward may have released
	}
	quantity := false
	for i, t := range outs {
		switch {
		case err != nil:
		case t == nil || t.Released():
			err = &tensor.ReleasedError{Op: "Forward"}
		case slices.Contains(in, t) || slices.Contains(outs[:i], t): // borrowed: the result is another handle
			outs[i] = t.Retain()
		}
		quantity = quantity || err == nil && t.DType().IsFloat()
	}
	if err != nil || !n.differentiable() || !quantity {
		c.ctx.forget(in, outs)
	}
	if err == nil {
		err = c.ctx.own(in, outs)
	}
	if err != nil {
		for _, t := range outs {
			if !slices.Contains(in, t) {
				t.Release()
			}
		}
		return nil, err
	}
	return outs, nil
}

func (f *Function[A]) backward(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	c := n.arg.(*call[A])
	var grads []*tensor.Tensor
	var err error
	if lent := n.g.lendAll(gs); f.BackwardAll != nil {
		grads, err = f.BackwardAll(&c.ctx, c.arg, lent)
	} else {
		grads, err = f.Backward(&c.ctx, c.arg, lent[0])
	}
	if err == nil && len(grads) != len(n.in) {
		err = fmt.Errorf("Backward returned %d gradients for %d inputs", len(grads), len(n.in))
	}
	if err != nil {
		releaseAll(grads) // what is borrowed is not hurt
		return nil, err
	}
	return n.g.ownAll("Backward", grads)
}
