package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// SelfAttention is ScaledDotProductAttention of queries, keys and values that lie beside each other in v, [..., T, (heads+2*groups)*D],
// as one projection leaves them: heads of queries, then groups heads of keys, then as many of values. groups is heads
// unless heads share keys. A mask broadcasts to [B, heads, T, T], where B is the product of the dimensions before T. The result is [..., T, heads*D], ready for the next projection. Nothing is copied on the way in
// or out, and the gradient of v is written as one tensor, where the gradients of parts would be padded and added. It saves v,
// its result and one number for each query and head.
func (v *Variable) SelfAttention(heads, groups int, opts ...AttentionOption) *Variable {
	a := newAttention(opts)
	a.heads, a.groups, a.EnableGQA = heads, groups, true
	return selfAttend.apply(a, a.inputs(v)...)
}

var selfAttend = defineJoint("scaled_dot_product_attention_packed", selfAttendForward, selfAttendGrad)

// parts are the heads of queries, keys and values in t, as views [B, heads, T, D].
func (a *attention) parts(t *tensor.Tensor) (parts [3]*tensor.Tensor, err error) {
	all := a.heads + 2*a.groups
	if t.NDim() < 2 || a.heads <= 0 || a.groups <= 0 || t.Dim(-1)%all != 0 {
		return parts, &tensor.ShapeError{Op: "SelfAttention", Shapes: []tensor.Shape{t.Shape().Clone()},
			Detail: fmt.Sprintf("want [..., T, D times %d+2*%d heads]", a.heads, a.groups)}
	}
	var w work
	size, rows := t.Dim(-1)/all, t.Dim(-2)
	split := w.do(t.View(t.Shape()[:t.NDim()-2].Len(), rows, all, size))
	first := 0
	for i, n := range []int{a.heads, a.groups, a.groups} {
		if w.err == nil {
			part := w.do(split.Narrow(2, first, n))
			parts[i], err = part.Transpose(1, 2)
			first += n
		}
	}
	_, err = w.result(nil, err)
	if err != nil {
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

// joined is the result [B, heads, T, D] as [..., T, heads*D], the leading dimensions being those of v.
func joined(out, v *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	shape := v.Shape().Clone()
	shape[len(shape)-1] = out.Dim(1) * out.Dim(3)
	return w.result(w.do(out.Transpose(1, 2)).View(shape...))
}

// apart is joined undone.
func apart(t *tensor.Tensor, heads int) (*tensor.Tensor, error) {
	var w work
	rows, size := t.Dim(-2), t.Dim(-1)/heads
	return w.result(w.do(t.Reshape(t.Shape()[:t.NDim()-2].Len(), rows, heads, size)).Transpose(1, 2))
}

func selfAttendForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(*attention)
	v, err := rowsOf(n.tensor(0))
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
	return after(out, func(out *tensor.Tensor) (*tensor.Tensor, error) { return joined(out, v) })
}

// rowsOf is a handle on t, or a copy of t if its strides do not let the parts be views.
func rowsOf(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Contiguous() }

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
	v := w.do(rowsOf(n.savedInput(0)))
	out, grad := w.do(apart(n.savedOutput(), a.heads)), w.do(apart(g, a.heads))
	in := w.parts(a, v)
	total := w.do(tensor.Empty(g.Exec(), g.DType(), n.in[0].Shape()...))
	into := w.parts(a, total)
	var mask *tensor.Tensor
	if maskFlows && w.err == nil {
		mask = w.do(tensor.Empty(g.Exec(), g.DType(), out.Dim(0), a.heads, out.Dim(2), out.Dim(2)))
	}
	if w.err == nil {
		d := tensor.AttentionGrads{Q: into[0], K: into[1], V: into[2], Mask: mask}
		if err := tensor.AttentionGradInto(d, grad, in[0], in[1], in[2], out, n.stashed(0), use); err != nil {
			w.fail(err)
		}
	}
	if w.err != nil {
		_, err := w.result(nil, nil)
		return nil, err
	}
	grads := []*tensor.Tensor{total.Retain(), nil}[:len(n.in)]
	if mask != nil {
		grads[1] = mask.Retain()
	}
	_, err := w.result(nil, nil)
	return grads, err
}
