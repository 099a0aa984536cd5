package autograd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// What a backward pass finds out before anything is computed.

// prepare finds the nodes and refuses what can be refused before anything has changed.
func (b *backward) prepare(name string) error {
	switch {
	case b.g.inference:
		return gradError("%s in a graph made with NoGrad", name)
	case len(b.seeds) > 0 && len(b.seeds) != len(b.roots):
		return gradError("WithGradient has %d gradients for %d variables", len(b.seeds), len(b.roots))
	case len(b.starts) > 0 && len(b.starts) != len(b.roots):
		return gradError("GradOutputs has %d gradients for %d variables", len(b.starts), len(b.roots))
	case len(b.starts) > 0 && len(b.seeds) > 0:
		return gradError("%s with both WithGradient and GradOutputs", name)
	}
	for i, v := range b.roots {
		if err := b.startable(name, i, v); err != nil {
			return err
		}
	}
	b.g.passes++
	b.collect()
	if b.hidden != nil {
		return gradError("%s with respect to parameter %q, which a Checkpoint uses out of sight of the graph: pass it as an input, Checkpoint(f, x, g.Param(w)), call a Checkpointed layer within WithParameters with g.Param(w) for it, or call Backward",
			name, excerpt.Of(b.hidden.name))
	}
	for _, n := range b.nodes {
		if !b.runs(n) {
			continue
		}
		if err := n.intact(); err != nil {
			if second, ok := err.(*SecondBackwardError); ok {
				second.Site = callSite()
			}
			return err
		}
		if b.create && n.op.double == nil {
			return &OpError{Op: n.op.name, Backward: true, Module: n.host.path(), Operands: operands(n.in), Site: callSite(),
				Err: fmt.Errorf("with CreateGraph: %w", higherOrder("the Function has no BackwardVariables"))}
		}
	}
	if b.wanted != nil { // parameters get nothing
		return nil
	}
	return b.barred
}

// startable refuses a root that the pass cannot start from.
func (b *backward) startable(name string, i int, v *Variable) error {
	seed := b.seed(i)
	if start := b.start(i); start != nil {
		return startableWith(name, v, start)
	}
	switch {
	case !v.requires:
		return gradError("%s of a variable that depends on no leaf that requires a gradient", name)
	case seed == nil && v.Len() != 1:
		return gradError("%s of %s, which is not one element, needs WithGradient", name, v.operand())
	case seed.Released() && seed != nil:
		return called(name, &tensor.ReleasedError{Op: "WithGradient"})
	case seed != nil && (!seed.Shape().Equal(v.Shape()) || seed.DType() != v.dtype):
		return gradError("WithGradient of %s for a variable of %s", Operand{seed.DType(), seed.Shape()}, v.operand())
	case seed != nil && seed.Device().ID() != b.g.dev.ID():
		return b.g.elsewhere("WithGradient", seed)
	}
	return nil
}

// startableWith is startable for a gradient that is a variable.
func startableWith(name string, v, start *Variable) error {
	if err := start.check("GradOutputs"); err != nil {
		return err
	}
	switch start = start.now(); {
	case start.g != v.g:
		return called(name, fmt.Errorf("GradOutputs: %w", ErrOtherGraph))
	case !v.requires:
		return gradError("%s of a variable that depends on no leaf that requires a gradient", name)
	case !start.Shape().Equal(v.Shape()) || start.dtype != v.dtype:
		return gradError("GradOutputs of %s for a variable of %s", start.operand(), v.operand())
	}
	return nil
}

// start is the variable that root i starts with, nil for none.
func (b *backward) start(i int) *Variable {
	if len(b.starts) == 0 {
		return nil
	}
	return b.starts[i].now()
}

func (b *backward) seed(i int) *tensor.Tensor {
	if len(b.seeds) == 0 {
		return nil
	}
	return b.seeds[i]
}

// collect lists the nodes that the roots depend on, newest first, and counts the gradients that each leaf will get.
func (b *backward) collect() {
	for _, v := range b.roots {
		b.reach(v)
	}
	for done := 0; done < len(b.nodes); done++ {
		n := b.nodes[done]
		for i, v := range n.in {
			if n.flows(i) {
				b.reach(v)
			}
		}
	}
	slices.SortFunc(b.nodes, func(m, n *node) int { return cmp.Compare(n.number, m.number) })
	b.hide()
	b.prune()
	b.count()
}

// hide looks for parameters that are wanted and that checkpoints use, out of sight of the graph.
func (b *backward) hide() {
	for v := range b.wanted {
		for _, n := range b.nodes {
			if s, ok := n.arg.(*segment); ok && s.uses(v) {
				b.hidden = v.param
			}
		}
	}
}

// reach adds the node that made v, once.
func (b *backward) reach(v *Variable) {
	if n := v.node; n != nil && n.pass != b.g.passes {
		n.pass = b.g.passes
		b.nodes = append(b.nodes, n)
	}
}

// count sets pending of the leaves, and asks those whose gradients go elsewhere whether they may.
func (b *backward) count() {
	leaves := func(visit func(*Variable)) {
		for _, v := range b.roots {
			if v.node == nil { // of those that the pass does not need, nobody asks
				visit(v)
			}
		}
		for _, n := range b.nodes {
			for i, v := range n.in {
				if b.flows(n, i) && v.node == nil {
					visit(v)
				}
			}
		}
	}
	leaves(func(v *Variable) { v.pending = 0 })
	leaves(func(v *Variable) {
		if v.pending++; v.pending == 1 && b.barred == nil {
			b.barred = v.param.barred(b.g)
		}
	})
}
