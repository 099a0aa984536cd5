package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// AttendWeights is Attend that also returns the weights of attention (need_weights): those of each head, [N, heads, T, S], or, with average, their mean,
// [N, T, S] (average_attn_weights, PyTorch's default); without a batch N is missing. In training they are those after dropout, as in PyTorch. It makes
// the matrix of weights, which Attend does not, and saves it for backward. A query that sees no key has weights of NaN.
func (l *MultiheadAttentionLayer) AttendWeights(query, key, value *autograd.Variable, average bool, opts ...AttendOption) (out, weights *autograd.Variable) {
	if query == nil {
		return nil, nil
	}
	g := query.Graph()
	if l == nil {
		failed := g.Refuse("forward", nilLayer[MultiheadAttentionLayer](), query)
		return failed, failed
	}
	if err := l.mistake(); err != nil {
		failed := g.Refuse("forward", err, query)
		return failed, failed
	}
	out, weights, _ = three(g.ModuleScopes((*located)(&l.Base), func() []*autograd.Variable {
		return l.calling(g, query, false, func() []*autograd.Variable { return l.withWeights(g, query, key, value, average, opts) })
	}))
	return out, weights
}

func (l *MultiheadAttentionLayer) withWeights(g *autograd.Graph, query, key, value *autograd.Variable, average bool, opts []AttendOption) []*autograd.Variable {
	both := func(v *autograd.Variable) []*autograd.Variable { return []*autograd.Variable{v, v} }
	if key == nil || value == nil || !query.Alive() || !key.Alive() || !value.Alive() {
		return both(autograd.ScaledDotProductAttention(query, key, value)) // says what is wrong
	}
	err := l.incomplete()
	if err == nil {
		err = l.misfit(query, key, value)
	}
	if err != nil {
		return both(g.Refuse("attention", err, query, key, value))
	}
	a := attending{layer: l, g: g, query: query, batched: query.NDim() == 3}
	for _, o := range opts {
		if o != nil {
			o(&a)
		}
	}
	if a.cache != nil {
		return both(g.Refuse("attention", argumentErr(l.String(), "AttendWeights takes no KVCache: Attend does"), query, key, value))
	}
	return a.weighted(query, key, value, average)
}

// weighted computes the scores, and what comes of them, by operations of their own.
func (a *attending) weighted(query, key, value *autograd.Variable, average bool) []*autograd.Variable {
	l := a.layer
	var heads [3]*autograd.Variable // [N, heads, rows, embed/heads]
	for i, v := range []*autograd.Variable{query, key, value} {
		p := a.batchFirst(v.Linear(a.weight(i), a.bias(i, 1)))
		shape := append(p.Shape()[:max(p.NDim()-1, 0)].Clone(), l.heads, l.embed/l.heads)
		heads[i] = p.Reshape(shape...).Transpose(-3, -2)
	}
	a.sizes(heads[0], heads[0].Dim(-2), heads[1].Dim(-2))
	scores := heads[0].MulScalar(1 / math.Sqrt(float64(l.embed/l.heads))).MatMul(heads[1].Transpose(-2, -1))
	weights := a.hidden(scores).Softmax(-1)
	if p := l.config.dropout; p > 0 && l.Training() {
		weights = weights.Dropout(p)
	}
	out := a.finish(weights.MatMul(heads[2]).Transpose(-3, -2).Flatten(-2, -1))
	if average {
		weights = weights.Mean([]int{-3}, false)
	}
	return []*autograd.Variable{out, weights}
}

// hidden are the scores with the masks.
func (a *attending) hidden(scores *autograd.Variable) *autograd.Variable {
	m := a.mask()
	switch {
	case m == nil:
		return scores
	case m.DType() != tensor.Bool:
		return scores.Add(m)
	}
	return autograd.Where(m, scores, a.g.Full(math.Inf(-1), scores.DType()))
}
