package nn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// severalInputs are the layers that take several variables, which may be one.
var severalInputs = map[string]func() (nn.Layer, func(v [3]*autograd.Variable) *autograd.Variable){
	"attention": func() (nn.Layer, func(v [3]*autograd.Variable) *autograd.Variable) {
		l := nn.MultiheadAttention(4, 2)
		return l, func(v [3]*autograd.Variable) *autograd.Variable { return l.Attend(v[0], v[1], v[2]) }
	},
	"attention with widths": func() (nn.Layer, func(v [3]*autograd.Variable) *autograd.Variable) {
		l := nn.MultiheadAttention(4, 2, nn.KDim(4), nn.VDim(4), nn.BatchFirst())
		return l, func(v [3]*autograd.Variable) *autograd.Variable { return l.Attend(v[0], v[1], v[2]) }
	},
	"cell of a GRU": func() (nn.Layer, func(v [3]*autograd.Variable) *autograd.Variable) {
		c := nn.GRUCell(4, 4)
		return c, func(v [3]*autograd.Variable) *autograd.Variable {
			next, _ := c.Step(v[0].Select(0, 0), v[1].Select(0, 0), nil)
			return next.Add(v[2].Select(0, 0))
		}
	},
	"cell of an LSTM": func() (nn.Layer, func(v [3]*autograd.Variable) *autograd.Variable) {
		c := nn.LSTMCell(4, 4)
		return c, func(v [3]*autograd.Variable) *autograd.Variable {
			if v[1] == v[2] { // one handle for both states
				s := v[1].Select(0, 0)
				next, cell := c.Step(v[0].Select(0, 0), s, s)
				return next.Add(cell)
			}
			next, cell := c.Step(v[0].Select(0, 0), v[1].Select(0, 0), v[2].Select(0, 0))
			return next.Add(cell)
		}
	},
}

// TestLayers_GivenOneVariableTwice: the way that a layer takes for one variable must give what the way for several does. Each pattern
// says which variable stands where.
func TestLayers_GivenOneVariableTwice(t *testing.T) {
	for name, open := range severalInputs {
		for _, pattern := range [][3]int{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}} {
			r := onHost(t)
			m, f := open()
			r.place(m)
			run := func(shared bool) (out []float64, grads [3][]float64, weights [][]float64) {
				g := r.graph()
				defer g.Release()
				var made, in [3]*autograd.Variable
				for i, k := range pattern {
					values := make([]float32, 24)
					for j := range values {
						values[j] = float32((j*7+k*5)%11)/8 - 0.5
					}
					if in[i] = g.Input(r.tensor(values, 3, 2, 4), autograd.RequiresGrad()); shared && made[k] != nil {
						in[i] = made[k]
					}
					made[k] = in[i]
				}
				result := f(in).Keep()
				require.NoError(t, result.Mul(result).Sum(nil, false).Backward(), "%s %v", name, pattern)
				out, err := result.Float64s()
				require.NoError(t, err)
				seen := map[*autograd.Variable]bool{}
				for i, v := range in {
					if seen[v] || v.Grad() == nil {
						continue
					}
					seen[v] = true
					grad, err := v.Grad().Float64s()
					require.NoError(t, err)
					at := &grads[pattern[i]]
					if *at == nil {
						*at = make([]float64, len(grad))
					}
					for j, x := range grad {
						(*at)[j] += x
					}
				}
				for _, p := range m.Parameters() {
					grad, err := p.Grad().Float64s()
					require.NoError(t, err)
					weights = append(weights, grad)
					p.ZeroGrad()
				}
				return out, grads, weights
			}
			what := fmt.Sprint(name, pattern)
			out, grads, weights := run(true)
			wantOut, wantGrads, wantWeights := run(false)
			require.InDeltaSlice(t, wantOut, out, 1e-5, what)
			for i := range grads {
				require.InDeltaSlice(t, orEmpty(wantGrads[i]), orEmpty(grads[i]), 1e-5, what)
			}
			require.Len(t, weights, len(wantWeights))
			for i := range weights {
				require.InDeltaSlice(t, wantWeights[i], weights[i], 1e-5, what)
			}
		}
	}
}

func orEmpty(x []float64) []float64 { return append([]float64{}, x...) }
