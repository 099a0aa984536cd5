package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// node is one run of an operation. Forward reads its inputs from it; if a gradient will be needed, it then stays as a node
// of the graph, with what the rules of the needed gradients use.
type node struct {
	op     *op
	g      *Graph
	in     []*Variable
	arg    any
	out    *Variable // set when the node is recorded
	number uint64    // in the order of creation, which is a topological order
	pass   uint64    // the last backward pass that reached the node
	saved  []saved
	freed  bool // what it saved was freed by a backward pass
	site   Site // if the graph detects anomalies
}

// saved is a tensor that backward will read, and the version of its storage when it was saved.
type saved struct {
	what    uses // exactly one bit, or stash
	at      int  // which stash
	val     *value
	version uint32
}

// String says what it is to the operation, for errors.
func (s *saved) String() string {
	switch {
	case s.what == output:
		return "the output"
	case s.what == stash:
		return fmt.Sprintf("workspace %d", s.at)
	}
	i := 0
	for s.what != input(i) {
		i++
	}
	return fmt.Sprintf("input %d", i)
}

// run checks the inputs, computes the result, and records the node if a gradient flows through it.
func (n *node) run() (*Variable, error) {
	if err := n.checkInputs(); err != nil {
		return nil, err
	}
	var first *Variable
	if n.op.inPlace {
		first = n.in[0]
	}
	casts, err := n.cast()
	defer casts.release()
	if err != nil {
		return nil, err
	}
	if n.op.inPlace && n.in[0] != first {
		return nil, &InPlaceError{Operand: first.operand(), Detail: "the caster converted it"}
	}
	if !n.op.variadic && len(n.in) != len(n.op.rules) {
		return nil, fmt.Errorf("%d inputs, want %d", len(n.in), len(n.op.rules))
	}
	t, err := n.op.forward(n)
	if err != nil {
		n.free()
		return nil, err
	}
	var out *Variable
	switch {
	case !n.op.inPlace:
		out = n.g.newVariable(t)
	case n.differentiable():
		out = n.replaced()
	default:
		return n.in[0], nil
	}
	if n.differentiable() && t.DType().IsFloat() {
		n.record(out)
	} else {
		n.free()
	}
	return out, nil
}

// tensor is the value of input i, for forward functions.
func (n *node) tensor(i int) *tensor.Tensor { return n.in[i].tensor() }

// flows reports whether input i gets a gradient.
func (n *node) flows(i int) bool { return n.in[i].requires && n.op.flows(i) }

// differentiable reports whether any input gets a gradient: forward functions ask it before computing what only the rules
// need.
func (n *node) differentiable() bool {
	if n.g.noGrad || n.op.joint != nil {
		return !n.g.noGrad
	}
	for i := range n.in {
		if n.flows(i) {
			return true
		}
	}
	return false
}

// record makes the node part of the graph and saves what the rules of the flowing inputs use.
func (n *node) record(out *Variable) {
	var need uses
	for i := range n.in {
		if n.flows(i) || n.op.joint != nil {
			need |= n.op.rule(i).uses.of(i)
		}
	}
	if need&stash == 0 {
		n.free() // what was stashed serves only rules that are not needed
	}
	for i, v := range n.in {
		if i < 61 && need&input(i) != 0 {
			n.save(input(i), 0, v.val.hold())
		}
	}
	if need&output != 0 {
		n.save(output, 0, out.val.hold())
	}
	n.number = n.g.nodes
	n.g.nodes++
	n.out, out.node, out.requires = out, n, true
	if n.g.anomaly {
		n.site = callSite()
	}
}

func (n *node) save(what uses, at int, v *value) {
	n.saved = append(n.saved, saved{what: what, at: at, val: v, version: v.t.Version()})
}

// stash hands a tensor that forward made, besides the result, to the rules whose uses include stash. The node takes it
// over at once; rules read it with stashed(at), where at counts the stashes.
func (n *node) stash(t *tensor.Tensor) {
	at := 0
	for _, s := range n.saved {
		if s.what == stash {
			at++
		}
	}
	n.save(stash, at, n.g.ledger.add(t))
}

// savedInput, savedOutput and stashed return what was saved, borrowed: it is freed when the node's rules have run.
// Asking for what the rule's uses did not name is a mistake in this package and returns nil, which operations refuse.
func (n *node) savedInput(i int) *tensor.Tensor { return n.find(input(i), 0) }

func (n *node) savedOutput() *tensor.Tensor { return n.find(output, 0) }

func (n *node) stashed(at int) *tensor.Tensor { return n.find(stash, at) }

func (n *node) find(what uses, at int) *tensor.Tensor {
	for i := range n.saved {
		if s := &n.saved[i]; s.what == what && s.at == at {
			return s.val.t
		}
	}
	return nil
}

// free drops what the node saved.
func (n *node) free() {
	for _, s := range n.saved {
		n.g.ledger.drop(s.val)
	}
	n.saved = nil
}

// intact refuses a node whose saved tensors were freed by an earlier backward pass, or changed since they were saved.
func (n *node) intact() error {
	if n.freed {
		return &SecondBackwardError{Op: n.op.name}
	}
	for i := range n.saved {
		s := &n.saved[i]
		if now := s.val.t.Version(); now != s.version {
			return &ModifiedError{Op: n.op.name, Saved: s.String(), Version: now, Expected: s.version,
				Operand: Operand{s.val.t.DType(), s.val.t.Shape().Clone()}}
		}
	}
	return nil
}
