package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/tensor"
)

// node is one run of an operation. Forward reads its inputs from it; if a gradient will be needed, it then stays as a node
// of the graph, with what the rules of the needed gradients use.
type node struct {
	op     *op
	g      *Graph
	in     []*Variable
	arg    any
	out    *Variable
	more   []*Variable // the results after the first, of operations of several
	number uint64      // in the order of creation, which is a topological order
	pass   uint64      // the last backward pass that reached the node
	needed uint64      // the last pass of Grad that runs its rules
	saved  []saved
	freed  bool   // what it saved was freed by a backward pass
	spare  bool   // the rule that runs now is the last reader of its gradient, whose memory belongs to nobody else
	beside *value // what the rule of one input has computed of another input's gradient, until that rule runs
	landed bool   // the joint rule has added the gradient of input 0 to those that had arrived
	wide   bool   // the caster wants the result in the type of computation; see Widener
	site   *Site  // if the graph detects anomalies
	host   *scope
	few    [2]*Variable // where in is, of an operation of at most two inputs
}

// where is the line of the program that had the operation, if that was recorded.
func (n *node) where() Site {
	if n.site == nil {
		return Site{}
	}
	return *n.site
}

// saved is a tensor that backward will read, and the version of its storage when it was saved.
type saved struct {
	what    uses // exactly one bit, or stash
	at      int  // which stash
	val     *value
	version uint32
	packed  *packed // what hooks made of it, instead of val but while the node's rules run
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

// run checks the inputs, computes the results, and records the node if a gradient flows through it.
func (n *node) run() error {
	if err := n.checkInputs(); err != nil {
		return err
	}
	var first *Variable
	if n.op.inPlace {
		first = n.in[0]
	}
	casts, err := n.cast()
	defer casts.release()
	if err != nil {
		return err
	}
	if n.op.inPlace && n.in[0] != first {
		return &InPlaceError{Operand: first.operand(), Detail: "the caster converted it"}
	}
	if !n.op.variadic && len(n.in) != len(n.op.rules) {
		return fmt.Errorf("%d inputs, want %d", len(n.in), len(n.op.rules))
	}
	if err := n.compute(); err != nil {
		n.free()
		return err
	}
	if n.differentiable() && n.quantity() {
		return n.record()
	}
	n.free()
	return nil
}

// quantity reports whether any result is of a floating-point type.
func (n *node) quantity() bool {
	for i := range n.outputs() {
		if n.output(i).dtype.IsFloat() {
			return true
		}
	}
	return false
}

// compute runs the forward function and makes variables of what it returns.
func (n *node) compute() error {
	if n.op.several == nil {
		t, err := n.op.forward(n)
		switch {
		case err != nil:
			return err
		case !n.op.inPlace:
			use(t, memmeter.Activation)
			n.out = n.g.newVariable(t)
		case n.differentiable():
			n.out = n.replaced()
		default:
			n.out = n.in[0]
		}
		return nil
	}
	ts, err := n.op.several(n)
	for i, t := range ts {
		use(t, memmeter.Activation)
		if v := n.g.newVariable(t); i == 0 {
			n.out = v
		} else {
			n.more = append(n.more, v)
		}
	}
	return err
}

// outputs is the number of results.
func (n *node) outputs() int { return 1 + len(n.more) }

// output is result i.
func (n *node) output(i int) *Variable {
	if i == 0 {
		return n.out
	}
	return n.more[i-1]
}

// tensor is the value of input i, for forward functions.
func (n *node) tensor(i int) *tensor.Tensor { return n.in[i].tensor() }

// flows reports whether input i gets a gradient.
func (n *node) flows(i int) bool { return n.in[i].requires && n.op.flows(i) }

// differentiable reports whether any input gets a gradient: forward functions ask it before computing what only the rules
// need.
func (n *node) differentiable() bool {
	if n.g.noGrad || n.op.always {
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
func (n *node) record() error {
	var need uses
	for i := range n.in {
		if n.flows(i) || n.op.always {
			need |= n.op.rule(i).uses.of(i)
		}
	}
	if n.op.keep != nil {
		n.op.keep(n)
	} else if need&stash == 0 {
		n.free() // what was stashed serves only rules that are not needed
	}
	for i, v := range n.in {
		if i < 61 && need&input(i) != 0 {
			n.save(input(i), 0, v.val.hold())
		}
	}
	if need&output != 0 {
		n.save(output, 0, n.out.val.hold())
	}
	for i, v := range n.in {
		if v.stands {
			n.in[i] = v.next
		}
	}
	if err := n.pack(); err != nil {
		n.free()
		for i := range n.outputs() {
			n.output(i).release(ReleasedEarly)
		}
		return err
	}
	n.number, n.host = n.g.nodes, n.g.scope.hosted()
	n.g.nodes++
	for i := range n.outputs() {
		if v := n.output(i); v.dtype.IsFloat() {
			v.node, v.requires = n, true
		}
	}
	if n.g.anomaly {
		site := callSite()
		n.site = &site
	}
	return nil
}

func (n *node) save(what uses, at int, v *value) {
	if n.g.anomaly {
		v.t.WatchChanges()
	}
	n.useSaved(v.t)
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
		if s := &n.saved[i]; s.what == what && s.at == at && s.val != nil {
			return s.val.t
		}
	}
	return nil
}

// free drops what the node saved.
func (n *node) free() {
	for i := range n.saved {
		n.g.ledger.drop(n.saved[i].val)
		n.g.ledger.dropPacked(n.saved[i].packed)
	}
	n.saved = nil
}

// intact refuses a node whose saved tensors were freed by an earlier backward pass, or changed since they were saved.
func (n *node) intact() error {
	if n.freed {
		return &SecondBackwardError{Op: n.op.name, Module: n.host.path()}
	}
	for i := range n.saved {
		s := &n.saved[i]
		if s.val == nil {
			continue
		}
		if now := s.val.t.Version(); now != s.version {
			return n.modified(s, now)
		}
	}
	return nil
}

// modified describes a saved tensor that was changed since.
func (n *node) modified(s *saved, now uint32) error {
	e := &ModifiedError{Op: n.op.name, Module: n.host.path(), Site: n.where(), Saved: s.String(), Version: now, Expected: s.version,
		Operand: Operand{s.val.t.DType(), s.val.t.Shape().Clone()}, Changed: siteOf(s.val.t.LastChange())}
	v := n.savedVariable(s)
	if v == nil {
		return e
	}
	if v.param != nil {
		e.Parameter = v.param.name
	}
	if v.next != nil && v.next.node != nil {
		e.ChangedBy = v.next.node.op.name
	}
	return e
}

// savedVariable is the variable whose value was saved, nil for a workspace.
func (n *node) savedVariable(s *saved) *Variable {
	if s.what == output {
		return n.out
	}
	for i := range n.in {
		if i < 61 && s.what == input(i) {
			return n.in[i]
		}
	}
	return nil
}
