package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// With CreateGraph a model in checkpoints has the derivatives that it has without, of its parameters too, also of nested ones.
func TestCreateGraph_ThroughCheckpointsIsAsWithout(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(r.random(1, 3, 3).Clone()))
	defer w.Release()
	u := autograd.NewParameter("u", must(r.random(2, 3, 3).Clone()))
	defer u.Release()
	x := r.random(3, 2, 3)
	plain := func(f func(in vars) variable, in ...variable) variable { return f(in) }
	type together = func(f func(in vars) variable, in ...variable) variable
	step := func(check, inner together, constant bool) [][]float64 {
		g := r.graph(autograd.WithGenerator(tensor.NewGenerator(5)))
		defer g.Release()
		v := g.Input(x, autograd.RequiresGrad())
		if constant {
			v = g.Input(x)
		}
		y := check(func(in vars) variable {
			h := in[0].MatMul(in[0].Graph().Param(w)).Tanh().Dropout(0.3)
			return inner(func(in vars) variable { return in[0].MatMul(in[0].Graph().Param(u)).Sigmoid() }, h).Add(h)
		}, v).Mul(v)
		loss := y.Mul(y).MatMul(g.Param(w)).Sum(nil, false) // w is used outside too
		require.NoError(t, loss.Backward(autograd.CreateGraph()))
		first := [][]float64{values(t, w.Grad()), values(t, u.Grad())}
		list := vars{g.Param(w).GradVariable(), g.Param(u).GradVariable()}
		if !constant {
			first = append(first, values(t, v.Grad()))
			list = append(list, v.GradVariable())
		}
		w.ZeroGrad()
		u.ZeroGrad()
		require.NoError(t, wavy(g, list).Backward())
		first = append(first, values(t, w.Grad()), values(t, u.Grad()))
		w.ZeroGrad()
		u.ZeroGrad()
		return first
	}
	for _, constant := range []bool{false, true} {
		want := step(plain, plain, constant)
		for i, have := range [][][]float64{step(autograd.Checkpoint, plain, constant), step(autograd.Checkpoint, autograd.Checkpoint, constant), step(plain, autograd.Checkpoint, constant)} {
			require.Len(t, have, len(want))
			for k := range want {
				near(t, "", want[k], have[k], 1e-12)
			}
			_ = i
		}
	}
}
