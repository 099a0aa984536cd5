package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// A mask of -1e9 that is written for float32 must not become an infinity in float16, of which softmax makes NaN.
func TestNumbersBeyondFloat16_AreErrorsOfTheGraph(t *testing.T) {
	for name, f := range map[string]func(g *autograd.Graph, x, mask, at variable, v float64) variable{
		"MaskedFill":   func(_ *autograd.Graph, x, mask, _ variable, v float64) variable { return x.MaskedFill(mask, v) },
		"IndexFill":    func(_ *autograd.Graph, x, _, at variable, v float64) variable { return x.IndexFill(0, at, v) },
		"ScatterValue": func(_ *autograd.Graph, x, _, at variable, v float64) variable { return x.ScatterValue(0, at, v) },
		"WhereScalar": func(_ *autograd.Graph, x, mask, _ variable, v float64) variable {
			return autograd.WhereScalar(mask, x, v)
		},
		"RWhereScalar": func(_ *autograd.Graph, x, mask, _ variable, v float64) variable {
			return autograd.RWhereScalar(mask, v, x)
		},
		"Clamp": func(_ *autograd.Graph, x, _, _ variable, v float64) variable { return x.Clamp(v, math.Inf(1)) },
		"Pad": func(_ *autograd.Graph, x, _, _ variable, v float64) variable {
			return x.Pad([]int{1, 0}, tensor.PadConstant, v)
		},
		"FullLike": func(_ *autograd.Graph, x, _, _ variable, v float64) variable { return x.FullLike(v) },
		"Full":     func(g *autograd.Graph, _, _, _ variable, v float64) variable { return g.Full(v, tensor.Float16, 2) },
		"Scalar":   func(g *autograd.Graph, _, _, _ variable, v float64) variable { return g.Scalar(v, tensor.Float16) },
		"MaskedFillInPlace": func(_ *autograd.Graph, x, mask, _ variable, v float64) variable {
			return x.MulScalar(1).MaskedFillInPlace(mask, v)
		},
		"ClampInPlace": func(_ *autograd.Graph, x, _, _ variable, v float64) variable {
			return x.MulScalar(1).ClampInPlace(v, math.Inf(1))
		},
	} {
		for _, v := range []float64{-1e9, -65504, math.Inf(-1)} {
			g := onHost(t).graph()
			defer g.Release()
			half, err := tensor.Ones(g.Exec(), tensor.Float16, 2)
			require.NoError(t, err)
			x := g.Input(half, autograd.RequiresGrad())
			half.Release()
			f(g, x, g.Zeros(tensor.Bool, 2), g.Zeros(tensor.Int64, 1), v)
			if v != -1e9 {
				require.NoError(t, g.Err(), "%s %v", name, v)
				continue
			}
			var bad *tensor.ValueError
			require.ErrorAs(t, g.Err(), &bad, name)
			require.ErrorContains(t, g.Err(), "the largest number of float16 is 65504", name)
		}
	}
}
