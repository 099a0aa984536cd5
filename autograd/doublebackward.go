package autograd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// A backward pass with CreateGraph computes gradients as variables, so that they can be differentiated again, as often as one likes. The
// rules of ordinary passes work on tensors, in place where they can, and know nothing of this; what stands here and in the files beside it
// records them. Operations that are linear in each input run the rule as an operation (adjoint.go); rules that are a step or two are
// written in variables; all others run as one operation, whose derivatives are those of a formula (doublekernel.go). The values are always those
// of an ordinary pass.
//
// A rule gets the values that the operation saved as variables with the history that they had in forward. So it is the operation's own
// node through which second derivatives flow back to its inputs.

// double says how the gradients of an operation are computed as variables.
type double func(r *rerun, gs []*Variable) []*Variable

// rerun is one operation whose gradients are computed as variables: what its rules may ask for.
type rerun struct {
	n     *node
	needs func(i int) bool // whether the gradient of input i is wanted

	besides            bool // the gradients of parameters that a checkpoint uses are wanted
	parameters, theirs []*Variable

	// arrived is that of the pass, if it calls hooks.
	arrived func(v, grad *Variable) (*Variable, error)
}

// input is input i as forward read it, with its history.
func (r *rerun) input(i int) *Variable {
	v := r.n.in[i]
	if s := r.saved(input(i)); s != nil {
		return v.as(s.val)
	}
	if v.next != nil { // an operation in place has written over it since
		return r.n.g.fail(called(r.n.op.name, higherOrder(fmt.Sprintf("input %d was changed in place, and is not saved", i))))
	}
	return v
}

// quantity is input i in the type of the result: for formulas of operations that promote.
func (r *rerun) quantity(i int) *Variable {
	v := r.input(i)
	if v.Alive() && v.dtype != r.n.out.dtype {
		return v.To(r.n.out.dtype)
	}
	return v
}

// output is the operation's result, with its history.
func (r *rerun) output() *Variable {
	if s := r.saved(output); s != nil {
		return r.n.out.as(s.val)
	}
	return r.n.out
}

// stash is a tensor that forward made for its rules. It is a constant to them.
func (r *rerun) stash(at int) *Variable {
	for i := range r.n.saved {
		if s := &r.n.saved[i]; s.what == stash && s.at == at && s.val != nil {
			return r.n.g.newVariable(s.val.t.Retain())
		}
	}
	return r.n.g.fail(called(r.n.op.name, higherOrder(fmt.Sprintf("workspace %d is not saved", at))))
}

func (r *rerun) saved(what uses) *saved {
	for i := range r.n.saved {
		if s := &r.n.saved[i]; s.what == what && s.val != nil {
			return s
		}
	}
	return nil
}

// as is v with a value that was saved of it, which v itself may have lost: operations that read it are recorded as readers of v.
func (v *Variable) as(val *value) *Variable {
	if v.val == val {
		return v
	}
	return v.g.track(&Variable{g: v.g, val: val.hold(), dtype: v.dtype, ndim: v.ndim, dims: v.dims, requires: v.requires, stands: true, next: v})
}

// recording is a pass whose gradients are variables.
type recording struct {
	g       *Graph
	from    uint64                 // nodes with lower numbers are none of the pass's: what they made are leaves
	wanted  func(v *Variable) bool // whose gradients stay in grads, nil for those of all leaves
	besides bool                   // so are those of parameters that checkpoints use, out of sight of the graph

	// arrived, if it is set, is called when all of a variable's gradient is there. It returns what takes its place.
	arrived func(v, grad *Variable) (*Variable, error)

	nodes  []*node                 // that the roots depend on and that lead to what is wanted, newest first
	needed map[*Variable]struct{}  // what is wanted, and what leads there
	grads  map[*Variable]*Variable // the sum of what has come
	own    map[*Variable]int       // gradients that the pass has made: how many variables in grads wait with them
	leaves []*Variable             // in the order of their first gradients
}

// run computes the gradients of roots, of which seeds are the first ones. It is called in a scope, and after collect.
func (p *recording) run(roots, seeds []*Variable) error {
	p.grads, p.own = map[*Variable]*Variable{}, map[*Variable]int{}
	for i, v := range roots {
		if _, ok := p.needed[v]; ok {
			p.deliver(v, seeds[i])
		}
	}
	for _, n := range p.nodes {
		if err := p.stepLabelled(n); err != nil {
			e := &OpError{Op: n.op.name, Backward: true, Module: n.host.path(), Operands: operands(n.in), Site: n.where(), Err: err}
			return e.counted()
		}
	}
	for _, v := range p.leaves {
		if err := p.complete(v); err != nil {
			return err
		}
	}
	return p.g.err
}

// collect finds the nodes between roots and what is wanted.
func (p *recording) collect(roots []*Variable) {
	seen := map[*node]struct{}{}
	reach := func(v *Variable) {
		n := v.node
		if n == nil || n.number < p.from {
			return
		}
		if _, ok := seen[n]; !ok {
			seen[n] = struct{}{}
			p.nodes = append(p.nodes, n)
		}
	}
	for _, v := range roots {
		reach(v)
	}
	for done := 0; done < len(p.nodes); done++ {
		n := p.nodes[done]
		for i, v := range n.in {
			if n.flows(i) {
				reach(v)
			}
		}
	}
	slices.SortFunc(p.nodes, func(m, n *node) int { return cmp.Compare(n.number, m.number) })
	p.prune(roots)
}

// leaf reports whether v is where the pass ends.
func (p *recording) leaf(v *Variable) bool { return v.node == nil || v.node.number < p.from }

// wants reports whether v's gradient was asked for.
func (p *recording) wants(v *Variable) bool {
	if p.wanted == nil {
		return p.leaf(v)
	}
	return p.wanted(v)
}

// prune leaves the nodes that lead to what is wanted, and those of results that are.
func (p *recording) prune(roots []*Variable) {
	p.needed = map[*Variable]struct{}{}
	need := func(v *Variable) bool {
		if p.wants(v) {
			p.needed[v] = struct{}{}
		}
		_, ok := p.needed[v]
		return ok
	}
	kept := len(p.nodes)
	for k := len(p.nodes) - 1; k >= 0; k-- { // the oldest first: what a node depends on has been seen before it
		n, visit := p.nodes[k], false
		for i, v := range n.in {
			visit = n.flows(i) && need(v) || visit
		}
		visit = visit || p.besides && n.op.always
		for i := range n.outputs() {
			out := n.output(i)
			if visit {
				p.needed[out] = struct{}{}
			}
		}
		for i := range n.outputs() {
			visit = need(n.output(i)) || visit
		}
		if visit {
			kept--
			p.nodes[kept] = n
		}
	}
	p.nodes = p.nodes[kept:]
	for _, v := range roots {
		need(v)
	}
}

// flows reports whether input i of n gets a gradient in this pass.
func (p *recording) flows(n *node, i int) bool {
	_, ok := p.needed[n.in[i]]
	return ok && n.flows(i)
}

// leads reports whether any input of n gets a gradient in this pass: else only those of its results are wanted.
func (p *recording) leads(n *node) bool {
	for i := range n.in {
		if p.flows(n, i) {
			return true
		}
	}
	return p.besides && n.op.always
}

// step computes and delivers the gradients of a node's inputs.
func (p *recording) step(n *node) error {
	gs := make([]*Variable, n.outputs())
	some := false
	for i := range gs {
		out := n.output(i)
		if p.grads[out] == nil {
			continue
		}
		if err := p.complete(out); err != nil {
			return err
		}
		gs[i], some = p.grads[out], true
	}
	if !some || !p.leads(n) {
		return nil
	}
	if err := p.apply(n, gs); err != nil {
		return err
	}
	for i, g := range gs {
		if out := n.output(i); g != nil && !p.wants(out) {
			delete(p.grads, out)
			p.drop(g)
		}
	}
	return p.g.open("backward")
}

// apply runs the rules of a node in a scope of their own.
func (p *recording) apply(n *node, gs []*Variable) error {
	if err := n.intact(); err != nil { // a hook may have changed it
		return err
	}
	if err := n.unpack(); err != nil {
		return err
	}
	defer n.unload()
	r := &rerun{n: n, needs: func(i int) bool { return p.flows(n, i) }, besides: p.besides, arrived: p.arrived}
	before := len(p.g.scope.made)
	in := p.g.Scopes(func() []*Variable {
		list := n.op.double(r, gs)
		for i, t := range list {
			if t != nil && p.flows(n, i) {
				list[i] = fitted(t, n.in[i])
			}
		}
		return append(list[:len(list):len(list)], r.theirs...)
	})
	if p.g.err != nil {
		return p.g.err
	}
	for _, t := range p.g.scope.made[before:] {
		p.own[t] = 0
	}
	for i, v := range n.in {
		if t := in[i]; t != nil && p.flows(n, i) {
			p.deliver(v, t)
		}
	}
	for i, v := range r.parameters {
		p.deliver(v, r.theirs[i])
	}
	return p.g.err
}

// fitted brings a gradient of v to v's shape and type.
func fitted(t, v *Variable) *Variable {
	if !t.Shape().Equal(v.Shape()) && t.Alive() {
		t = t.sumTo(v.Shape())
	}
	if t.dtype != v.dtype {
		t = t.To(v.dtype)
	}
	return t
}

// sumTo undoes a broadcast of something of the given shape.
func (v *Variable) sumTo(shape tensor.Shape) *Variable {
	var dims []int
	lead := v.NDim() - len(shape)
	for i := range v.NDim() {
		if i < lead || shape[i-lead] == 1 && v.dims[i] != 1 {
			dims = append(dims, i)
		}
	}
	if len(dims) > 0 {
		v = v.Sum(dims, true)
	}
	return v.Reshape(shape...)
}

// deliver adds t to the gradient of v.
func (p *recording) deliver(v, t *Variable) {
	have := p.grads[v]
	if have == nil {
		if p.leaf(v) {
			p.leaves = append(p.leaves, v)
		}
		p.keep(v, t)
		return
	}
	sum := have.Add(t)
	p.own[sum] = 0
	p.drop(have)
	if n, ok := p.own[t]; ok && n == 0 { // nobody else waits with it
		t.release(BackwardDone)
	}
	p.keep(v, sum)
}

func (p *recording) keep(v, t *Variable) {
	p.grads[v] = t
	if n, ok := p.own[t]; ok {
		p.own[t] = n + 1
	}
}

// drop releases a gradient that the pass has made, when no variable waits with it any more. What nodes have saved of it stays.
func (p *recording) drop(t *Variable) {
	n, ok := p.own[t]
	if !ok {
		return
	}
	p.own[t] = n - 1
	if n == 1 {
		t.release(BackwardDone)
	}
}

// complete is called when all of a variable's gradient is there.
func (p *recording) complete(v *Variable) error {
	if p.arrived == nil {
		return nil
	}
	have, before := p.grads[v], len(p.g.scope.made)
	t, err := p.arrived(v, have)
	if err != nil || t == have {
		return err
	}
	for _, made := range p.g.scope.made[before:] {
		p.own[made] = 0
	}
	p.drop(have)
	p.keep(v, t)
	return nil
}
