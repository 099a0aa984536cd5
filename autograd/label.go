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
	return n.runUnder(oplabel.Of(oplabel.Label{Op: n.op.name, Module: n.g.labelPath()}))
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
	return oplabel.Label{Op: n.op.name, Module: n.around().labelPath(), Backward: true}
}

// around is the scope of the module that had the operation.
func (n *node) around() *scope {
	if n.host != nil {
		return n.host
	}
	return n.g.around
}

// labelPath is the path of the module whose forward pass is under way. In the function of a Checkpoint outside of all modules, it is that of
// the one that has the Checkpoint.
func (g *Graph) labelPath() string {
	return g.innermost().labelPath()
}

func (g *Graph) innermost() *scope {
	if h := g.scope.hosted(); h != nil {
		return h
	}
	return g.around
}

// labelPath is path, found once: a module has many operations.
func (s *scope) labelPath() string {
	h := s.hosted()
	if h == nil {
		return ""
	}
	if !h.located {
		h.located, h.pathFound = true, h.path()
	}
	return h.pathFound
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
	by := oplabel.Label{Op: "parameter", Module: g.labelPath()}
	tensor.Mark(training.Key{}, p.value, memmeter.Parameter, by)
	tensor.Mark(training.Key{}, p.grad, memmeter.Gradient, oplabel.Label{Op: "gradient", Module: by.Module})
}

// useSaved tells meters of a tensor that n saves for backward.
func (n *node) useSaved(t *tensor.Tensor) {
	if oplabel.Wanted() {
		tensor.MarkSaved(training.Key{}, t, oplabel.Label{Op: n.op.name, Module: n.g.labelPath()})
	}
}
