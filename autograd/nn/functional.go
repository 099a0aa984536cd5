package nn

import (
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// WithParameters runs f with other variables in the place of parameters and buffers of m, by their names in NamedParameters and NamedBuffers, and returns what f returns
// (torch.func.functional_call): for weights that are results of computations in the graph g, as in MAML or a hypernetwork, through which gradients
// flow back to what they were computed from. What is not in with is m's own; of a shared parameter any one of its names will do. m needs memory only
// for the rest. Names that m does not have, and two of one parameter with different variables, are an *ArgumentError of the graph, and f is not run.
// See autograd.Graph.WithParameters for what else is one.
//
//	loss := nn.WithParameters(g, model, fast, func() *autograd.Variable { return model.Forward(x).Sub(y).Square().Mean(nil, false) })
func WithParameters(g *autograd.Graph, m Module, with map[string]*autograd.Variable, f func() *autograd.Variable) *autograd.Variable {
	if g == nil {
		return nil
	}
	const call = "WithParameters"
	if err := Check(m); err != nil {
		return g.Refuse(call, err)
	}
	byParameter, used := make(map[*autograd.Parameter]*autograd.Variable, len(with)), 0
	for _, n := range underAllNames(m) {
		v, given := with[n.Name]
		if !given {
			continue
		}
		if before, twice := byParameter[n.Parameter]; twice && before != v {
			return g.Refuse(call, argumentErr(call, "%s is shared, and has another variable under another of its names", excerpt.Of(n.Name)))
		}
		byParameter[n.Parameter] = v
		used++
	}
	if used < len(with) {
		return g.Refuse(call, argumentErr(call, "the model has no parameter or buffer %s", excerpt.Quote(strange(m, with))))
	}
	return g.WithParameters(byParameter, f)
}

// strange is the first name, in their order, that m does not have.
func strange(m Module, with map[string]*autograd.Variable) string {
	names := make(map[string]bool)
	for _, n := range underAllNames(m) {
		names[n.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		if !names[name] {
			return name
		}
	}
	return ""
}
