package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

type variable = *autograd.Variable

// penalized are functions of an input [2, 4, 6] and a weight [6, 6], whose gradients are differentiated again.
var penalized = map[string]func(x, w variable) variable{
	"matmul":  func(x, w variable) variable { return x.MatMul(w).Tanh() },
	"linear":  func(x, w variable) variable { return x.Linear(w, w.Select(0, 0)).GELU() },
	"softmax": func(x, w variable) variable { return x.MatMul(w).Softmax(-1).Mul(x) },
	"norm":    func(x, w variable) variable { return x.LayerNorm([]int{6}, w.Select(0, 1), nil, 1e-3).MatMul(w) },
	"conv": func(x, w variable) variable {
		return x.Conv1d(w.Narrow(1, 0, 4).Unsqueeze(2), nil, tensor.Conv{}).Sigmoid()
	},
	"attention": func(x, w variable) variable {
		q := x.MatMul(w)
		return autograd.ScaledDotProductAttention(q, x, x.MatMul(w.T()))
	},
	"loss": func(x, w variable) variable {
		return x.MatMul(w).Reshape(8, 6).CrossEntropy(x.Graph().Arange(0, 8, 1, tensor.Int64).RemainderScalar(6)).Mul(x)
	},
	"checkpoint": func(x, w variable) variable {
		return autograd.Checkpoint(func(in []variable) variable { return in[0].MatMul(in[1]).Tanh().MatMul(in[1]) }, x, w)
	},
}

// penalties are the gradients of a penalty on the length of the gradients of f, and these.
func penalties(t *testing.T, r *rig, f func(x, w variable) variable, opts ...autograd.Option) [][]float64 {
	g := r.graph(opts...)
	defer g.Release()
	x := g.Input(r.random(1, tensor.Float32, 2, 4, 6), autograd.RequiresGrad())
	w := g.Input(r.random(2, tensor.Float32, 6, 6), autograd.RequiresGrad())
	grads, err := autograd.Grad([]variable{f(x, w).Sum(nil, false)}, []variable{x, w}, autograd.CreateGraph())
	require.NoError(t, err)
	loss := grads[0].Square().Sum(nil, false).Add(grads[1].Norm(2, nil, false))
	require.NoError(t, loss.Backward())
	var list [][]float64
	for _, d := range []*tensor.Tensor{x.Grad(), w.Grad()} {
		v, err := d.Float64s()
		require.NoError(t, err)
		list = append(list, v)
	}
	return list
}

func TestAutocast_GradientPenaltiesAreThoseOfFloat32(t *testing.T) {
	for dt, share := range map[tensor.DType]float64{tensor.Float16: 0.01, tensor.BFloat16: 0.08} {
		for name, f := range penalized {
			t.Run(dt.String()+" "+name, func(t *testing.T) {
				r := onHost(t)
				want, have := penalties(t, r, f), penalties(t, r, f, amp.Autocast(dt))
				for i := range want {
					size := 0.0
					for _, v := range want[i] {
						size = max(size, v, -v)
					}
					require.InDeltaSlice(t, want[i], have[i], share*size)
				}
			})
		}
	}
}

// A step with a penalty, as PyTorch's recipe has it: gradients of the scaled loss are divided by the scale, and the sum is scaled again.
func TestGradScaler_StepsWithAGradientPenalty(t *testing.T) {
	r := onHost(t)
	train := func(scaler *amp.GradScaler, opts ...autograd.Option) []float64 {
		w := autograd.NewParameter("w", r.random(2, tensor.Float32, 6, 6))
		opt := optim.SGD([]*autograd.Parameter{w}, optim.LR(0.05))
		defer opt.Release()
		defer w.Release()
		x := r.random(1, tensor.Float32, 2, 4, 6)
		before := r.allocated()
		for range 5 {
			func() {
				g := r.graph(opts...)
				defer g.Release()
				loss := penalized["checkpoint"](g.Input(x), g.Param(w)).Square().Mean(nil, false)
				scaled, err := autograd.Grad([]variable{scaler.Scale(loss)}, []variable{g.Param(w)}, autograd.CreateGraph())
				require.NoError(t, err)
				scale, err := scaler.GetScale()
				require.NoError(t, err)
				penalty := scaled[0].DivScalar(scale).Square().Sum(nil, false)
				require.NoError(t, scaler.Backward(loss.Add(penalty)))
			}()
			require.NoError(t, scaler.Step(opt))
			require.NoError(t, scaler.Update())
			opt.ZeroGrad()
			require.LessOrEqual(t, r.allocated(), before+4096, "the leaves, and the scaler's numbers")
		}
		v, err := w.Tensor().Float64s()
		require.NoError(t, err)
		return v
	}
	plain := amp.NewGradScaler(amp.Enabled(false))
	defer plain.Release()
	scaler := amp.NewGradScaler(amp.InitScale(1024))
	defer scaler.Release()
	want := train(plain)
	require.InDeltaSlice(t, want, train(scaler), 1e-4)
	require.InDeltaSlice(t, want, train(scaler, amp.Autocast(tensor.Float16)), 0.02)
}
