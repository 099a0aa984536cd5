package amp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

var recurrentLayers = map[string]func() *nn.RNNLayer{
	"LSTM": func() *nn.RNNLayer { return nn.LSTM(3, 4) }, "GRU": func() *nn.RNNLayer { return nn.GRU(3, 4) },
	"RNN": func() *nn.RNNLayer { return nn.RNN(3, 4) }, "ReLU": func() *nn.RNNLayer { return nn.RNN(3, 4, nn.NonlinearityReLU()) },
	"projection": func() *nn.RNNLayer { return nn.LSTM(3, 4, nn.ProjSize(2)) },
	"deep":       func() *nn.RNNLayer { return nn.LSTM(3, 4, nn.Layers(2), nn.Bidirectional(), nn.BatchFirst()) },
	"no bias":    func() *nn.RNNLayer { return nn.GRU(3, 4, nn.NoRNNBias()) },
}

// The types are those of the layer as one operation, whatever lengths a batch happens to have.
func TestAutocast_OfRecurrentLayers_HasTheTypesOfOneOperationWhateverTheLengths(t *testing.T) {
	r := onHost(t)
	for name, layer := range recurrentLayers {
		l := layer()
		require.NoError(t, l.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)))
		for _, lower := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			for _, lengths := range [][]int{nil, {5, 5}, {5, 4}, {4, 4}} {
				for _, given := range []bool{false, true} {
					what := fmt.Sprintf("%s %s %v, states %v", name, lower, lengths, given)
					shape, batch := []int{5, 2, 3}, 2
					if name == "deep" {
						shape = []int{2, 5, 3}
					}
					g := r.graph(amp.Autocast(lower))
					x := g.Input(r.random(1, tensor.Float32, shape...), autograd.RequiresGrad())
					var h, c *autograd.Variable
					if given {
						rows, states := 1, 4
						switch name {
						case "deep":
							rows = 4
						case "projection":
							states = 2
						}
						h = g.Input(r.random(2, tensor.Float32, rows, batch, states), autograd.RequiresGrad())
						if name == "LSTM" || name == "projection" || name == "deep" {
							c = g.Input(r.random(3, tensor.Float32, rows, batch, 4), autograd.RequiresGrad())
						}
					}
					var out, last, cell *autograd.Variable
					if lengths == nil {
						out, last, cell = l.ForwardState(x, h, c)
					} else {
						out, last, cell = l.ForwardLengths(x, lengths, h, c)
					}
					require.NoError(t, g.Err(), what)
					loss := out.Sum(nil, false).Add(last.Sum(nil, false))
					require.Equal(t, lower, out.DType(), what)
					require.Equal(t, lower, last.DType(), what)
					if cell != nil {
						require.Equal(t, lower, cell.DType(), what)
						loss = loss.Add(cell.Sum(nil, false))
					}
					require.NoError(t, loss.Backward(), what)
					for _, leaf := range []*autograd.Variable{x, h, c} {
						if leaf != nil {
							require.Equal(t, tensor.Float32, leaf.Grad().DType(), what)
						}
					}
					for _, p := range l.Parameters() {
						require.Equal(t, tensor.Float32, p.Grad().DType(), what)
					}
					g.Release()
					l.ZeroGrad()
				}
			}
		}
		l.Release()
	}
}

// With a bias or without: a product within is not lowered, as in PyTorch, where it is of the operations of the widest input.
func TestAutocast_OfBilinear_IsInTheWidestTypeOfItsInputs(t *testing.T) {
	r := onHost(t)
	for _, lower := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		for _, bias := range []bool{false, true} {
			for _, dt := range []tensor.DType{tensor.Float32, lower} {
				g := r.graph(amp.Autocast(lower))
				x, w := g.Input(r.random(1, dt, 2, 3)), g.Input(r.random(2, dt, 4, 3, 3))
				var b *autograd.Variable
				if bias {
					b = g.Input(r.random(3, dt, 4))
				}
				require.Equal(t, dt, autograd.Bilinear(x, x, w, b).DType(), "%s %v", lower, bias)
				require.NoError(t, g.Err())
				g.Release()
			}
		}
	}
}

// Steps in half precision save half as much as steps in float32.
func TestAutocast_OfSequencesOfDifferentLengths_TakesLessMemory(t *testing.T) {
	peak := func(opts ...autograd.Option) int64 {
		r := onSim(t)
		l := nn.LSTM(32, 64)
		require.NoError(t, l.To(r.dev, nn.WithAllocator(r.alloc)))
		defer l.Release()
		x := r.random(1, tensor.Float32, 20, 4, 32)
		before := r.allocated()
		r.alloc.ResetPeakStats()
		g := r.graph(opts...)
		defer g.Release()
		out, _, _ := l.ForwardLengths(g.Input(x), []int{20, 19, 3, 7}, nil, nil)
		require.NoError(t, out.Sum(nil, false).Backward())
		return r.alloc.Stats().AllocatedBytes.All.Peak - before
	}
	wide, half := peak(), peak(amp.Autocast(tensor.BFloat16))
	require.Less(t, half, wide)
}
