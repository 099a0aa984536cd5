package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// recurrentRuns are the operations for which PyTorch's fake tensors need a GPU, so that autocast.json does not have them: on CUDA
// its autocast gives inputs, states and weights of recurrent layers the lower precision (_cudnn_rnn, lstm_cell and gru_cell in
// autocast_mode.cpp). They get an input and a weight, [4, 4].
var recurrentRuns = map[string]func(x, w *autograd.Variable, bias bool) *autograd.Variable{
	"lstm": runLSTM, "lstm_bias": runLSTM, "gru": runGRU, "gru_bias": runGRU,
}

func gateWeights(w *autograd.Variable, gates int, bias bool) autograd.RecurrentWeights {
	parts := make(vars, gates)
	for i := range parts {
		parts[i] = w
	}
	all := autograd.RecurrentWeights{IH: autograd.Cat(parts, 0), HH: autograd.Cat(parts, 0)}
	if bias {
		all.BiasIH, all.BiasHH = all.IH.Select(1, 0), all.HH.Select(1, 0)
	}
	return all
}

func runLSTM(x, w *autograd.Variable, bias bool) *autograd.Variable {
	_, _, c := x.Unsqueeze(0).LSTM(x, x, gateWeights(w, 4, bias), false)
	return c
}

func runGRU(x, w *autograd.Variable, bias bool) *autograd.Variable {
	out, _ := x.Unsqueeze(0).GRU(x, gateWeights(w, 3, bias), false)
	return out
}

func TestAutocast_OfRecurrentLayers_IsInLowerPrecision(t *testing.T) {
	r := onHost(t)
	for op, run := range recurrentRuns {
		class, known := amp.ClassOf(op)
		require.True(t, known)
		require.Equal(t, amp.LowerPrecision, class)
		for _, lower := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			for _, types := range [][2]tensor.DType{{tensor.Float32, tensor.Float32}, {lower, tensor.Float32}, {tensor.Float16, tensor.BFloat16}} {
				g := r.graph(amp.Autocast(lower))
				x := g.Input(r.full(0.5, types[0], 4, 4), autograd.RequiresGrad())
				w := g.Input(r.full(0.25, types[1], 4, 4), autograd.RequiresGrad())
				out := run(x, w, op == "lstm_bias" || op == "gru_bias")
				require.NoError(t, out.Sum(nil, false).Backward())
				require.Equal(t, lower, out.DType(), op)
				require.Equal(t, types[0], x.Grad().DType(), op)
				require.Equal(t, types[1], w.Grad().DType(), op)
				g.Release()
			}
		}
	}
}
