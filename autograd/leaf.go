package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// LeafOption changes what Input makes.
type LeafOption func(*Variable)

// RequiresGrad makes a leaf whose gradient Backward leaves in Variable.Grad.
func RequiresGrad() LeafOption { return func(v *Variable) { v.requires = true } }

// Input makes a leaf of t. The tensor stays its owner's: the graph takes another handle on it, which it releases with the
// scope around or with the graph, so t may be released as soon as Input returns. t must be on the graph's device.
func (g *Graph) Input(t *tensor.Tensor, opts ...LeafOption) *Variable {
	if g == nil {
		return nil
	}
	if !g.ready("Input") {
		return g.poison
	}
	h, err := g.adopt("Input", t)
	if err != nil {
		return g.fail(err)
	}
	if !g.segment {
		use(h, memmeter.Input)
	}
	v := g.newVariable(h)
	v.given = true
	for _, o := range opts {
		if o != nil {
			o(v)
		}
	}
	if v.requires && !v.dtype.IsFloat() {
		return g.Refuse("Input", notFloat(v.dtype), v)
	}
	v.requires = v.requires && !g.inference
	return v
}

// New makes a leaf of a tensor that f makes under the graph's Exec. The graph takes it over; a borrowed handle stays its owner's. What
// f makes under Owned() of the Exec is not watched, which is cheaper: then nothing may be lost on the way.
//
//	h := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, batch, hidden) })
func (g *Graph) New(f func(tensor.Exec) (*tensor.Tensor, error)) *Variable {
	if g == nil || f == nil {
		return g.without("New")
	}
	return g.make("new", "New", f)
}

// make is New for the operation op, which the method of that name makes.
func (g *Graph) make(op, method string, f func(tensor.Exec) (*tensor.Tensor, error)) *Variable {
	if g == nil {
		return nil
	}
	if !g.ready(method) {
		return g.poison
	}
	t, err := f(g.outer)
	if err == nil && g.released {
		err = &ReleasedError{Use: method, Reason: GraphReleased}
	}
	if err != nil {
		t.Release()
		return g.Refuse(op, err)
	}
	if t.Released() {
		return g.Refuse(op, &tensor.ReleasedError{Op: method, Nil: t == nil})
	}
	if t, err = g.own(method, t); err != nil {
		return g.fail(err)
	}
	use(t, memmeter.Input)
	return g.newVariable(t)
}

// Param returns p's leaf in this graph. There is one per graph, however often the parameter is used, unless that was released, or the parameter was frozen,
// unfrozen or given another value in between; it belongs to no scope. Within WithParameters it is what that has put in p's place.
func (g *Graph) Param(p *Parameter) *Variable {
	if g == nil {
		return nil
	}
	if !g.ready("Param") {
		return g.poison
	}
	if v := g.replaced[p]; v != nil {
		return v
	}
	if g.uses != nil {
		if err := g.uses(p); err != nil {
			return g.Refuse("param", err)
		}
	}
	requires := p.RequiresGrad() && !g.inference
	if leaf, ok := g.params[p]; ok && leaf.v.Alive() && leaf.value == p.value && leaf.requires == requires {
		return leaf.v
	}
	if p.Tensor() == nil {
		return g.Refuse("param", g.scope.missing(p))
	}
	h, err := g.adopt("parameter "+excerpt.Of(p.name), p.Tensor())
	if err != nil {
		return g.fail(err)
	}
	g.useParameter(p)
	v := g.Outside(func() *Variable { return g.newVariable(h) })
	v.param, v.keep = p, true
	if p.requiresGrad && !v.dtype.IsFloat() {
		return g.Refuse("parameter "+p.name, notFloat(v.dtype), v)
	}
	v.requires = requires
	if g.params == nil {
		g.params = make(map[*Parameter]paramLeaf)
	}
	g.params[p] = paramLeaf{v, p.value, requires}
	return v
}

// paramLeaf is the leaf of a parameter as it was when the graph last used it: a parameter that was frozen, unfrozen or given another value since then gets another
// leaf for what comes, and what is there keeps the one that it has.
type paramLeaf struct {
	v        *Variable
	value    *tensor.Tensor
	requires bool
}

func notFloat(dt tensor.DType) error {
	return &GradError{Detail: "only floating-point tensors can require gradients, not " + dt.String()}
}

// adopt takes a handle on a user's tensor that works under the graph's Exec, and makes the graph's stream wait for what was
// enqueued so far on the tensor's.
func (g *Graph) adopt(name string, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Released() {
		return nil, g.opError(name, &tensor.ReleasedError{Op: name, Nil: t == nil})
	}
	if t.Device().ID() != g.dev.ID() {
		return nil, g.elsewhere(name, t)
	}
	if err := g.follow(t.Exec().Stream()); err != nil {
		return nil, g.opError(name, err, Operand{t.DType(), t.Shape().Clone()})
	}
	return t.On(g.exec), nil
}

// elsewhere is the error of a tensor on another device than the graph's.
func (g *Graph) elsewhere(name string, t *tensor.Tensor) error {
	have, want := t.Device().ID(), g.dev.ID()
	return g.opError(name, &tensor.DeviceError{Op: name, Devices: []device.ID{have, want},
		Detail: fmt.Sprintf("the tensor is on %v, the graph on %v", have, want)}, Operand{t.DType(), t.Shape().Clone()})
}
