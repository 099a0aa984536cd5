package autograd

import "github.com/cistern-ml/cistern/tensor"

// LayerNorm normalises v over its last dimensions, whose sizes are shape: (v-mean)/sqrt(variance + eps), times weight, plus bias,
// which have that shape or are nil. PyTorch's default of eps is 1e-5. Saves v, the weight if v needs a gradient, and mean and
// reciprocal standard deviation of each row.
func (v *Variable) LayerNorm(shape []int, weight, bias *Variable, eps float64) *Variable {
	return layerNorms.apply(rowNorm{shape: shape, eps: eps}, v, weight, bias, func(bias *Variable) *Variable { return bias })
}

// RMSNorm is v/sqrt(mean of squares + eps) over the last dimensions, times weight, which has their shape or is nil. PyTorch's
// default of eps is the machine epsilon of v's type: DefaultEps. Saves v, the weight if v needs a gradient, and a number for
// each row.
func (v *Variable) RMSNorm(shape []int, weight *Variable, eps float64) *Variable {
	return rmsNorms.apply(rowNorm{shape: shape, eps: eps, plain: true}, v, weight, nil, nil)
}

// DefaultEps makes RMSNorm take the machine epsilon of its input's type.
const DefaultEps = -1

var (
	layerNorms = defineNorm("layer_norm", true)
	rmsNorms   = defineNorm("rms_norm", false)
)

// rowNorm is the argument of layer norm and RMS norm.
type rowNorm struct {
	shape []int
	eps   float64
	plain bool // RMS norm
}

func (r rowNorm) forward(n *node, weight, bias *tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
	t := n.tensor(0)
	if !r.plain {
		return tensor.LayerNorm(t, r.shape, weight, bias, r.eps)
	}
	if r.eps == DefaultEps {
		r.eps = tensor.Epsilon(t.DType())
	}
	return tensor.RMSNorm(t, r.shape, weight, r.eps)
}

func (r rowNorm) saved(stashed func(int) *tensor.Tensor) tensor.Moments {
	if r.plain {
		return tensor.Moments{Rstd: stashed(0)}
	}
	return tensor.Moments{Mean: stashed(0), Rstd: stashed(1)}
}

func (r rowNorm) grad(g, t *tensor.Tensor, m tensor.Moments, weight, _, _ *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.LayerNorm(g, t, r.shape, m, weight)
}

func (r rowNorm) sums(g, t *tensor.Tensor, m tensor.Moments) (weight, bias *tensor.Tensor, err error) {
	return gradients.LayerNormSums(g, t, r.shape, m)
}

func (r rowNorm) biasGrad(g *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error) {
	return g.SumTo(shape...)
}

func (r rowNorm) inputNeedsSums() bool { return false }
