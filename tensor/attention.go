package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Attention says how queries attend to keys: the arguments of torch.nn.functional.scaled_dot_product_attention. The zero
// Attention is PyTorch's default.
type Attention struct {
	// Mask broadcasts to [..., H, T, S]. Of type bool it is true where a query sees a key; of a floating-point type it is added
	// to the scores, and -infinity hides a key.
	Mask *Tensor
	// DropoutP is the probability with which a weight becomes 0, and the others are divided by 1-DropoutP.
	DropoutP float64
	// IsCausal lets query t see the keys 0..t only, also where there are more keys than queries. Then there is no Mask.
	IsCausal bool
	// IsCausalLowerRight lets the last query see all keys, and each one before it a key less: query t of T sees the keys 0..S-T+t of S.
	// So queries that come after keys in a cache see these and not each other's future (PyTorch's causal_lower_right). It takes T+S
	// bytes for as long as the call runs, and none where T is S or 1. Queries that see no key, the first T-S, give 0. Then there is no Mask, and no
	// IsCausal.
	IsCausalLowerRight bool
	// Scale is what products of queries and keys are multiplied by; 0 stands for 1/sqrt(D).
	Scale float64
	// EnableGQA lets several heads of queries share one of keys: H may be a multiple of the number of heads of k and v.
	EnableGQA bool
	// Random is where the random numbers of dropout begin: AttentionBlocks many, taken with Generator.Reserve. The gradient
	// needs the same ones.
	Random GeneratorState
}

// AttentionBlocks is how many blocks of random numbers dropout uses for these operands: one for each four keys of each query.
func AttentionBlocks(q, k, v *Tensor, a Attention) (uint64, error) {
	const name = "AttentionBlocks"
	if err := sameFloat(name, q, k, v); err != nil {
		return 0, err
	}
	p := &attending{Attention: a, shapes: shapesOf([]*Tensor{q, k, v})}
	if err := p.check(name, q, k, v); err != nil {
		return 0, err
	}
	return uint64(p.batches*p.heads*p.queries) * (uint64(p.keys+3) / 4), nil
}

// ScaledDotProductAttention is softmax(q @ kᵀ * scale + mask) @ v for q [..., H, T, D], k [..., H, S, D] and v [..., H, S, E], of
// one floating-point type; it never holds the matrix of scores. Dimensions before the last two broadcast. A query that sees
// no key gives 0, as in PyTorch from 2.5 on. With four dimensions or more the result [..., H, T, E] lies in memory as
// [..., T, H, E], so that Transpose and Reshape to [..., T, H*E] move nothing. It runs under q's Exec. The mask is the only
// operand that may be of another floating-point type.
func ScaledDotProductAttention(q, k, v *Tensor, a Attention) (*Tensor, error) {
	out, lse, err := attentionForward("ScaledDotProductAttention", q, k, v, a)
	if err != nil {
		return nil, err
	}
	lse.Release()
	return out, nil
}

// AttentionForward is ScaledDotProductAttention, and what its gradient needs besides: lse, the logarithm of the sum of each row's
// exponentials, float32 (float64 for operands of that type), of as many elements as the result has rows.
func (gradients) AttentionForward(q, k, v *Tensor, a Attention) (out, lse *Tensor, err error) {
	return attentionForward("AttentionForward", q, k, v, a)
}

func attentionForward(name string, q, k, v *Tensor, a Attention) (out, lse *Tensor, err error) {
	p, err := newAttending(name, q, k, v, a)
	if err != nil {
		return nil, nil, err
	}
	defer p.release()
	if out, err = p.empty(name, p.width); err != nil {
		return nil, nil, err
	}
	if lse, err = p.emptyLSE(name); err == nil && out.Len()+lse.Len() > 0 {
		c := p.begin(op.Attention)
		result, _ := p.four(out) // made above
		c.out(out, &result)
		c.out(lse, &p.rows)
		p.operands(c)
		if err = p.random(name, c); err == nil {
			err = c.run(name)
		}
		if err != nil {
			lse.Release()
		}
	}
	if err != nil {
		out.Release()
		return nil, nil, err
	}
	return out, lse, nil
}

// Attention is the gradient of ScaledDotProductAttention for the gradient grad of its result out, with the lse that
// AttentionForward gave; a is as it was then. The gradient of the mask, which is as large as the matrix of scores, is computed
// only if withMask is set; it is of the operands' type. Gradients of four dimensions or more lie in memory as the result does.
func (gradients) Attention(grad, q, k, v, out, lse *Tensor, a Attention, withMask bool) (attentionGrads, error) {
	const name = "AttentionGrad"
	var g attentionGrads
	p, err := newAttentionGrad(name, grad, q, k, v, out, lse, a, withMask)
	if err != nil {
		return g, err
	}
	defer p.release()
	if g.Q, err = p.empty(name, p.depth); err == nil {
		g.K, err = p.emptyOf(name, p.groups, p.keys, p.depth)
	}
	if err == nil {
		g.V, err = p.emptyOf(name, p.groups, p.keys, p.width)
	}
	if err == nil && withMask {
		g.Mask, err = p.emptyMask(name)
	}
	if err == nil {
		err = p.grads(name, g, grad, out, lse)
	}
	if err != nil {
		g.Release()
		return attentionGrads{}, err
	}
	return g, nil
}

// AttentionInto is Attention, the gradient, into tensors of the right shapes and type and any strides, such as parts of one tensor,
// which must not overlap each other or an operand. Without g.Mask the gradient of the mask is not computed.
func (gradients) AttentionInto(g attentionGrads, grad, q, k, v, out, lse *Tensor, a Attention) error {
	const name = "AttentionGradInto"
	p, err := newAttentionGrad(name, grad, q, k, v, out, lse, a, g.Mask != nil)
	if err != nil {
		return err
	}
	defer p.release()
	if err := p.checkResults(name, &g); err != nil {
		return err
	}
	for _, t := range listed(&g) {
		t.storage.changed()
	}
	return p.grads(name, g, grad, out, lse)
}

// listed are Q, K, V and, if it is there, Mask.
func listed(g *attentionGrads) []*Tensor {
	all := []*Tensor{g.Q, g.K, g.V, g.Mask}
	if g.Mask == nil {
		all = all[:3]
	}
	return all
}

// checkResults refuses tensors that the gradients cannot be written to.
func (p *attending) checkResults(name string, g *attentionGrads) error {
	results := listed(g)
	want := [4]Shape{
		p.shapeOf(p.heads, p.queries, p.depth), p.shapeOf(p.groups, p.keys, p.depth), p.shapeOf(p.groups, p.keys, p.width),
		p.shapeOf(p.heads, p.queries, p.keys),
	}
	if err := together(name, append([]*Tensor{p.q}, results...)...); err != nil {
		return err
	}
	for i, t := range results {
		if t.dtype != p.dtype {
			return dtypeErr(name, "gradients have the type of the operands", p.dtype, t.dtype)
		}
		if !t.Shape().Equal(want[i]) {
			return shapeErr(name, []Shape{t.Shape()}, "gradient %d, want %v", i, want[i])
		}
		if err := t.writable(name); err != nil {
			return err
		}
	}
	return nil
}

func newAttentionGrad(name string, grad, q, k, v, out, lse *Tensor, a Attention, withMask bool) (*attending, error) {
	if err := sameFloat(name, grad, q, k, v, out); err != nil {
		return nil, err
	}
	if err := together(name, q, lse); err != nil {
		return nil, err
	}
	if withMask && (a.Mask == nil || a.Mask.dtype == Bool) {
		return nil, valueErr(name, "there is no mask that is added to scores")
	}
	p, err := newAttending(name, q, k, v, a)
	if err != nil {
		return nil, err
	}
	want := p.shapeOf(p.heads, p.queries, p.width)
	switch {
	case !grad.Shape().Equal(want) || !out.Shape().Equal(want) || !lse.Shape().Equal(p.rows.dims()) || !lse.IsContiguous():
		err = shapeErr(name, []Shape{grad.Shape(), out.Shape(), lse.Shape()}, "want results of %v, and an lse of %v", want, p.rows.dims())
	case lse.dtype != op.ComputeType(p.dtype):
		err = dtypeErr(name, "lse is of the type of computation", p.dtype, lse.dtype)
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// grads launches AttentionGrad.
func (p *attending) grads(name string, g attentionGrads, grad, out, lse *Tensor) error {
	if g.Q.Len()+g.K.Len()+g.V.Len() == 0 && (g.Mask == nil || g.Mask.Len() == 0) {
		return nil
	}
	from, lf, err := p.laid(name, grad, p.heads, p.queries, p.width)
	if err != nil {
		return err
	}
	result, lr, err := p.laid(name, out, p.heads, p.queries, p.width)
	if err != nil {
		return err
	}
	results := listed(&g)
	views, err := p.fours(name, results)
	if err != nil {
		return err
	}
	c := p.begin(op.AttentionGrad)
	for i, t := range results {
		c.out(t, &views[i])
	}
	c.in(from, &lf)
	c.in(p.q, &p.lq)
	c.in(p.k, &p.lk)
	c.in(p.v, &p.lv)
	c.in(result, &lr)
	c.in(lse, &p.rows)
	if p.mask != nil {
		c.in(p.mask, &p.lm)
	}
	if err := p.random(name, c); err != nil {
		return err
	}
	return c.run(name)
}
