package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Checkpoint computes f of the inputs and trades time for memory: nothing that f makes on the way is saved for backward, only
// the inputs are, and when backward comes to the result, f runs once more to make it again (torch.utils.checkpoint). A model
// of n equal layers under k checkpoints saves k inputs and, for a while, what n/k layers save.
//
// f gets variables in a graph of its own, and uses parameters and values through that graph (in[i].Graph()): variables that it
// captures from outside are an error: they go in as inputs. A parameter whose gradient Grad shall compute goes in as g.Param(w), behind what f reads: within f
// that input is what Param and modules have of it. It must compute the same both times: the mode of modules (Train, Eval), values that f captures and
// frozen parameters must be as they were, which is not checked, and what f counts or averages, such as the statistics of a batch norm, it
// does twice. Random operations draw the same numbers, because the generator's state is put back; autocasting is as it was. Changes of
// the inputs in place within f are an error, and changes of parameters that require gradients, after f has used them, a *ModifiedError
// of backward. Gradients of parameters that f uses are added to them when its second run goes backward; Grad computes those of the
// inputs alone, and refuses to be asked for those of parameters that are none. Grad within f is an error, since the first run records nothing
// (torch.enable_grad has no like here). Checkpoints takes functions of several results.
func Checkpoint(f func(in []*Variable) *Variable, in ...*Variable) *Variable {
	s := &segment{call: "Checkpoint", results: 1}
	if f != nil {
		s.f = func(in []*Variable) []*Variable { return []*Variable{f(in)} }
	}
	s.f, in = carrying(s.f, in)
	return checkpoint.apply(s, in...)
}

// Checkpoints is Checkpoint for a function of several results, as the output and the states of an LSTM: of any shapes and types, an input or the same
// variable twice among them. How many there are is told beforehand, 1 to 1024, and that is the length of what it returns, after an error too; another number from f is an error. f
// runs once more for all of them, when backward comes to the first on which something depended: what then serves those alone on which nothing did is
// released before f's own backward pass.
//
//	out := autograd.Checkpoints(3, func(in []*autograd.Variable) []*autograd.Variable {
//		y, h, c := lstm.ForwardState(in[0], in[1], in[2])
//		return []*autograd.Variable{y, h, c}
//	}, x, h0, c0)
func Checkpoints(results int, f func(in []*Variable) []*Variable, in ...*Variable) []*Variable {
	f, in = carrying(f, in)
	return checkpoint.applyAll(min(max(results, 1), tooMany), &segment{call: "Checkpoints", f: f, results: results}, in...)
}

// segment is what a checkpoint remembers to run f again as it ran before.
type segment struct {
	call    string
	f       func(in []*Variable) []*Variable
	results int
	random  tensor.GeneratorState
	caster  Caster
	saving  *saving
	watcher ModuleWatcher
	params  []usedParameter
}

// usedParameter is a parameter that f used, as it was then.
type usedParameter struct {
	p       *Parameter
	tensor  *tensor.Tensor // the parameter's, which may get another one; nil if its value has come and gone with f
	version uint32
	varies  bool // the value comes and goes
}

// usedAs is p as it is now, with value v in the graph of f.
func usedAs(p *Parameter, v *Variable) usedParameter {
	if p.comesAndGoes() {
		return usedParameter{p, p.Tensor(), p.sharding.Version(), true}
	}
	return usedParameter{p, p.Tensor(), v.tensor().Version(), false}
}

// changed reports whether p has another value than then, and the version of it now.
func (u *usedParameter) changed() (now uint32, changed bool) {
	t := u.p.Tensor()
	switch {
	case u.varies && !u.p.comesAndGoes(): // it stays now, or has gone for good, which its use tells
		return u.version, false
	case u.varies:
		now = u.p.sharding.Version()
		return now, now != u.version
	case t == nil:
		return 0, true
	}
	return t.Version(), t != u.tensor || t.Version() != u.version
}

const checkpointName = "checkpoint"

var checkpoint = defineCheckpoint()

func defineCheckpoint() *op {
	o := variadic(define(checkpointName, nil, rule{uses: inputs}))
	o.several, o.joints, o.always = checkpointForward, checkpointGrad, true
	return o
}

func checkpointForward(n *node) ([]*tensor.Tensor, error) {
	if len(n.in) > 62 {
		return nil, fmt.Errorf("%d inputs; at most 62 can be saved", len(n.in))
	}
	s := n.arg.(*segment)
	switch {
	case s.f == nil:
		return nil, &tensor.ValueError{Op: s.call, Detail: "the function is nil"}
	case s.results < 1 || s.results > tooMany:
		return nil, &tensor.ValueError{Op: s.call, Detail: fmt.Sprintf("%d results; there must be 1 to %d", s.results, tooMany)}
	}
	s.random, s.caster, s.saving, s.watcher = n.g.Generator().State(), n.g.caster, n.g.saving, n.g.watcher
	sub := n.g.child(n.g.Generator(), s.caster, true)
	sub.around, sub.again = n.g.innermost(), n.g.again
	defer sub.Release()
	before := n.versions()
	_, outs, err := s.run(sub, n, (*node).tensor)
	if err == nil {
		err = n.checkInputs() // which f may have released
	}
	if err != nil {
		return nil, err
	}
	for i, v := range n.versions() {
		if v != before[i] {
			return nil, &tensor.ValueError{Op: s.call, Detail: fmt.Sprintf("the function changes input %d in place, and would do so once more for backward", i)}
		}
	}
	s.note(sub)
	if n.g.nested {
		n.g.used = append(n.g.used, s.params...)
	}
	ts := make([]*tensor.Tensor, len(outs))
	for i, v := range outs {
		ts[i] = v.tensor().Retain()
	}
	return ts, nil
}

// checkpointGrad runs f again, with gradients, and goes backward through it. The graph of the second run has the leaves'
// gradients, and dies with this function.
func checkpointGrad(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s := n.arg.(*segment)
	gen := tensor.NewGenerator(0)
	gen.SetState(s.random)
	sub := n.g.child(gen, s.caster, false)
	sub.saving, sub.watcher, sub.around, sub.again = s.saving, s.watcher, n.around(), true
	defer sub.Release()
	leaves, outs, err := s.repeat(sub, n)
	if err != nil {
		return nil, err
	}
	if err := n.repeated(outs); err != nil {
		return nil, err
	}
	var roots []*Variable
	var seeds []*tensor.Tensor
	for i, v := range outs {
		if gs[i] != nil && v.requires {
			roots, seeds = append(roots, v), append(seeds, gs[i])
		}
	}
	if len(roots) < len(outs) {
		sub.spareAllBut(roots, outs, leaves)
	}
	switch {
	case len(roots) == 0:
	case n.g.returning:
		return returned(n, leaves, roots, seeds)
	default:
		if err := (&backward{g: sub, roots: roots}).do("Backward", []BackwardOption{WithGradient(seeds...)}); err != nil {
			return nil, err
		}
	}
	return gradientsOf(n, leaves)
}

// repeat is the second run.
func (s *segment) repeat(sub *Graph, n *node) (leaves, outs []*Variable, err error) {
	if err := s.intact(n); err != nil {
		return nil, nil, err
	}
	var around []*Parameter
	for _, u := range s.params {
		if u.varies && u.tensor != nil {
			around = append(around, u.p)
		}
	}
	if s.watcher != nil && len(around) > 0 {
		done, err := s.watcher.Repeat(sub, around)
		if err != nil {
			return nil, nil, err
		}
		defer done()
	}
	return s.run(sub, n, (*node).savedInput)
}

// repeated refuses results that are not of the shapes and types of n's own.
func (n *node) repeated(outs []*Variable) error {
	for i, v := range outs {
		if first := n.output(i); !v.Shape().Equal(first.Shape()) || v.dtype != first.dtype {
			return fmt.Errorf("the function did not compute the same again: %s%s at first, now %s", n.ordinal(i), first.operand(), v.operand())
		}
	}
	return nil
}

// ordinal says which result it is, where there are several.
func (n *node) ordinal(i int) string {
	if n.outputs() == 1 {
		return ""
	}
	return fmt.Sprintf("result %d was ", i)
}

// spareAllBut releases what serves those of outs alone that are not among roots: their values, and what their operations have made and saved.
// Leaves stay, which are the caller's, and what Memo keeps.
func (g *Graph) spareAllBut(roots, outs, leaves []*Variable) {
	seen := map[*node]bool{}
	reach := func(from []*Variable, visit func(n *node)) {
		for list := slices.Clone(from); len(list) > 0; {
			v := list[len(list)-1]
			list = list[:len(list)-1]
			if n := v.node; n != nil && !seen[n] {
				seen[n] = true
				visit(n)
				list = append(list, n.in...)
			}
		}
	}
	reach(roots, func(*node) {})
	spared := slices.Clone(outs)
	reach(outs, func(n *node) {
		n.free()
		n.freed = true
		for i := range n.outputs() {
			spared = append(spared, n.output(i))
		}
	})
	for _, v := range spared {
		if v.param == nil && !v.keep && !slices.Contains(roots, v) && !slices.Contains(leaves, v) {
			v.release(ScopeEnded)
		}
	}
}

// versions are those of the inputs' storages.
func (n *node) versions() []uint32 {
	vs := make([]uint32, len(n.in))
	for i := range vs {
		vs[i] = n.tensor(i).Version()
	}
	return vs
}

// note remembers the parameters that f used, and those of checkpoints within.
func (s *segment) note(sub *Graph) {
	s.params = sub.used
	for i := range s.params {
		if u := &s.params[i]; u.varies { // it may have gone since
			u.tensor = u.p.Tensor()
		}
	}
	for p, leaf := range sub.params {
		if p.comesAndGoes() || p.requiresGrad && leaf.v.Alive() {
			s.params = append(s.params, usedAs(p, leaf.v))
		}
	}
}

// intact refuses a second run with other parameters than the first one had.
func (s *segment) intact(n *node) error {
	for _, u := range s.params {
		now, changed := u.changed()
		if !changed {
			continue
		}
		t := u.p.Tensor()
		if t == nil && u.p.away != "" && !u.varies {
			return u.p.missing()
		}
		e := &ModifiedError{Op: n.op.name, Module: n.host.path(), Site: n.where(), Saved: "used within the function", Parameter: u.p.name, Expected: u.version, Version: now}
		if t != nil {
			e.Operand, e.Changed = Operand{t.DType(), t.Shape().Clone()}, siteOf(t.LastChange())
		}
		return e
	}
	return nil
}

// uses reports whether f used the parameter of v, if v is that of one.
func (s *segment) uses(v *Variable) bool {
	return v.param != nil && slices.ContainsFunc(s.params, func(u usedParameter) bool { return u.p == v.param })
}

// returned is what a second run gives to a pass of Grad, which adds to no parameter.
func returned(n *node, leaves, roots []*Variable, seeds []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var wanted []*Variable
	for i, v := range leaves {
		if n.flows(i) {
			wanted = append(wanted, v)
		}
	}
	list, err := gradTensors(roots, wanted, WithGradient(seeds...))
	if err != nil {
		return nil, err
	}
	defer releaseAll(list)
	found := make(map[*Variable]*tensor.Tensor, len(wanted))
	for i, v := range wanted {
		found[v] = list[i]
	}
	return n.given(leaves, func(v *Variable) *tensor.Tensor {
		if t := found[v]; t != nil {
			return t.On(n.g.exec)
		}
		return nil
	})
}

// run calls f in sub on leaves of the given values of n's inputs, and checks the results.
func (s *segment) run(sub *Graph, n *node, value func(n *node, i int) *tensor.Tensor) (in, outs []*Variable, err error) {
	sub.segment = true
	in = make([]*Variable, len(n.in))
	for i, v := range n.in {
		in[i] = sub.Input(value(n, i))
		in[i].requires = v.requires && !sub.inference
	}
	outs = s.f(slices.Clone(in))
	if sub.err != nil { // whatever f has made of it
		return nil, nil, sub.err
	}
	outs, err = s.usable(sub, outs)
	return in, outs, err
}

// usable are the results of f as they are now, or what is wrong with them.
func (s *segment) usable(g *Graph, outs []*Variable) ([]*Variable, error) {
	if len(outs) != s.results {
		return nil, &tensor.ValueError{Op: s.call, Detail: fmt.Sprintf("the function returned %d results, not %d", len(outs), s.results)}
	}
	now := make([]*Variable, len(outs))
	for i, v := range outs {
		what := "result"
		if s.results > 1 {
			what = fmt.Sprintf("result %d", i)
		}
		if v != nil && v.g != g {
			return nil, fmt.Errorf("%w: the %s is not of the function's graph; pass what it is computed from as an input of Checkpoint", ErrOtherGraph, what)
		}
		if v == nil && s.results > 1 {
			return nil, fmt.Errorf("the function's %s: %w; leave it out, as the cell of a GRU, and tell how many others there are", what, ErrNilVariable)
		}
		if err := v.unusable(what); err != nil {
			return nil, err
		}
		now[i] = v.now()
	}
	return now, nil
}

// gradientsOf are the gradients that a backward pass left in the leaves.
func gradientsOf(n *node, leaves []*Variable) ([]*tensor.Tensor, error) {
	return n.given(leaves, func(v *Variable) *tensor.Tensor {
		if v.grad == nil {
			return nil
		}
		return v.grad.t.Retain()
	})
}

// given is the gradients of a node's inputs: those of leaves that stand for them, and zeros for leaves on which the result does not depend.
func (n *node) given(leaves []*Variable, gradient func(*Variable) *tensor.Tensor) ([]*tensor.Tensor, error) {
	ts := make([]*tensor.Tensor, len(leaves))
	for i, v := range leaves {
		ts[i] = gradient(v)
		if ts[i] != nil || !n.flows(i) {
			continue
		}
		z, err := tensor.Zeros(n.g.exec, v.dtype, v.Shape()...)
		if err != nil {
			releaseAll(ts)
			return nil, err
		}
		ts[i] = z
	}
	return ts, nil
}

// child is a graph that works as g does, for a computation inside one of g's operations, which releases it.
func (g *Graph) child(gen *tensor.Generator, c Caster, inference bool) *Graph {
	sub := &Graph{
		exec: g.exec, outer: g.outer, dev: g.dev, ledger: new(ledger), anomaly: g.anomaly,
		inference: inference, noGrad: inference, gen: gen, caster: c, nested: true, within: g, watcher: g.watcher, uses: g.uses,
	}
	sub.poison = &Variable{g: sub}
	return sub
}
