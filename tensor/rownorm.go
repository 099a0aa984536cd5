package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// rowNorm is the part that layer norm, RMS norm and group norm share: rows of a tensor seen as [N, C, L] in groups of channels.
type rowNorm struct {
	name   string
	shape  [3]int
	groups int
	affine Shape // of weight and bias
	as     DType // of the result; 0: that of the input
}

func (r *rowNorm) rows() int { return r.shape[0] * r.groups }

// forward computes the result and the moments of its rows, without a mean if plain.
func (r *rowNorm) forward(t, weight, bias *Tensor, eps float64, plain bool) (*Tensor, Moments, error) {
	if err := checkAffine(r.name, t, r.affine, weight, bias); err != nil {
		return nil, Moments{}, err
	}
	n := normalisation{name: r.name}
	n.begin(op.RowNorm, t, r.shape, r.groups)
	n.call.call.F[0] = eps
	n.in(t)
	n.affine(weight, bias)
	as := t.dtype
	if r.as != 0 {
		as = r.as
	}
	out := n.like(as, t)
	m := Moments{Eps: eps}
	results := []*Tensor{out}
	if plain {
		n.flag(op.NormRMS)
	} else {
		m.Mean = n.stats(r.rows())
		results = append(results, m.Mean)
	}
	m.Rstd = n.stats(r.rows())
	if err := n.run(append(results, m.Rstd)...); err != nil {
		return nil, Moments{}, err
	}
	return out, m, nil
}

// backward computes the gradient of the input.
func (r *rowNorm) backward(grad, t *Tensor, m Moments, weight *Tensor) (*Tensor, error) {
	return r.backwardInto(nil, grad, t, m, weight)
}

// backwardInto adds the gradient of the input to a tensor of its shape, in float32 and contiguous, or makes one if that is nil.
func (r *rowNorm) backwardInto(into, grad, t *Tensor, m Moments, weight *Tensor) (*Tensor, error) {
	if err := r.checkGrad(grad, t, &m); err != nil {
		return nil, err
	}
	if err := checkAffine(r.name, t, r.affine, weight, nil); err != nil {
		return nil, err
	}
	n := normalisation{name: r.name}
	n.begin(op.RowNormGrad, t, r.shape, r.groups)
	n.in(grad)
	n.in(t)
	n.moments(&m)
	n.affine(weight, nil)
	if into != nil {
		n.call.call.I[2] = 1
		n.call.out(into, n.at(into))
		into.storage.changed()
		return into, n.run()
	}
	out := n.like(t.dtype, t)
	if err := n.run(out); err != nil {
		return nil, err
	}
	return out, nil
}

func (r *rowNorm) checkGrad(grad, t *Tensor, m *Moments) error {
	grads := []*Tensor{grad, t}
	if grad != nil && t.dtype == Float32 && (grad.dtype == Float16 || grad.dtype == BFloat16) { // of a result that was rounded; see LayerNormForward
		grads = grads[1:]
		if err := together(r.name, grad, t); err != nil {
			return err
		}
	}
	if err := sameFloat(r.name, grads...); err != nil {
		return err
	}
	if !grad.Shape().Equal(t.Shape()) {
		return shapeErr(r.name, []Shape{grad.Shape(), t.Shape()}, "shapes differ")
	}
	return checkMoments(r.name, t, m, r.rows(), false)
}

// sums computes the gradients of weight and bias, in the type of moments.
func (r *rowNorm) sums(grad, t *Tensor, m Moments) (weight, bias *Tensor, err error) {
	if err := r.checkGrad(grad, t, &m); err != nil {
		return nil, nil, err
	}
	return normSums(r.name, grad, t, &m, r.shape, r.groups, r.affine)
}

// normSums computes the sums of gradients times normalised inputs, and of gradients, over channels.
func normSums(name string, grad, t *Tensor, m *Moments, shape [3]int, groups int, as Shape) (product, sum *Tensor, err error) {
	n := normalisation{name: name}
	n.begin(op.NormSums, t, shape, groups)
	n.in(grad)
	n.in(t)
	n.moments(m)
	product, sum = n.stats(shape[1]), n.stats(shape[1])
	if err := n.run(product, sum); err != nil {
		return nil, nil, err
	}
	l, err := newLayout(name, as)
	if err != nil { // the shape is that of the weight, which exists
		product.Release()
		sum.Release()
		return nil, nil, err
	}
	product.layout, sum.layout = l, l
	return product, sum, nil
}

// layerRows are the rows of t along its last dimensions, of the given shape.
func layerRows(name string, t *Tensor, shape []int) (*rowNorm, error) {
	if err := sameFloat(name, t); err != nil {
		return nil, err
	}
	lead := t.NDim() - len(shape)
	if len(shape) == 0 || lead < 0 || !Shape(shape).Equal(t.Shape()[lead:]) {
		return nil, shapeErr(name, []Shape{t.Shape()}, "the last dimensions must be %v, over which it normalises", Shape(shape))
	}
	return &rowNorm{name: name, shape: [3]int{t.Shape()[:lead].Len(), Shape(shape).Len(), 1}, groups: 1, affine: shape}, nil
}

// LayerNorm normalises t over its last dimensions, whose sizes are shape: (t-mean)/sqrt(variance + eps) of the biased variance, times
// weight, plus bias, which have that shape or are nil. PyTorch's default of eps is 1e-5. It returns the moments as well, one of
// each kind for each row: they are the caller's to release. Floating-point types; weight and bias of half-precision tensors
// may be float32.
func LayerNorm(t *Tensor, shape []int, weight, bias *Tensor, eps float64) (*Tensor, Moments, error) {
	r, err := layerRows("LayerNorm", t, shape)
	if err != nil {
		return nil, Moments{}, err
	}
	return r.forward(t, weight, bias, eps, false)
}

// LayerNormForward is tensor.LayerNorm, or RMSNorm if plain is set, with a result in half precision, of a float32 tensor: rounded once.
func (gradients) LayerNormForward(dt DType, t *Tensor, shape []int, weight, bias *Tensor, eps float64, plain bool) (*Tensor, Moments, error) {
	const name = "LayerNormForward"
	r, err := layerRows(name, t, shape)
	if err != nil {
		return nil, Moments{}, err
	}
	if t.dtype != Float32 || dt != Float16 && dt != BFloat16 {
		return nil, Moments{}, dtypeErr(name, "makes half precision of float32", t.dtype)
	}
	r.as = dt
	return r.forward(t, weight, bias, eps, plain)
}

// RMSNorm is t/sqrt(mean of squares + eps) over the last dimensions, times weight, as LayerNorm without a mean. PyTorch's
// default of eps is the machine epsilon of t's type: Epsilon. The moments have no Mean.
func RMSNorm(t *Tensor, shape []int, weight *Tensor, eps float64) (*Tensor, Moments, error) {
	r, err := layerRows("RMSNorm", t, shape)
	if err != nil {
		return nil, Moments{}, err
	}
	return r.forward(t, weight, nil, eps, true)
}

// LayerNorm is the gradient of tensor.LayerNorm, or of RMSNorm if m has no Mean, with respect to t, for the gradient grad of the
// result. weight is nil if there was none.
func (gradients) LayerNorm(grad, t *Tensor, shape []int, m Moments, weight *Tensor) (*Tensor, error) {
	r, err := layerRows("LayerNormGrad", t, shape)
	if err != nil {
		return nil, err
	}
	return r.backward(grad, t, m, weight)
}

// LayerNormAdd is LayerNorm whose result is added to into, which is of t's shape, in float32 and contiguous.
func (gradients) LayerNormAdd(into, grad, t *Tensor, shape []int, m Moments, weight *Tensor) error {
	const name = "LayerNormGradAdd"
	r, err := layerRows(name, t, shape)
	if err != nil {
		return err
	}
	if err := sameFloat(name, into, t); err != nil {
		return err
	}
	if into.dtype != Float32 {
		return dtypeErr(name, "adds to float32", into.dtype)
	}
	if !into.Shape().Equal(t.Shape()) || !into.IsContiguous() {
		return shapeErr(name, []Shape{into.Shape(), t.Shape()}, "adds to a contiguous float32 tensor of the input's shape")
	}
	_, err = r.backwardInto(into, grad, t, m, weight)
	return err
}

// LayerNormSums are the gradients of LayerNorm, or of RMSNorm, with respect to weight and bias, in the type of the moments.
func (gradients) LayerNormSums(grad, t *Tensor, shape []int, m Moments) (weight, bias *Tensor, err error) {
	r, err := layerRows("LayerNormSums", t, shape)
	if err != nil {
		return nil, nil, err
	}
	return r.sums(grad, t, m)
}

// groupRows are the rows of t, [N, C, ...], in groups of channels.
func groupRows(name string, t *Tensor, groups int) (*rowNorm, error) {
	shape, err := channels(name, t)
	if err != nil {
		return nil, err
	}
	if groups < 1 || shape[1]%groups != 0 {
		return nil, shapeErr(name, []Shape{t.Shape()}, "%d channels are not %d equal groups", shape[1], groups)
	}
	return &rowNorm{name: name, shape: shape, groups: groups, affine: Shape{shape[1]}}, nil
}

// channels is the shape of t, [N, C, ...], as [N, C, L].
func channels(name string, t *Tensor) (shape [3]int, err error) {
	if err := sameFloat(name, t); err != nil {
		return shape, err
	}
	if t.NDim() < 2 {
		return shape, shapeErr(name, []Shape{t.Shape()}, "needs [N, C, ...]")
	}
	return [3]int{t.Dim(0), t.Dim(1), t.Shape()[2:].Len()}, nil
}

// GroupNorm normalises t, [N, C, ...], over each sample's groups of C/groups channels, and multiplies by weight and adds bias
// of each channel, which are [C] or nil. PyTorch's default of eps is 1e-5. Moments and types are as for LayerNorm.
func GroupNorm(t *Tensor, groups int, weight, bias *Tensor, eps float64) (*Tensor, Moments, error) {
	r, err := groupRows("GroupNorm", t, groups)
	if err != nil {
		return nil, Moments{}, err
	}
	return r.forward(t, weight, bias, eps, false)
}

// GroupNorm is the gradient of tensor.GroupNorm with respect to t.
func (gradients) GroupNorm(grad, t *Tensor, groups int, m Moments, weight *Tensor) (*Tensor, error) {
	r, err := groupRows("GroupNormGrad", t, groups)
	if err != nil {
		return nil, err
	}
	return r.backward(grad, t, m, weight)
}

// GroupNormSums are the gradients of GroupNorm with respect to weight and bias, [C] each, in the type of the moments.
func (gradients) GroupNormSums(grad, t *Tensor, groups int, m Moments) (weight, bias *Tensor, err error) {
	r, err := groupRows("GroupNormSums", t, groups)
	if err != nil {
		return nil, nil, err
	}
	return r.sums(grad, t, m)
}

// Epsilon is the distance from 1 to the next number of a floating-point type (torch.finfo(dt).eps), 0 for other types.
func Epsilon(dt DType) float64 {
	switch dt {
	case Float64:
		return 0x1p-52
	case Float32:
		return 0x1p-23
	case Float16:
		return 0x1p-10
	case BFloat16:
		return 0x1p-7
	}
	return 0
}
