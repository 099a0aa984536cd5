package amp

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Func is a computation on variables of one graph.
type Func func(in []*autograd.Variable) *autograd.Variable

// CastInputs runs f, a computation that needs all of its inputs in one type, as torch.amp.custom_fwd(cast_inputs=dt) does: where
// autocast is on, eligible inputs (floating-point, not float64) are converted to dt, and f runs with autocast off. Where it
// is off, f runs on the inputs as they are. Its gradients need no counterpart of custom_bwd: gradient rules are never cast. in
// has at least one variable; nil and failed ones are passed on.
func CastInputs(dt tensor.DType, f Func, in ...*autograd.Variable) *autograd.Variable {
	var g *autograd.Graph
	for _, v := range in {
		if v != nil && g == nil {
			g = v.Graph()
		}
	}
	if f == nil {
		g.Fail(&tensor.ValueError{Op: "CastInputs", Detail: "the function is nil"})
		return nil
	}
	if g == nil {
		return f(in)
	}
	if _, on := Active(g); !on {
		return f(in)
	}
	var out *autograd.Variable
	Region(g, Enabled(false), func() {
		cast := make([]*autograd.Variable, len(in))
		for i, v := range in {
			cast[i] = v
			if v != nil && eligible(v) {
				cast[i] = v.To(dt)
			}
		}
		out = f(cast)
	})
	return out
}
