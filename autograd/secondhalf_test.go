package autograd_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// familyCases are those of gradientCases whose second derivatives are tried in other types and on the emulated GPU: some of each family.
var familyCases = []string{"add broadcast", "mul broadcast", "div", "where", "sum dims", "mean", "var", "std", "amax dims", "matmul batch matrix", "linear_bias", "linear_bias gelu",
	"conv1d", "conv2d_bias depthwise", "conv_transpose1d", "max_pool2d", "avg_pool2d", "adaptive_max_pool1d", "upsample_bilinear2d", "softmax", "log_softmax", "cross_entropy", "nll_loss",
	"mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "scaled_dot_product_attention", "scaled_dot_product_attention_packed", "permute", "cat", "index_select",
	"embedding", "embedding_bag", "dropout", "lstm_bias", "gru_bias", "checkpoint", "layer_norm_affine", "layer_norm", "rms_norm", "group_norm", "batch_norm", "norm 2", "norm 3", "logsumexp", "prod", "cumsum", "cumprod",
	"sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "softplus", "elu", "exp", "log", "sqrt", "rsqrt", "pow", "atan2", "erf", "sin"}

// secondOf are the derivatives of a weighted sum of the first gradients of a weighted sum, in the type of the inputs.
func secondOf(t *testing.T, r *rig, c gradientCase, inputs []*tensor.Tensor) (first, again [][]float64) {
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(7)))
	defer g.Release()
	var in, leaf vars
	for _, x := range inputs {
		if !x.DType().IsFloat() {
			in = append(in, g.Input(x))
			continue
		}
		in = append(in, g.Input(x, autograd.RequiresGrad()))
		leaf = append(leaf, in[len(in)-1])
	}
	grads, err := autograd.Grad(vars{wavy(g, vars{c.f(in)})}, leaf, autograd.CreateGraph())
	require.NoError(t, err)
	var some vars
	for _, d := range grads {
		first = append(first, nil)
		if d != nil {
			first[len(first)-1] = valuesOf(t, d)
			require.Equal(t, inputs[slices.Index(leaf, leaf[len(first)-1])].DType().IsFloat(), true)
			some = append(some, d)
		}
	}
	total := wavy(g, some)
	if total.RequiresGrad() {
		require.NoError(t, total.Backward())
	}
	for _, v := range leaf {
		again = append(again, make([]float64, v.Len()))
		if d := v.Grad(); d != nil {
			require.Equal(t, v.DType(), d.DType())
			again[len(again)-1] = values(t, d)
		}
	}
	return first, again
}

// closeTo compares with a share of the largest element.
func closeTo(t *testing.T, what string, want, have [][]float64, share float64) {
	t.Helper()
	for i := range want {
		size := 0.1 // of gradients that are sums of some that cancel
		for _, x := range want[i] {
			size = max(size, math.Abs(x))
		}
		require.Len(t, have[i], len(want[i]))
		for j := range want[i] {
			require.InDelta(t, want[i][j], have[i][j], share*size, "%s of input %d, element %d of %v, have %v", what, i, j, want[i], have[i])
		}
	}
}

// families runs f for the cases of familyCases, each of which must be there.
func families(t *testing.T, f func(t *testing.T, c gradientCase)) {
	for _, name := range familyCases {
		k := slices.IndexFunc(gradientCases, func(c gradientCase) bool { return strings.TrimSpace(c.op+" "+c.note) == name })
		if k < 0 {
			k = slices.IndexFunc(gradientCases, func(c gradientCase) bool { return c.op == name })
		}
		require.GreaterOrEqual(t, k, 0, name)
		t.Run(name, func(t *testing.T) { f(t, gradientCases[k]) })
	}
}

func TestSecondDerivatives_InHalfPrecisionAreThoseOfFloat64(t *testing.T) {
	for dt, share := range map[tensor.DType]float64{tensor.Float32: 1e-5, tensor.Float16: 0.02, tensor.BFloat16: 0.12} {
		t.Run(dt.String(), func(t *testing.T) {
			families(t, func(t *testing.T, c gradientCase) {
				r := onHost(t)
				narrow := c.typed(r, dt, 0)
				var exact []*tensor.Tensor
				for _, x := range narrow {
					if x.DType().IsFloat() {
						x = keep(t)(x.To(tensor.Float64))
					}
					exact = append(exact, x)
				}
				first, again := secondOf(t, r, c, exact)
				haveFirst, haveAgain := secondOf(t, r, c, narrow)
				closeTo(t, "gradient", first, haveFirst, share)
				closeTo(t, "second derivative", again, haveAgain, share)
			})
		})
	}
}

func TestGPU_SecondDerivativesAreThoseOfTheHost(t *testing.T) {
	secondsOn(t, newRig(t, cudatest.GPU(t)), tensor.Float32, tensor.Float16, tensor.BFloat16)
}

func TestEmulatedGPU_SecondDerivativesAreThoseOfTheHost(t *testing.T) {
	if testing.Short() {
		t.Skip("the emulated GPU is slow")
	}
	dev, _ := emulatedtest.New(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	secondsOn(t, &rig{t: t, dev: dev, alloc: alloc, exec: e}, tensor.Float32, tensor.Float16)
}

// secondsOn compares the cases of familyCases on a device with the host.
func secondsOn(t *testing.T, gpu *rig, types ...tensor.DType) {
	shares := map[tensor.DType]float64{tensor.Float32: 1e-4, tensor.Float16: 0.02, tensor.BFloat16: 0.12}
	for _, dt := range types {
		families(t, func(t *testing.T, c gradientCase) {
			if c.op == "dropout" {
				t.Skip("each device draws numbers of its own")
			}
			r := onHost(t)
			inputs := c.typed(r, dt, 0)
			var there []*tensor.Tensor
			for _, x := range inputs {
				there = append(there, keep(t)(x.ToDevice(gpu.exec)))
			}
			first, again := secondOf(t, r, c, inputs)
			haveFirst, haveAgain := secondOf(t, gpu, c, there)
			closeTo(t, "gradient", first, haveFirst, shares[dt])
			closeTo(t, "second derivative", again, haveAgain, shares[dt])
		})
	}
}
