package autograd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// WithParameters runs f with other variables in the place of parameters (torch.func.functional_call): while f runs, Param of a parameter
// in with is the variable there, so that modules compute with it, and gradients flow through it to what it was computed from. Parameters
// that are not in with, nil too, are as always; calls nest, and the innermost one that has a parameter counts. It is no scope, and returns what f
// returns. package nn has it by names.
//
// The variables are of this graph and have the shapes of their parameters, which need no tensors: a nil or released one, one of another graph, and
// a *tensor.ShapeError are errors of the graph, and f is not run. In a function of Checkpoint they take part as inputs, of which there are at most 62.
// Running statistics of BatchNorm are read from them, and in training changed in place.
//
//	fast := w.Sub(grad.MulScalar(0.1)) // a step, through which gradients flow
//	loss := g.WithParameters(map[*autograd.Parameter]*autograd.Variable{layer.Weight: fast}, func() *autograd.Variable {
//		return layer.Forward(x).Square().Mean(nil, false)
//	})
func (g *Graph) WithParameters(with map[*Parameter]*Variable, f func() *Variable) *Variable {
	const use = "WithParameters"
	if g == nil || f == nil {
		return g.without(use)
	}
	if !g.ready(use) {
		return g.poison
	}
	for p, v := range with {
		if err := g.replaces(p, v); err != nil {
			return g.Refuse(use, err)
		}
	}
	defer func(before map[*Parameter]*Variable) { g.replaced = before }(g.replaced)
	all := maps.Clone(g.replaced)
	if all == nil {
		all = make(map[*Parameter]*Variable, len(with))
	}
	maps.Copy(all, with)
	g.replaced = all
	return f()
}

// Replacement is the variable that WithParameters has put in the place of p, nil outside of all that have.
func (g *Graph) Replacement(p *Parameter) *Variable {
	if g == nil {
		return nil
	}
	return g.replaced[p]
}

// replaces refuses what cannot stand for a parameter.
func (g *Graph) replaces(p *Parameter, v *Variable) error {
	what := "the variable for parameter " + excerpt.Quote(p.Name())
	if p == nil {
		return &ParameterError{}
	}
	if v == nil || v.g == nil {
		return fmt.Errorf("%s: %w", what, ErrNilVariable)
	}
	switch err := v.unusable(what); {
	case err != nil:
		return err
	case v.g != g:
		return fmt.Errorf("%s: %w", what, ErrOtherGraph)
	case !v.Shape().Equal(p.shape):
		return &tensor.ShapeError{Op: "WithParameters", Shapes: []tensor.Shape{v.Shape().Clone(), p.shape.Clone()}, Detail: what + " does not have its shape"}
	}
	return nil
}

// carrying lets leaves stand for parameters in the graph in which a function of Checkpoint runs: those of the parameters among its inputs, so that Grad, which sees
// inputs alone, finds what a module in the function computes with, and those of what WithParameters has put in the place of others, which
// become inputs behind its own.
func carrying(f func(in []*Variable) []*Variable, in []*Variable) (func(in []*Variable) []*Variable, []*Variable) {
	all, at := slices.Clone(in), map[*Parameter]int{}
	if len(in) == 0 || f == nil || in[0].Graph() == nil {
		return f, all
	}
	for i, v := range in {
		if v.leads() {
			at[v.param] = i
		}
	}
	for p, v := range in[0].Graph().replaced {
		at[p], all = len(all), append(all, v)
	}
	if len(at) == 0 {
		return f, all
	}
	own := len(in)
	return func(in []*Variable) (outs []*Variable) {
		with := make(map[*Parameter]*Variable, len(at))
		for p, i := range at {
			with[p] = in[i]
		}
		in[0].Graph().WithParameters(with, func() *Variable { outs = f(in[:own:own]); return nil })
		return outs
	}, all
}

// leads reports whether v is what Param gives for a parameter that is trained. Others, as running statistics, are changed where they are.
func (v *Variable) leads() bool {
	if v == nil || v.param == nil || !v.requires {
		return false
	}
	leaf, ok := v.g.params[v.param]
	return ok && leaf.v == v && leaf.value == v.param.value
}
