package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// A sequence of a batch of several lengths is what it is alone: its output, last states and gradients. What is behind it reaches nothing.
func TestForwardLengths_IsEachSequenceAlone(t *testing.T) {
	r := onHost(t)
	const steps, in, units = 6, 3, 4
	for _, lengths := range [][]int{{2, 5, 2, 1}, {5, 3, 1, 1}, {4, 4, 4, 4}, {1, 2, 3, 6}} {
		batch := len(lengths)
		for _, l := range []*nn.RNNLayer{
			nn.LSTM(in, units, nn.Bidirectional(), nn.Layers(2)), nn.GRU(in, units, nn.Bidirectional(), nn.Layers(2)), nn.LSTM(in, units, nn.NoRNNBias()),
		} {
			require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc), nn.Seed(3), nn.DType(tensor.Float64)))
			k := len(l.Parameters()) / 4
			if k == 0 {
				k = 1
			}
			lstm := l.String()[0] == 'L'
			gen := tensor.NewGenerator(7)
			x, err := tensor.RandN(r.exec, gen, tensor.Float64, steps, batch, in)
			require.NoError(t, err)
			h, err := tensor.RandN(r.exec, gen, tensor.Float64, k, batch, units)
			require.NoError(t, err)
			g := r.graph()
			whole, state := g.Input(x), g.Input(h)
			var alone, gradients [][]float64
			wants := map[*autograd.Parameter][]float64{}
			results := func(v, h *autograd.Variable, lengths []int) [][]float64 {
				c := h
				if !lstm {
					c = nil
				}
				out, last, cell := l.ForwardLengths(v, lengths, h, c)
				loss := out.Square().Sum(nil, false).Add(last.Sum(nil, false))
				all := []*autograd.Variable{out, last}
				if lstm {
					loss, all = loss.Add(cell.Square().Sum(nil, false)), append(all, cell)
				}
				var list [][]float64
				for _, v := range all {
					xs, err := v.Float64s()
					require.NoError(t, err)
					list = append(list, xs)
				}
				require.NoError(t, loss.Backward())
				xs, err := v.Grad().Float64s()
				require.NoError(t, err)
				return append(list, xs)
			}
			leaf := func(v *autograd.Variable) *autograd.Variable {
				lent, err := v.Tensor()
				require.NoError(t, err)
				c, err := lent.Contiguous()
				require.NoError(t, err)
				defer c.Release()
				return g.Input(c, autograd.RequiresGrad())
			}
			for b, n := range lengths {
				got := results(leaf(whole.Narrow(0, 0, n).Narrow(1, b, 1)), leaf(state.Narrow(1, b, 1)), []int{n})
				alone, gradients = append(alone, got[0]), append(gradients, got[len(got)-1])
			}
			for _, p := range l.Parameters() {
				wants[p], err = p.Grad().Float64s()
				require.NoError(t, err)
			}
			l.ZeroGrad()
			holes := make([]bool, steps*batch)
			for i := range holes {
				holes[i] = i/batch >= lengths[i%batch]
			}
			mask, err := tensor.FromSlice(r.exec, holes, steps, batch, 1)
			require.NoError(t, err)
			got := results(leaf(whole.MaskedFill(g.Input(mask), math.NaN())), leaf(state), lengths)
			width := len(got[0]) / steps / batch
			for i, hole := range holes {
				s, b := i/batch, i%batch
				wantOut, wantGrad := make([]float64, width), make([]float64, in)
				if !hole {
					wantOut, wantGrad = alone[b][s*width:(s+1)*width], gradients[b][s*in:(s+1)*in]
				}
				require.InDeltaSlice(t, wantOut, got[0][i*width:(i+1)*width], 1e-12, "%s %v", l, lengths)
				require.InDeltaSlice(t, wantGrad, got[len(got)-1][i*in:(i+1)*in], 1e-12, "%s %v", l, lengths)
			}
			for p, want := range wants {
				have, err := p.Grad().Float64s()
				require.NoError(t, err)
				require.InDeltaSlice(t, want, have, 1e-11, "%s %v: %s", l, lengths, p.Name())
			}
			require.NoError(t, g.Err())
			g.Release()
			l.Release()
			for _, x := range []*tensor.Tensor{x, h, mask} {
				x.Release()
			}
		}
	}
}
