package autograd

import (
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Allocators that record what they do want to know for which operation, of which module (package oplabel). While none does, each of the
// functions here is one atomic read. A label stands for the time of a forward function, or of a node's rules; operations inside have theirs.

// runLabelled is run under the operation's label.
func (n *node) runLabelled() error {
	if !oplabel.Wanted() {
		return n.run()
	}
	l := n.g.label(n.op.name)
	l.Again = n.g.again
	return n.runUnder(oplabel.Of(l))
}

// runUnder is a function of its own, so that without labels there is no deferred call.
func (n *node) runUnder(id oplabel.ID) error {
	defer oplabel.Enter(oplabel.Enter(id))
	return n.run()
}

// stepLabelled is step under the label of the node's operation.
func (b *backward) stepLabelled(n *node) error {
	if !oplabel.Wanted() {
		return b.step(n)
	}
	return b.stepUnder(n, oplabel.Of(n.backwardLabel()))
}

func (b *backward) stepUnder(n *node, id oplabel.ID) error {
	defer oplabel.Enter(oplabel.Enter(id))
	return b.step(n)
}

// stepLabelled is step under the label of the node's operation.
func (p *recording) stepLabelled(n *node) error {
	if !oplabel.Wanted() {
		return p.step(n)
	}
	defer oplabel.Enter(oplabel.Enter(oplabel.Of(n.backwardLabel())))
	return p.step(n)
}

func (n *node) backwardLabel() oplabel.Label {
	l := n.around().label(n.op.name)
	l.Backward = true
	return l
}

// around is the scope of the module that had the operation.
func (n *node) around() *scope {
	if n.host != nil {
		return n.host
	}
	return n.g.around
}

// label is that of something in the module whose forward pass is under way. In the function of a Checkpoint outside of all modules, that is
// the one that has the Checkpoint.
func (g *Graph) label(op string) oplabel.Label { return g.innermost().label(op) }

func (g *Graph) innermost() *scope {
	if h := g.scope.hosted(); h != nil {
		return h
	}
	return g.around
}

// label has path, found once: a module has many operations.
func (s *scope) label(op string) oplabel.Label {
	h := s.hosted()
	if h == nil {
		return oplabel.Label{Op: op}
	}
	if !h.located {
		h.located, h.pathFound = true, h.path()
	}
	return oplabel.Label{Op: op, Module: h.pathFound, Model: h.pathFound == ""}
}

// use tells meters what a tensor is for.
func use(t *tensor.Tensor, u memmeter.Use) {
	if oplabel.Wanted() {
		tensor.Mark(training.Key{}, t, u, oplabel.Label{})
	}
}

// useParameter tells meters of a parameter, which the module under way has.
func (g *Graph) useParameter(p *Parameter) {
	if !oplabel.Wanted() {
		return
	}
	tensor.Mark(training.Key{}, p.value, memmeter.Parameter, g.label("parameter"))
	tensor.Mark(training.Key{}, p.grad, memmeter.Gradient, g.label("gradient"))
}

// useBuffers tells meters of the buffers of a module whose forward pass begins: the graph does not see them, as they need no gradient.
func (g *Graph) useBuffers(m Located) {
	if !oplabel.Wanted() {
		return
	}
	if b, ok := m.(interface{ OwnBuffers() []*Parameter }); ok {
		for _, p := range b.OwnBuffers() {
			if p != nil {
				tensor.Mark(training.Key{}, p.value, memmeter.Parameter, g.label("parameter"))
			}
		}
	}
}

// useSaved tells meters of a tensor that n saves for backward.
func (n *node) useSaved(t *tensor.Tensor) {
	if oplabel.Wanted() {
		tensor.MarkSaved(training.Key{}, t, n.g.label(n.op.name))
	}
}
