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

// LayerNormFor is LayerNorm whose result is read by the operation op alone, as "linear": if the graph's caster would convert it for that to half precision, it is
// written so at once, and the gradient is read so; without that it is LayerNorm. The numbers are the same.
func (v *Variable) LayerNormFor(op string, shape []int, weight, bias *Variable, eps float64) *Variable {
	as := v.Graph().lowered(op)
	if weight == nil && bias != nil { // which is another operation
		as = 0
	}
	return layerNorms.apply(rowNorm{shape: shape, eps: eps, as: as}, v, weight, bias, func(bias *Variable) *Variable { return bias })
}

// RMSNormFor is RMSNorm, as LayerNormFor is LayerNorm.
func (v *Variable) RMSNormFor(op string, shape []int, weight *Variable, eps float64) *Variable {
	return rmsNorms.apply(rowNorm{shape: shape, eps: eps, plain: true, as: v.Graph().lowered(op)}, v, weight, nil, nil)
}

// lowered is the half precision to which the caster converts the inputs of an operation, 0 for none.
func (g *Graph) lowered(op string) tensor.DType {
	if g == nil || g.casting {
		return 0
	}
	if l, ok := g.caster.(Lowerer); ok {
		return l.Lowers(g, op)
	}
	return 0
}

var (
	layerNorms = defineNorm("layer_norm", true).takeAnyGrad()
	rmsNorms   = defineNorm("rms_norm", false).takeAnyGrad()
)

// rowNorm is the argument of layer norm and RMS norm.
type rowNorm struct {
	shape []int
	eps   float64
	plain bool         // RMS norm
	as    tensor.DType // half precision that the result shall have, 0 for the input's type
}

func (r rowNorm) forward(n *node, weight, bias *tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
	t := n.tensor(0)
	if r.as != 0 && t.DType() == tensor.Float32 {
		if r.eps == DefaultEps {
			r.eps = tensor.Epsilon(t.DType())
		}
		return gradients.LayerNormForward(r.as, t, r.shape, weight, bias, r.eps, r.plain)
	}
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

// gradAdded adds the gradient to into, and reports whether it can.
func (r rowNorm) gradAdded(into, g, t *tensor.Tensor, m tensor.Moments, weight *tensor.Tensor) (bool, error) {
	if into.DType() != tensor.Float32 || t.DType() != tensor.Float32 {
		return false, nil
	}
	return true, gradients.LayerNormAdd(into, g, t, r.shape, m, weight)
}

func (r rowNorm) sums(g, t *tensor.Tensor, m tensor.Moments) (weight, bias *tensor.Tensor, err error) {
	return gradients.LayerNormSums(g, t, r.shape, m)
}

func (r rowNorm) biasGrad(g *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error) {
	return g.SumTo(shape...)
}

func (r rowNorm) inputNeedsSums() bool { return false }
