package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/internal/region"
	"github.com/cistern-ml/cistern/tensor"
)

// BackwardOption changes what Backward and Grad do.
type BackwardOption func(*backward)

// RetainGraph keeps saved tensors and intermediate results, so that Backward can be called again.
func RetainGraph() BackwardOption { return func(b *backward) { b.retain = true } }

// GradOutputs is WithGradient of variables of the graph: with CreateGraph gradients flow through them too, so that two passes give the
// product of a Jacobian and a vector. Nil stands for one.
func GradOutputs(v ...*Variable) BackwardOption { return func(b *backward) { b.starts = v } }

// WithGradient starts from t instead of one, for variables that are not scalars. t must have the variable's shape and type.
// Grad takes one for each output; nil stands for one.
func WithGradient(t ...*tensor.Tensor) BackwardOption { return func(b *backward) { b.seeds = t } }

// CreateGraph records how the gradients are computed, so that they can be differentiated again (create_graph of PyTorch): what Grad returns
// are results of operations then, of which a loss can be made, and Backward leaves the gradients of leaves in GradVariable as well. It
// implies RetainGraph. The gradients have the values of a pass without it. What is recorded, and what is saved of it, stays until the graph
// is released; a Checkpoint's second run is part of that. A Function without BackwardVariables ends the pass before anything is computed,
// with an error that names it and matches ErrHigherOrder. Of hooks those of RegisterVariableHook may replace a gradient; others may look at it.
func CreateGraph() BackwardOption {
	return func(b *backward) { b.create, b.retain = true, true }
}

// backward is one backward pass.
//
// The nodes that the roots depend on run in the opposite order of their creation, so each node runs when all readers of its
// result have run, and its incoming gradient is complete. Memory falls node by node: when a node's turn comes, the value of
// its result goes (nobody reads it any more, except who saved it); when its rules have run, what it saved and its incoming
// gradient go.
type backward struct {
	g      *Graph
	roots  []*Variable
	retain bool
	create bool
	seeds  []*tensor.Tensor // borrowed from the caller, nil for one; none is one for each root
	starts []*Variable      // instead of seeds
	nodes  []*node
	late   []*Variable // leaves whose owners get their gradients when the rules of the node have run

	// wanted, if not nil, are the variables whose gradients Grad wants, and what has come for them. Nothing else gets any.
	wanted map[*Variable]*tensor.Tensor
	hidden *Parameter // one that is wanted and that a checkpoint uses, out of sight of the graph
	barred error      // why a parameter may not get its gradient from this graph

	recorded map[*Variable]*Variable // with CreateGraph: what has come for them
}

// Backward computes the gradients of v with respect to every leaf that it depends on and that requires one, and adds them to
// what the leaves have. Without WithGradient v must have one element.
//
// It returns the first error of the graph, if there is one: so it is enough to check it once after a chain of operations.
// Mistakes that can be seen before anything is computed (a second backward, a saved tensor that was changed in place) leave
// everything as it was; other errors, as running out of memory, become the graph's error, may leave gradients of some
// leaves, and all memory is freed by Release as usual. The panic of a hook, or of another function of the program's, passes through;
// the graph's error is then ErrPanicked, with the panic's text. A pass cannot begin inside another one of its graph.
//
// Gradients add up: calling Backward for several losses, or for the parts of a batch, each in a graph of its own, leaves the sum
// in the parameters until ZeroGrad. Divide each loss by the number of parts to get the gradient of the mean. In a retained graph,
// and for several losses of one graph, the sums are the same.
func (v *Variable) Backward(opts ...BackwardOption) error {
	if err := v.check("Backward"); err != nil {
		return v.graph().refused(err)
	}
	b := &backward{g: v.g, roots: []*Variable{v.now()}}
	return b.do("Backward", opts)
}

// do is a whole pass.
func (b *backward) do(name string, opts []BackwardOption) (err error) {
	for _, o := range opts {
		if o != nil {
			o(b)
		}
	}
	if b.g.running {
		return called(name, ErrReentrant)
	}
	if err := b.prepare(name); err != nil {
		if b.wanted != nil {
			return err
		}
		return b.g.refused(err)
	}
	if region.On() {
		defer region.Begin("pass", "backward")()
	}
	b.g.enter()
	defer b.g.leave()
	b.g.retaining, b.g.returning, b.g.running, b.g.pass = b.retain, b.wanted != nil, true, b
	returned := false
	defer func() {
		b.g.retaining, b.g.returning, b.g.running, b.g.pass = false, false, false, nil
		var panicked any
		if !returned {
			panicked = recover()
			err = endedBy(name, panicked)
		}
		switch {
		case b.g.watching == nil:
		case b.wanted == nil:
			err = b.ended(err)
		case !returned: // a pass of Grad concerns nobody, but none comes after it now
			err = b.g.refused(err)
		}
		if err != nil {
			b.abort()
			b.g.Fail(err)
		}
		if panicked != nil {
			// invariant: it is the program's own panic, which goes on
			panic(panicked)
		}
	}()
	if b.create {
		err = sited(name, b.record())
	} else {
		err = sited(name, b.run())
	}
	returned = true
	return err
}

// endedBy is the graph's error when a pass was ended by a panic, or by the end of its goroutine.
func endedBy(name string, panicked any) error {
	if panicked == nil {
		panicked = "its goroutine has ended"
	}
	return fmt.Errorf("%s: %w: %v", name, ErrPanicked, panicked)
}

func (b *backward) run() error {
	if err := b.g.followAll(); err != nil {
		return err
	}
	for i, v := range b.roots {
		if !b.needs(v) {
			continue
		}
		seed, err := b.first(i, v)
		if err != nil {
			return err
		}
		if err := b.deliver(v, seed); err != nil {
			return err
		}
	}
	if err := b.settleLate(); err != nil {
		return err
	}
	for i, n := range b.nodes {
		if err := b.stepLabelled(n); err != nil {
			e := &OpError{Op: n.op.name, Backward: true, Module: n.host.path(), Operands: operands(n.in), Site: n.where(), Err: err}
			return e.counted()
		}
		b.nodes[i] = nil
	}
	return b.g.lead()
}

// first is the gradient that a root starts with.
func (b *backward) first(i int, v *Variable) (*tensor.Tensor, error) {
	if start := b.start(i); start != nil {
		return start.tensor().Retain(), nil
	}
	if seed := b.seed(i); seed != nil {
		return b.g.adopt("WithGradient", seed)
	}
	return tensor.Ones(b.g.exec, v.dtype, v.Shape()...)
}

// step runs the rules of one node and frees what only they needed.
func (b *backward) step(n *node) error {
	for i := range n.outputs() {
		if err := b.pass(n, n.output(i)); err != nil {
			return err
		}
	}
	if err := b.apply(n); err != nil {
		return err
	}
	if !b.retain && len(n.saved) > 0 && b.runs(n) {
		n.free()
		n.freed = true
	}
	for i := range n.outputs() {
		out := n.output(i)
		b.g.ledger.drop(out.buf)
		out.buf = nil
	}
	if b.g.observer != nil {
		b.g.observer(n.op.name, true)
	}
	if err := b.settleLate(); err != nil {
		return err
	}
	return b.g.open("backward") // a hook may have released it
}

// pass is what happens to a result of a node when its gradient is complete.
func (b *backward) pass(n *node, out *Variable) error {
	if !b.retain && !out.keep && !slices.Contains(b.roots, out) && b.runs(n) {
		out.release(BackwardDone)
	}
	if out.buf == nil { // one of several results, on which nothing depended
		return nil
	}
	if err := b.asSeen(out); err != nil {
		return err
	}
	if err := b.hooked(out, &out.hooks); err != nil {
		return err
	}
	if out.retain {
		if err := out.keepGrad(out.buf.t.Retain()); err != nil {
			return err
		}
	}
	b.capture(out)
	return nil
}

// apply runs the rules of a node, on what it saved.
func (b *backward) apply(n *node) error {
	if !b.runs(n) {
		return nil
	}
	if err := n.intact(); err != nil { // a hook may have changed it
		return err
	}
	if err := n.unpack(); err != nil {
		return err
	}
	err := b.rules(n)
	if b.retain {
		n.unload()
	}
	return err
}

// abort drops the gradients that were under way when a pass failed.
func (b *backward) abort() {
	drop := func(v *Variable) {
		b.g.ledger.drop(v.buf)
		v.buf, v.pending = nil, 0
	}
	for _, v := range b.roots {
		drop(v)
	}
	for _, n := range b.nodes {
		if n == nil {
			continue
		}
		for i := range n.outputs() {
			drop(n.output(i))
		}
		for _, v := range n.in {
			drop(v)
		}
	}
	for v, t := range b.wanted {
		t.Release()
		b.wanted[v] = nil
	}
}
