package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

func init() { checkpoint.double = checkpointDouble }

// checkpointDouble runs the function again in the graph itself, and records the gradients of that run, with those of the parameters that the
// function uses. What the run saves stays, as all that CreateGraph records: from then on the checkpoint spares nothing.
func checkpointDouble(r *rerun, gs []*Variable) []*Variable {
	n, g, s := r.n, r.n.g, r.n.arg.(*segment)
	if err := s.intact(n); err != nil {
		g.Fail(err)
		return nil
	}
	in := make([]*Variable, len(n.in))
	for i := range in {
		in[i] = r.input(i)
	}
	from := g.nodes
	outs := s.again(g, in)
	if g.err != nil {
		return nil
	}
	outs, err := s.usable(g, outs)
	if err == nil {
		err = n.repeated(outs)
	}
	if err != nil {
		g.Fail(err)
		return nil
	}
	p := &recording{g: g, from: from, besides: r.besides, wanted: func(v *Variable) bool { return r.asks(v) || r.besides && v.node == nil && v.param != nil }}
	if r.arrived != nil { // hooks of what f makes; inputs and parameters have their gradients in the pass around it
		p.arrived = func(v, grad *Variable) (*Variable, error) {
			if p.leaf(v) {
				return grad, nil
			}
			return r.arrived(v, grad)
		}
	}
	var roots, seeds []*Variable
	for i, v := range outs {
		if gs[i] != nil {
			roots, seeds = append(roots, v.original()), append(seeds, gs[i])
		}
	}
	p.collect(roots)
	if err := p.run(roots, seeds); err != nil {
		g.Fail(err)
		return nil
	}
	list := p.of(n.in)
	for _, v := range p.leaves {
		if v.param != nil && !slices.Contains(n.in, v) {
			r.parameters, r.theirs = append(r.parameters, v), append(r.theirs, p.grads[v])
		}
	}
	return list
}

// again calls the function in g as it was called at first: with the same random numbers and casts. Casts that it had kept for the graph's
// life (Memo) end with it: they must be part of the run.
func (s *segment) again(g *Graph, in []*Variable) []*Variable {
	gen := tensor.NewGenerator(0)
	gen.SetState(s.random)
	defer func(gen *tensor.Generator, c Caster, saving *saving, memo map[any]*Variable, retaining, returning bool) {
		for _, v := range g.memo {
			v.release(ScopeEnded)
		}
		g.gen, g.caster, g.saving, g.memo = gen, c, saving, memo
		g.running, g.retaining, g.returning = true, retaining, returning
	}(g.gen, g.caster, g.saving, g.memo, g.retaining, g.returning)
	g.gen, g.caster, g.saving, g.memo = gen, s.caster, s.saving, nil
	g.running = false // the function may have passes of its own, as in the graph that it had at first
	return s.f(slices.Clone(in))
}
