package autograd

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// SelfAttention is ScaledDotProductAttention of queries, keys and values that lie beside each other in v,
// [..., T, (heads+2*groups)*D], as one projection leaves them: heads of queries, then groups heads of keys, then as many of values.
// groups is heads unless heads share keys. A mask broadcasts to [B, heads, T, T], where B is the product of the dimensions
// before T. The result is [..., T, heads*D], ready for the next projection. Nothing is copied on the way in or out, and the
// gradient of v is written as one tensor, where the gradients of parts would be padded and added. It saves v, its result and
// one number for each query and head.
func (v *Variable) SelfAttention(heads, groups int, opts ...AttentionOption) *Variable {
	a := newAttention(opts)
	a.heads, a.groups, a.EnableGQA = heads, groups, true
	return selfAttend.apply(a, a.inputs(v)...)
}

var selfAttend = defineJoint("scaled_dot_product_attention_packed", selfAttendForward, selfAttendGrad)

// parts are the heads of queries, keys and values in t, [B, T, width], as views [B, heads, T, D].
func (a *attention) parts(t *tensor.Tensor) (parts [3]*tensor.Tensor, err error) {
	var w work
	all := a.heads + 2*a.groups
	split := w.do(t.View(t.Dim(0), t.Dim(1), all, t.Dim(2)/all))
	first := 0
	for i, n := range []int{a.heads, a.groups, a.groups} {
		if w.err == nil {
			part := w.do(split.Narrow(2, first, n))
			parts[i], err = part.Transpose(1, 2)
			first += n
		}
	}
	if _, err = w.result(nil, err); err != nil {
		releaseAll(parts[:])
		return [3]*tensor.Tensor{}, err
	}
	return parts, nil
}

func releaseAll(ts []*tensor.Tensor) {
	for _, t := range ts {
		t.Release()
	}
}

// asBatch is t, [..., T, width], as [B, T, width]: a view, unless strides do not allow it.
func (a *attention) asBatch(t *tensor.Tensor) (*tensor.Tensor, error) {
	all := a.heads + 2*a.groups
	if t.NDim() < 2 || a.heads <= 0 || a.groups <= 0 || max(a.heads, a.groups) > math.MaxInt32 || t.Dim(-1)%all != 0 {
		return nil, &tensor.ShapeError{Op: "SelfAttention", Shapes: []tensor.Shape{t.Shape().Clone()},
			Detail: fmt.Sprintf("want [..., T, D times %d+2*%d heads]", a.heads, a.groups)}
	}
	return t.Reshape(t.Shape()[:t.NDim()-2].Len(), t.Dim(-2), t.Dim(-1))
}

// apart is t, [..., T, heads*D], as [B, heads, T, D].
func apart(t *tensor.Tensor, heads int) (*tensor.Tensor, error) {
	var w work
	return w.result(w.do(t.Reshape(t.Shape()[:t.NDim()-2].Len(), t.Dim(-2), heads, t.Dim(-1)/heads)).Transpose(1, 2))
}

func selfAttendForward(n *node) (*tensor.Tensor, error) {
	a, t := n.arg.(*attention), n.tensor(0)
	v, err := a.asBatch(t)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	parts, err := a.parts(v)
	if err != nil {
		return nil, err
	}
	defer releaseAll(parts[:])
	out, err := a.forward(n, parts[0], parts[1], parts[2], 1)
	if err != nil {
		return nil, err
	}
	var w work
	shape := t.Shape().Clone()
	shape[len(shape)-1] = out.Dim(1) * out.Dim(3)
	return w.result(w.do(w.do(out, nil).Transpose(1, 2)).View(shape...))
}

// likeBatch is an empty tensor of v's shape, [B, T, width], whose rows lie in memory in the order of v's: so what made v of rows
// in another order gets its gradient in that order too.
func likeBatch(v *tensor.Tensor) (*tensor.Tensor, error) {
	if v == nil {
		return nil, tensor.ErrReleased
	}
	if s := v.Strides(); s[0] >= s[1] {
		return tensor.Empty(v.Exec(), v.DType(), v.Shape()...)
	}
	t, err := tensor.Empty(v.Exec(), v.DType(), v.Dim(1), v.Dim(0), v.Dim(2))
	if err != nil {
		return nil, err
	}
	return after(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Transpose(0, 1) })
}

// parts is a.parts as a step: the views are released with the other temporaries.
func (w *work) parts(a *attention, t *tensor.Tensor) [3]*tensor.Tensor {
	if t == nil {
		return [3]*tensor.Tensor{}
	}
	parts, err := a.parts(t)
	w.temps = append(w.temps, parts[:]...)
	if err != nil {
		w.fail(err)
	}
	return parts
}

// selfAttendGrad writes the gradients of all parts into one tensor.
func selfAttendGrad(n *node, g *tensor.Tensor) ([]*tensor.Tensor, error) {
	a := n.arg.(*attention)
	use, maskFlows := a.saved(n, 1)
	var w work
	v := w.do(a.asBatch(n.savedInput(0)))
	out, grad := w.do(apart(n.savedOutput(), a.heads)), w.do(apart(g, a.heads))
	in := w.parts(a, v)
	total := w.do(likeBatch(v))
	into := w.parts(a, total)
	var mask *tensor.Tensor
	if maskFlows && w.err == nil {
		mask = w.do(tensor.Empty(g.Exec(), g.DType(), out.Dim(0), a.heads, out.Dim(2), out.Dim(2)))
	}
	if w.err == nil {
		d := training.Attention[*tensor.Tensor]{Q: into[0], K: into[1], V: into[2], Mask: mask}
		if err := gradients.AttentionInto(d, grad, in[0], in[1], in[2], out, n.stashed(0), use); err != nil {
			w.fail(err)
		}
	}
	kept := mask.Retain() // beyond the temporaries
	whole, err := w.result(total.Reshape(n.in[0].Shape()...))
	if err != nil {
		kept.Release()
		return nil, err
	}
	return []*tensor.Tensor{whole, kept}[:len(n.in)], nil
}
