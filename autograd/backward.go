package autograd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// BackwardOption changes what Backward does.
type BackwardOption func(*backward)

// RetainGraph keeps saved tensors and intermediate results, so that Backward can be called again.
func RetainGraph() BackwardOption { return func(b *backward) { b.retain = true } }

// WithGradient starts from t instead of one, for variables that are not scalars. t must have the variable's shape and type.
func WithGradient(t *tensor.Tensor) BackwardOption { return func(b *backward) { b.seed = t } }

// backward is one backward pass.
//
// The nodes that the root depends on run in the opposite order of their creation, so each node runs when all readers of its
// result have run, and its incoming gradient is complete. Memory falls node by node: when a node's turn comes, the value of
// its result goes (nobody reads it any more, except who saved it); when its rules have run, what it saved and its incoming
// gradient go.
type backward struct {
	g      *Graph
	root   *Variable
	retain bool
	seed   *tensor.Tensor // borrowed from the caller, nil for one
	nodes  []*node
}

// Backward computes the gradients of v with respect to every leaf that it depends on and that requires one, and adds them to
// what the leaves have. Without WithGradient v must have one element.
//
// It returns the first error of the graph, if there is one: so it is enough to check it once after a chain of operations.
// Mistakes that can be seen before anything is computed (a second backward, a saved tensor that was changed in place) leave
// everything as it was; other errors, as running out of memory, become the graph's error, may leave gradients of some
// leaves, and all memory is freed by Release as usual.
func (v *Variable) Backward(opts ...BackwardOption) error {
	if err := v.check("Backward"); err != nil {
		return err
	}
	b := &backward{g: v.g, root: v.now()}
	for _, o := range opts {
		o(b)
	}
	if err := b.prepare(); err != nil {
		return err
	}
	err := b.run()
	if err != nil {
		b.abort()
		b.g.Fail(err)
	}
	return err
}

// prepare finds the nodes and refuses what can be refused before anything has changed.
func (b *backward) prepare() error {
	v := b.root
	switch {
	case b.g.inference:
		return &GradError{Detail: "Backward in a graph made with NoGrad"}
	case !v.requires:
		return &GradError{Detail: "Backward of a variable that depends on no leaf that requires a gradient"}
	case b.seed == nil && v.Len() != 1:
		return &GradError{Detail: fmt.Sprintf("Backward of %s, which is not one element, needs WithGradient", v.operand())}
	case b.seed != nil && (b.seed.Released() || !b.seed.Shape().Equal(v.Shape()) || b.seed.DType() != v.dtype):
		return &GradError{Detail: fmt.Sprintf("WithGradient of %s for a variable of %s", Operand{b.seed.DType(), b.seed.Shape()}, v.operand())}
	}
	b.g.passes++
	b.collect()
	for _, n := range b.nodes {
		if err := n.intact(); err != nil {
			return err
		}
	}
	return nil
}

// collect lists the nodes that the root depends on, newest first, and counts the gradients that each leaf will get.
func (b *backward) collect() {
	b.reach(b.root)
	for done := 0; done < len(b.nodes); done++ {
		n := b.nodes[done]
		for i, v := range n.in {
			if n.flows(i) {
				b.reach(v)
			}
		}
	}
	slices.SortFunc(b.nodes, func(m, n *node) int { return cmp.Compare(n.number, m.number) })
	b.count()
}

// reach adds the node that made v, once.
func (b *backward) reach(v *Variable) {
	if n := v.node; n != nil && n.pass != b.g.passes {
		n.pass = b.g.passes
		b.nodes = append(b.nodes, n)
	}
}

// count sets pending of the leaves.
func (b *backward) count() {
	leaves := func(visit func(*Variable)) {
		if b.root.node == nil {
			visit(b.root)
		}
		for _, n := range b.nodes {
			for i, v := range n.in {
				if n.flows(i) && v.node == nil {
					visit(v)
				}
			}
		}
	}
	leaves(func(v *Variable) { v.pending = 0 })
	leaves(func(v *Variable) { v.pending++ })
}

func (b *backward) run() error {
	if err := b.g.followAll(); err != nil {
		return err
	}
	seed, err := b.first()
	if err != nil {
		return err
	}
	if err := b.deliver(b.root, seed); err != nil {
		return err
	}
	for i, n := range b.nodes {
		if err := b.step(n); err != nil {
			return &OpError{Op: n.op.name, Backward: true, Operands: operands(n.in), Site: n.site, Err: err}
		}
		b.nodes[i] = nil
	}
	return b.g.lead()
}

// first is the gradient of the root.
func (b *backward) first() (*tensor.Tensor, error) {
	if b.seed == nil {
		return tensor.Ones(b.g.exec, b.root.dtype, b.root.Shape()...)
	}
	return b.g.adopt("WithGradient", b.seed)
}

// step runs the rules of one node and frees what only they needed.
func (b *backward) step(n *node) error {
	out := n.out
	if !b.retain && out != b.root && !out.keep {
		out.release(BackwardDone)
	}
	if out.retain {
		if err := out.keepGrad(out.buf.t.Retain()); err != nil {
			return err
		}
	}
	if err := b.rules(n, out.buf.t); err != nil {
		return err
	}
	if !b.retain && len(n.saved) > 0 {
		n.free()
		n.freed = true
	}
	b.g.ledger.drop(out.buf)
	out.buf = nil
	if b.g.observer != nil {
		b.g.observer(n.op.name, true)
	}
	return nil
}

// abort drops the gradients that were under way when a pass failed.
func (b *backward) abort() {
	drop := func(v *Variable) {
		b.g.ledger.drop(v.buf)
		v.buf, v.pending = nil, 0
	}
	drop(b.root)
	for _, n := range b.nodes {
		if n == nil {
			continue
		}
		drop(n.out)
		for _, v := range n.in {
			drop(v)
		}
	}
}
