package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

// A result without elements has no windows, however many there are along one dimension.
func TestAdaptivePool_GradientOfAHugeEmptyResult(t *testing.T) {
	const huge = 1<<31 - 1
	for _, size := range [][2]int{{huge, 0}, {0, huge}} {
		for name, pool := range map[string]func(v *autograd.Variable) *autograd.Variable{
			"avg": func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveAvgPool2d(size[0], size[1]) },
			"max": func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveMaxPool2d(size[0], size[1]) },
		} {
			r := onHost(t)
			g := r.graph()
			x := g.Input(r.tensor([]float64{1, 2, 3, 4}, 1, 2, 2), autograd.RequiresGrad())
			require.NoError(t, pool(x).Sum(nil, false).Backward(), "%s %v", name, size)
			require.Equal(t, []float64{0, 0, 0, 0}, values(t, x.Grad()), "%s %v", name, size)
			g.Release()
		}
	}
}
