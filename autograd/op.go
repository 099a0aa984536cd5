package autograd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// gradients has those of package tensor's operations.
var gradients = tensor.Gradients(training.Key{})

// op is one differentiable operation: a row of the table that all its runs share. The forward function and the gradient
// rules stand beside each other in the operation's file.
type op struct {
	name     string // PyTorch's name; autocast policies and errors use it
	forward  func(n *node) (*tensor.Tensor, error)
	rules    []rule // one per input
	variadic bool   // any number of inputs; rules[0] serves them all
	inPlace  bool   // the result is written over input 0; see inplace.go

	// joint, if set, computes the gradients of all inputs at once, in place of the rules' grad. It returns one for each input;
	// those of inputs without a gradient may be nil.
	joint func(n *node, g *tensor.Tensor) ([]*tensor.Tensor, error)

	// always says that a joint operation is recorded, with all that its rules use, whether or not an input needs a gradient.
	always bool
	// anyGrad says that the rules take a gradient of the result in any floating-point type, and not only in the result's: see gradtype.go.
	anyGrad bool
	// view says that the result shares the memory of the one input, wherever strides allow that.
	view bool
	// several, if set, computes several results, in place of forward; joints then computes the gradients of all inputs from
	// those of the results, nil for results on which nothing depended.
	several func(n *node) ([]*tensor.Tensor, error)
	joints  func(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error)

	// keep, if set, saves what the forward function chose, besides what the rules use.
	keep func(n *node)

	double double // how the gradients are recorded, nil if they cannot be; see doublebackward.go
}

// rule says how to compute the gradient of one input. grad returns a new handle, which the engine takes over, from the
// gradient of the result and from what uses names. The engine sums broadcast dimensions away and converts to the input's
// type afterwards, so rules do neither.
type rule struct {
	uses uses
	grad func(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error)
	none string // instead of grad: why the input has no gradient

	// wide says that grad may return float32 for an input in half precision, if gradType says so.
	wide bool
	// add, if set, may run in place of grad when gradients of the input have arrived before: it adds this one to into, which is of
	// the input's shape and type and belongs to nobody else. It is for gradients of which most is 0.
	add func(n *node, i int, g, into *tensor.Tensor) error
}

// uses says what of the forward pass a rule reads: it is saved if, and only if, the gradient of the rule's input is needed.
type uses uint64

// output is the result of the operation.
const output uses = 1 << 63

// input is the operation's input i, inputs are all of them, and others are all but the one that the rule is for. Only the first 61
// inputs of an operation can be saved.
func input(i int) uses { return 1 << i }

const (
	others uses = 1 << 61
	inputs      = others - 1
)

// of is what the rule of input i uses.
func (u uses) of(i int) uses {
	if u&others != 0 {
		u = u&^others | inputs&^input(i)
	}
	return u
}

// stash is what the forward function handed to node.stash.
const stash uses = 1 << 62

// notDifferentiable is the rule of an input without a gradient.
func notDifferentiable(why string) rule { return rule{none: why} }

// table lists the operations by name. It is filled by the package's variable declarations and not changed afterwards.
var table = map[string]*op{}

// define adds an operation to the table.
func define(name string, forward func(n *node) (*tensor.Tensor, error), rules ...rule) *op {
	if table[name] != nil {
		// invariant: the table is filled once, by the declarations of this package
		panic("autograd: operation defined twice: " + name)
	}
	o := &op{name: name, forward: forward, rules: rules}
	table[name] = o
	return o
}

// Operations lists the names of all operations: what a Caster is asked about, in alphabetical order.
func Operations() []string { return slices.Sorted(maps.Keys(table)) }

// rule is the rule of input i.
func (o *op) rule(i int) *rule {
	if o.variadic {
		return &o.rules[0]
	}
	return &o.rules[i]
}

// flows reports whether input i can have a gradient.
func (o *op) flows(i int) bool {
	r := o.rule(i)
	return o.joint != nil || r.grad != nil || o.joints != nil && r.none == ""
}

// apply runs the operation on inputs of one graph. Every operation of every graph passes here, or through applyAll. arg is what
// the operation has besides its inputs. After an error it does nothing and returns the graph's poison.
func (o *op) apply(arg any, in ...*Variable) *Variable {
	n, failed := o.begin(arg, in)
	if n == nil {
		return failed
	}
	return n.out
}

// applyAll is apply for an operation of count results.
func (o *op) applyAll(count int, arg any, in ...*Variable) []*Variable {
	results := make([]*Variable, count)
	n, failed := o.begin(arg, in)
	for i := range results {
		results[i] = failed
		if n != nil {
			results[i] = n.output(i)
		}
	}
	return results
}

// begin runs the operation. Without a node the second result is what all results are.
func (o *op) begin(arg any, in []*Variable) (*node, *Variable) {
	g := graphOf(in)
	if g == nil {
		return nil, ofNothing(o.name, in)
	}
	if !g.ready(o.name) {
		return nil, g.poison
	}
	n := &node{op: o, g: g, arg: arg}
	n.in = append(n.few[:0], in...) // so that the list of the caller need not be on the heap
	for i, v := range n.in {
		n.in[i] = v.now()
	}
	given := n.in // of which the caster may make others
	g.enter()
	defer g.leave()
	err := n.runLabelled()
	if err == nil {
		err = g.open(o.name)
	}
	if err != nil {
		return nil, g.fail(g.opError(o.name, err, operands(given)...))
	}
	if g.observer != nil {
		g.observer(o.name, false)
	}
	return n, nil
}

// graphOf is the graph of the first input that has one. There is none if all are nil or zero values: then there is nothing to keep the
// error in, and the nil is passed on until Backward, or an accessor, returns it as an error.
func graphOf(in []*Variable) *Graph {
	for _, v := range in {
		if v != nil && v.g != nil {
			return v.g
		}
	}
	return nil
}

// ofNothing is the result of an operation whose inputs are in no graph: nil of nil ones, and, if there is none at all, a variable that says so, of a graph
// that has no more than this error.
func ofNothing(op string, in []*Variable) *Variable {
	if len(in) > 0 {
		return nil
	}
	g := &Graph{ledger: new(ledger)}
	g.poison = &Variable{g: g}
	why := "there are no inputs, and so no graph to compute in"
	if op == checkpointName {
		why += ": pass what the function computes from as inputs, a parameter as g.Param(w)"
	}
	return g.fail(called(op, &tensor.ValueError{Op: op, Detail: why}))
}

func operands(in []*Variable) []Operand {
	ops := make([]Operand, len(in))
	for i, v := range in {
		ops[i] = v.operand()
	}
	return ops
}

// checkInputs refuses inputs that are nil, of another graph, or without a value.
func (n *node) checkInputs() error {
	for i, v := range n.in {
		switch {
		case v == nil || v.g == nil:
			return fmt.Errorf("input %d: %w", i, ErrNilVariable)
		case v.g != n.g && v.g.dev == nil && v.g.err != nil: // it has never had a graph that works
			return fmt.Errorf("input %d: %w", i, v.g.err)
		case v.g != n.g:
			return fmt.Errorf("%w: %s", ErrOtherGraph, n.foreign(i))
		case v.Alive():
		default:
			return v.unusable(fmt.Sprintf("input %d", i))
		}
	}
	return nil
}

// foreign says of input i, from another graph, how it gets into this one.
func (n *node) foreign(i int) string {
	const captured = "input %d is of one outside of the function of Checkpoint, which captures it; pass it as an input of Checkpoint"
	switch g := n.in[i].g; {
	case g.released:
		return fmt.Sprintf("input %d is of one that was released; Take a value before Release, and Input it", i)
	case n.g.segment:
		return fmt.Sprintf(captured, i)
	case g.segment:
		return fmt.Sprintf(captured, 0)
	}
	return fmt.Sprintf("input %d is of another one; Take its value, and Input it here", i)
}

// cast lets the graph's caster replace the inputs. It returns what the caster made for this run alone, which the caller
// releases after the run: what backward reads of it has been saved by then.
func (n *node) cast() (*scope, error) {
	g := n.g
	if g.caster == nil || g.casting {
		return nil, nil
	}
	if w, ok := g.caster.(Widener); ok {
		n.wide = w.Widens(n.op.name)
	}
	made := g.beginScope()
	in, err := func() ([]*Variable, error) {
		defer func() { g.casting, g.scope = false, made.outer }()
		g.casting = true
		return g.caster.Cast(n.op.name, n.in)
	}()
	if err == nil {
		err = g.err
	}
	if err != nil {
		return made, err
	}
	if len(in) != len(n.in) {
		return made, fmt.Errorf("the caster returned %d inputs for %d", len(in), len(n.in))
	}
	n.in = in
	return made, n.checkInputs()
}
