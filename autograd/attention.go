package autograd

import "github.com/cistern-ml/cistern/tensor"

// AttentionOption changes ScaledDotProductAttention and SelfAttention. Names and defaults are PyTorch's.
type AttentionOption func(*attention)

// AttnMask hides keys from queries: it broadcasts to [..., H, T, S], of type bool, true where a query sees a key, or of a
// floating-point type and added to the scores. Only the latter may need a gradient, which is as large as the matrix of scores.
func AttnMask(mask *Variable) AttentionOption { return func(a *attention) { a.mask = mask } }

// AttnDropout sets each weight to 0 with probability p, and divides the others by 1-p; p is in 0..1. It draws from the graph's
// generator.
func AttnDropout(p float64) AttentionOption { return func(a *attention) { a.DropoutP = p } }

// IsCausal lets query t see the keys 0..t only. Where there are more keys than queries CausalLowerRight may be meant.
func IsCausal() AttentionOption { return func(a *attention) { a.IsCausal = true } }

// CausalLowerRight lets the last query see all keys, and each one before it a key less: queries are the last T of S positions, as those of
// a chunk whose keys follow others in a cache. It is PyTorch's causal_lower_right. It costs nothing where there is one query, which sees
// everything, and is IsCausal where T is S; else it takes T+S bytes while it computes.
func CausalLowerRight() AttentionOption { return func(a *attention) { a.IsCausalLowerRight = true } }

// AttnScale is what products of queries and keys are multiplied by, instead of 1/sqrt(D).
func AttnScale(scale float64) AttentionOption { return func(a *attention) { a.Scale = scale } }

// EnableGQA lets several heads of queries share one of keys and values.
func EnableGQA() AttentionOption { return func(a *attention) { a.EnableGQA = true } }

// attention is the argument of the operations of this file: what was asked for, and where its random numbers begin.
type attention struct {
	tensor.Attention
	mask          *Variable
	heads, groups int // of SelfAttention
}

func newAttention(opts []AttentionOption) *attention {
	a := new(attention)
	for _, o := range opts {
		if o != nil {
			o(a)
		}
	}
	return a
}

// inputs are the operands of an operation, with the mask, if there is one, as the last.
func (a *attention) inputs(vs ...*Variable) []*Variable {
	if a.mask != nil {
		vs = append(vs, a.mask)
	}
	return vs
}

// ScaledDotProductAttention is softmax(q @ kᵀ * scale + mask) @ v for q [..., H, T, D], k [..., H, S, D] and v [..., H, S, E]. It never
// holds the matrix of scores: it saves its operands, its result and one number for each query, and backward computes the
// scores again, with the same dropout. A query that sees no key gives 0. See tensor.ScaledDotProductAttention for how
// shapes broadcast and how the result lies in memory.
func ScaledDotProductAttention(q, k, v *Variable, opts ...AttentionOption) *Variable {
	a := newAttention(opts)
	return attend.apply(a, a.inputs(q, k, v)...)
}

var attend = defineJoint("scaled_dot_product_attention", attendForward, attendGrad)

// defineJoint defines an operation whose gradients are computed together and use everything.
func defineJoint(name string, forward func(*node) (*tensor.Tensor, error), grad func(*node, *tensor.Tensor) ([]*tensor.Tensor, error)) *op {
	o := variadic(define(name, forward, rule{uses: inputs | output | stash}))
	o.joint = grad
	return o
}

func attendForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(*attention)
	return a.forward(n, n.tensor(0), n.tensor(1), n.tensor(2), 3)
}

// forward computes the result and stashes what the gradient needs besides. The mask is input at, if there is one.
func (a *attention) forward(n *node, q, k, v *tensor.Tensor, at int) (*tensor.Tensor, error) {
	use := a.Attention
	if len(n.in) > at {
		use.Mask = n.tensor(at)
	}
	if a.DropoutP > 0 {
		blocks, err := tensor.AttentionBlocks(q, k, v, use)
		if err != nil {
			return nil, err
		}
		a.Random = n.g.Generator().Reserve(blocks)
		use.Random = a.Random
	}
	out, lse, err := gradients.AttentionForward(q, k, v, use)
	if err != nil {
		return nil, err
	}
	n.stash(lse)
	return out, nil
}

// saved is the attention of the forward pass, with the mask that it had.
func (a *attention) saved(n *node, at int) (use tensor.Attention, maskFlows bool) {
	use = a.Attention
	if len(n.in) > at {
		use.Mask = n.savedInput(at)
		maskFlows = n.flows(at)
	}
	return use, maskFlows
}

func attendGrad(n *node, g *tensor.Tensor) ([]*tensor.Tensor, error) {
	use, maskFlows := n.arg.(*attention).saved(n, 3)
	d, err := gradients.Attention(g, n.savedInput(0), n.savedInput(1), n.savedInput(2), n.savedOutput(), n.stashed(0), use, maskFlows)
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{d.Q, d.K, d.V, d.Mask}[:len(n.in)], nil
}
