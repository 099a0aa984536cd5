package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Errors of what a program meets on its way say what to write instead.
func TestErrors_SayWhatToWriteInstead(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", r.random(1, 2, 2))
	plain := autograd.Function[int]{
		Name:    "plain",
		Forward: func(_ *autograd.Context, _ int, in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Neg() },
		Backward: func(_ *autograd.Context, _ int, g *tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{g.Retain()}, nil
		},
	}
	for want, use := range map[string]func(g *autograd.Graph, x variable) error{
		"input 1 is of one outside of the function of Checkpoint, which captures it; pass it as an input of Checkpoint": func(g *autograd.Graph, x variable) error {
			captured := x.Neg()
			autograd.Checkpoint(func(in vars) variable { return in[0].Mul(captured) }, x)
			return g.Err()
		},
		"input 0 is of one outside of the function of Checkpoint": func(g *autograd.Graph, x variable) error {
			captured := x.Neg()
			autograd.Checkpoint(func(in vars) variable { return captured.Mul(in[0]) }, x)
			return g.Err()
		},
		"the result is not of the function's graph; pass what it is computed from as an input of Checkpoint": func(g *autograd.Graph, x variable) error {
			autograd.Checkpoint(func(in vars) variable { return x.Neg() }, x)
			return g.Err()
		},
		`parameter "w", which a Checkpoint uses out of sight of the graph: pass it as an input, Checkpoint(f, x, g.Param(w)), call a Checkpointed layer within WithParameters with g.Param(w) for it, or call Backward`: func(g *autograd.Graph, x variable) error {
			y := autograd.Checkpoint(func(in vars) variable { return in[0].Mul(in[0].Graph().Param(w)) }, x)
			_, err := autograd.Grad(vars{y.Sum(nil, false)}, vars{g.Param(w)})
			return err
		},
		"with CreateGraph: the gradient cannot be differentiated again: the Function has no BackwardVariables": func(_ *autograd.Graph, x variable) error {
			_, err := autograd.Grad(vars{plain.Apply(0, x).Sum(nil, false)}, vars{x}, autograd.CreateGraph())
			return err
		},
		"the second operand has 1 dimension; want 2": func(g *autograd.Graph, x variable) error {
			x.MM(x.Sum([]int{0}, false))
			return g.Err()
		},
		`equation "ij,jk->ik" names 2 dimensions of the second operand, which has 1`: func(g *autograd.Graph, x variable) error {
			autograd.Einsum("ij,jk->ik", x, x.Sum([]int{0}, false))
			return g.Err()
		},
		`equation "i,jk" names 1 dimension of the first operand, which has 2`: func(g *autograd.Graph, x variable) error {
			autograd.Einsum("i,jk", x, x)
			return g.Err()
		},
	} {
		g := r.graph()
		require.ErrorContains(t, use(g, g.Input(r.random(1, 2, 2), autograd.RequiresGrad())), want)
		g.Release()
	}
}
