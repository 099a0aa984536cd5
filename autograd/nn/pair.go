package nn

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// PairModule is a module without parameters of two inputs. CosineSimilarity and PairwiseDistance make one.
type PairModule struct {
	Base
	text string
	f    func(a, b *autograd.Variable) *autograd.Variable
}

func pairOf(text string, f func(a, b *autograd.Variable) *autograd.Variable) *PairModule {
	return &PairModule{Base: Base{listed: true}, text: text, f: f}
}

// CosineSimilarity is the cosine of the angle between two inputs along dim; norms count as at least eps. PyTorch's defaults are 1 and 1e-8.
func CosineSimilarity(dim int, eps float64) *PairModule {
	return pairOf("CosineSimilarity()", func(a, b *autograd.Variable) *autograd.Variable { return a.CosineSimilarity(b, dim, eps) })
}

// PairwiseDistance is the p-norm of the difference of two inputs, plus eps, along the last dimension, which stays with one element if keep is set. PyTorch's
// defaults are 2, 1e-6 and false.
func PairwiseDistance(p, eps float64, keep bool) *PairModule {
	return pairOf("PairwiseDistance()", func(a, b *autograd.Variable) *autograd.Variable { return a.PairwiseDistance(b, p, eps, keep) })
}

// Forward computes the module's function.
func (m *PairModule) Forward(a, b *autograd.Variable) *autograd.Variable {
	return within(m, a, func(g *autograd.Graph) *autograd.Variable {
		if m.f == nil {
			return g.Refuse("forward", argumentErr("PairModule", "%q has no function: CosineSimilarity and PairwiseDistance make one", excerpt.Of(m.text)), a, b)
		}
		return m.f(a, b)
	})
}

// String is PyTorch's description.
func (m *PairModule) String() string {
	if m == nil {
		return "nil"
	}
	return m.text
}
