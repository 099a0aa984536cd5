package autograd

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Grad computes the gradients of the sum of outputs with respect to inputs, which may be leaves or intermediate variables (as
// operations in place have left them), and returns them instead of adding them to anything (torch.autograd.grad). Only operations
// between inputs and outputs run. Outputs that are not one element need WithGradient. The gradient of an input on which no output
// depends is nil. Hooks of the inputs, and of variables between, are called.
//
// The gradients are variables of the graph, which end with the scope around or with the graph: Take one to keep it longer. Without
// CreateGraph they are constants; as in PyTorch they may share memory, with each other, with a gradient that was given, or with a larger
// tensor of which they are a part. With CreateGraph gradients flow through them, and two inputs may have the same variable, of which one
// Take is all. Like Backward, Grad frees what the operations that it ran have saved, unless RetainGraph or CreateGraph is given.
func Grad(outputs, inputs []*Variable, opts ...BackwardOption) ([]*Variable, error) {
	b, inputs, err := gradOf(outputs, inputs, opts)
	if err != nil {
		return nil, err
	}
	grads := make([]*Variable, len(inputs))
	made := map[*Variable]*Variable{}
	for i, v := range inputs {
		if b.create {
			grads[i] = b.recorded[v]
			continue
		}
		if t := b.wanted[v]; t != nil && made[v] == nil {
			made[v] = b.g.newVariable(t)
		}
		grads[i] = made[v]
	}
	return grads, nil
}

// gradTensors is Grad for tensors that the caller releases.
func gradTensors(outputs, inputs []*Variable, opts ...BackwardOption) ([]*tensor.Tensor, error) {
	b, inputs, err := gradOf(outputs, inputs, opts)
	if err != nil {
		return nil, err
	}
	grads := make([]*tensor.Tensor, len(inputs))
	for i, v := range inputs {
		if t := b.wanted[v]; t != nil {
			grads[i] = t.On(b.g.outer)
		}
	}
	for _, t := range b.wanted {
		t.Release()
	}
	return grads, nil
}

// gradOf is the pass of Grad. It returns the inputs as they are now.
func gradOf(outputs, inputs []*Variable, opts []BackwardOption) (*backward, []*Variable, error) {
	const name = "Grad"
	if len(outputs) == 0 {
		return nil, nil, gradError("Grad without outputs")
	}
	for _, v := range outputs {
		if err := v.check(name); err != nil {
			return nil, nil, err
		}
	}
	for _, list := range [][]*Variable{outputs, inputs} {
		for _, v := range list {
			if v != nil && v.g != outputs[0].graph() {
				return nil, nil, called(name, ErrOtherGraph)
			}
		}
	}
	b := &backward{g: outputs[0].g, roots: present(outputs), wanted: map[*Variable]*tensor.Tensor{}}
	inputs = present(inputs)
	for _, v := range inputs {
		switch {
		case v == nil:
			return nil, nil, called(name, ErrNilVariable)
		case !v.requires:
			return nil, nil, gradError("Grad with respect to a variable that does not require a gradient%s", v.g.whyNone())
		}
		b.wanted[v] = nil
	}
	return b, inputs, b.do(name, opts)
}

// whyNone says why nothing requires a gradient in the graph, if that is so.
func (g *Graph) whyNone() string {
	switch {
	case g.segment && g.inference:
		return ": the first run of a Checkpoint's function records nothing; compute what Grad is for outside of it, or in a graph of its own"
	case g.inference:
		return ": the graph was made with NoGrad"
	}
	return ""
}

// present are the variables that those of a list stand for now.
func present(list []*Variable) []*Variable {
	now := make([]*Variable, len(list))
	for i, v := range list {
		now[i] = v.now()
	}
	return now
}

func (v *Variable) graph() *Graph {
	if v == nil {
		return nil
	}
	return v.g
}

// needs reports whether the pass wants a gradient for v.
func (b *backward) needs(v *Variable) bool {
	if b.wanted == nil {
		return true
	}
	_, ok := b.wanted[v]
	return ok || v.node != nil && v.node.needed == b.g.passes
}

// runs reports whether the pass runs the rules of n. Of a result that is wanted, and of which nothing else is, only the gradient counts.
func (b *backward) runs(n *node) bool { return b.wanted == nil || n.needed == b.g.passes }

// flows reports whether input i of n gets a gradient in this pass.
func (b *backward) flows(n *node, i int) bool { return n.flows(i) && b.needs(n.in[i]) }

// prune leaves the nodes that lie between the roots and what is wanted. The oldest come last: so what a node depends on has been
// seen before it.
func (b *backward) prune() {
	if b.wanted == nil {
		return
	}
	kept := len(b.nodes)
	for k := len(b.nodes) - 1; k >= 0; k-- {
		n := b.nodes[k]
		for i := range n.in {
			if b.flows(n, i) {
				n.needed = b.g.passes
			}
		}
		visit := n.needed == b.g.passes
		for i := range n.outputs() {
			_, wanted := b.wanted[n.output(i)]
			visit = visit || wanted
		}
		if visit {
			kept--
			b.nodes[kept] = n
		}
	}
	b.nodes = b.nodes[kept:]
}

// capture keeps a handle on the gradient of a variable that Grad was asked for.
func (b *backward) capture(v *Variable) {
	if _, ok := b.wanted[v]; ok {
		b.wanted[v] = v.buf.t.Retain()
	}
}
