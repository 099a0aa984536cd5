package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// MultiheadAttentionLayer projects queries, keys and values, lets each head attend for itself, and projects what the heads
// found (Vaswani et al., "Attention is all you need", 2017). Parameters have PyTorch's names. Weights of attention are not
// made, and never hold memory, unless AttendWeights asks for them: it is torch.nn.MultiheadAttention with need_weights=False.
type MultiheadAttentionLayer struct {
	Base
	InProjWeight *autograd.Parameter    // [3*embed, embed]; nil if keys or values have other widths than queries
	ProjWeights  [3]*autograd.Parameter // then those of queries, keys and values: [embed, embed], [embed, kdim], [embed, vdim]
	InProjBias   *autograd.Parameter    // [3*embed], or nil
	OutProj      *LinearLayer

	embed, heads int
	config       attentionConfig
}

// AttentionLayerOption changes MultiheadAttention.
type AttentionLayerOption interface{ applyAttention(c *attentionConfig) }

type attentionOption func(*attentionConfig)

func (o attentionOption) applyAttention(c *attentionConfig) { o(c) }

type attentionConfig struct {
	dropout    float64
	noBias     bool
	batchFirst bool
	kdim, vdim int
}

// AttentionDropout sets weights of attention to 0 with probability p in training; the default is 0.
func AttentionDropout(p float64) AttentionLayerOption {
	return attentionOption(func(c *attentionConfig) { c.dropout = p })
}

// AttentionNoBias makes projections without biases.
func AttentionNoBias() AttentionLayerOption {
	return attentionOption(func(c *attentionConfig) { c.noBias = true })
}

// KDim and VDim are the widths of keys and values, if they are not the embedding's.
func KDim(n int) AttentionLayerOption {
	return attentionOption(func(c *attentionConfig) { c.kdim = n })
}

// VDim is the width of values; see KDim.
func VDim(n int) AttentionLayerOption {
	return attentionOption(func(c *attentionConfig) { c.vdim = n })
}

// MultiheadAttention makes a layer of so many heads, of embed/heads elements each. The weights of the first projection start by
// XavierUniform, those of the second as in Linear, and biases with 0.
func MultiheadAttention(embed, heads int, opts ...AttentionLayerOption) *MultiheadAttentionLayer {
	c := attentionConfig{kdim: embed, vdim: embed}
	for _, o := range opts {
		if o != nil {
			o.applyAttention(&c)
		}
	}
	l := &MultiheadAttentionLayer{embed: embed, heads: heads, config: c}
	if err := l.undivided(); err != nil {
		l.mistaken(err)
	}
	l.refuseProbability("MultiheadAttention", c.dropout)
	declare := func(name string, shape ...int) *autograd.Parameter {
		return autograd.DeclareParameter(name, XavierUniform(1), shape...)
	}
	if c.kdim == embed && c.vdim == embed {
		l.InProjWeight = declare("in_proj_weight", 3*embed, embed)
	} else {
		l.ProjWeights = [3]*autograd.Parameter{
			declare("q_proj_weight", embed, embed), declare("k_proj_weight", embed, c.kdim), declare("v_proj_weight", embed, c.vdim),
		}
	}
	linear := []LayerOption{BiasInit(Zeros)}
	if c.noBias {
		linear = append(linear, NoBias())
	} else {
		l.InProjBias = autograd.DeclareParameter("in_proj_bias", Zeros, 3*embed)
	}
	l.OutProj = Linear(embed, embed, linear...)
	l.register()
	return l
}

// projNames are the names of ProjWeights.
var projNames = [3]string{"q_proj_weight", "k_proj_weight", "v_proj_weight"}

// register names the fields, in PyTorch's order.
func (l *MultiheadAttentionLayer) register() {
	l.RegisterParameterField("in_proj_weight", &l.InProjWeight)
	for i, name := range projNames {
		l.RegisterParameterField(name, &l.ProjWeights[i])
	}
	l.RegisterParameterField("in_proj_bias", &l.InProjBias)
	RegisterField(&l.Base, "out_proj", &l.OutProj)
}

// String names the layer and its sizes.
func (l *MultiheadAttentionLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("MultiheadAttention(embed_dim=%d, num_heads=%d)", l.embed, l.heads)
}

// Forward implements Layer: attention of x to itself. x is [T, N, embed], or [N, T, embed] with BatchFirst, or [T, embed].
func (l *MultiheadAttentionLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return l.Attend(x, x, x)
}

// Attend lets query, [T, N, embed], attend to key, [S, N, kdim], and value, [S, N, vdim]; with BatchFirst N comes first, and without
// a batch N is missing. The result is of query's shape. If all three are one variable, one projection serves them, and heads
// are views of what it gives.
func (l *MultiheadAttentionLayer) Attend(query, key, value *autograd.Variable, opts ...AttendOption) *autograd.Variable {
	return within(l, query, func(g *autograd.Graph) *autograd.Variable {
		if key == nil || value == nil || !query.Alive() || !key.Alive() || !value.Alive() {
			return autograd.ScaledDotProductAttention(query, key, value) // says what is wrong
		}
		if err := l.incomplete(); err != nil {
			return g.Refuse("attention", err, query, key, value)
		}
		if err := l.misfit(query, key, value); err != nil {
			return g.Refuse("attention", err, query, key, value)
		}
		a := attending{layer: l, g: g, query: query, batched: query.NDim() == 3}
		for _, o := range opts {
			if o != nil {
				o(&a)
			}
		}
		itself := query == key && key == value && l.InProjWeight != nil
		switch {
		case a.stacked && !a.cached:
			return g.Refuse("attention", argumentErr(l.String(), "CachedLayers is for stacks of layers; Cached is that of one"), query, key, value)
		case a.cached && key == value && query != key:
			return a.remembered(query, key)
		case a.cached && !itself:
			return g.Refuse("attention", argumentErr(l.String(), "a KVCache is for attention of a variable to itself"), query, key, value)
		case a.cache != nil:
			return a.decode(query)
		case itself:
			return a.self(query)
		}
		return a.cross(query, key, value)
	})
}

// undivided refuses heads that the embedding does not divide into.
func (l *MultiheadAttentionLayer) undivided() error {
	if l.heads <= 0 || l.embed%l.heads != 0 {
		return argumentErr(l.String(), "the embedding does not divide into heads")
	}
	return nil
}

// incomplete says which field is nil that must not be, or, of a zero value, that it has no heads.
func (l *MultiheadAttentionLayer) incomplete() error {
	if err := l.undivided(); err != nil {
		return err
	}
	if l.InProjWeight == nil {
		for i, p := range l.ProjWeights {
			if p == nil {
				return argumentErr(l.String(), "the fields of parameters in_proj_weight and %s are nil", projNames[i])
			}
		}
	}
	if l.OutProj == nil {
		return argumentErr(l.String(), "the field of part out_proj is nil")
	}
	return nil
}

// misfit refuses operands that are not [T, N, width] or [T, width].
func (l *MultiheadAttentionLayer) misfit(query, key, value *autograd.Variable) error {
	widths := [3]int{l.embed, l.config.kdim, l.config.vdim}
	for i, v := range []*autograd.Variable{query, key, value} {
		name := [3]string{"query", "key", "value"}[i]
		if n := v.NDim(); n != 2 && n != 3 || n != query.NDim() {
			return shapeError(l.String(), v, "the %s has %s; want [%s, %d], or [T, %d] without a batch, for query, key and value alike",
				name, dimensions(n), l.config.order(), widths[i], widths[i])
		}
		if v.Dim(-1) != widths[i] {
			return shapeError(l.String(), v, "the %s has %d features, the layer takes %d", name, v.Dim(-1), widths[i])
		}
	}
	return nil
}

// order is the order of length and batch.
func (c *attentionConfig) order() string {
	if c.batchFirst {
		return "N, T"
	}
	return "T, N"
}

// self attends with one projection.
func (a *attending) self(x *autograd.Variable) *autograd.Variable {
	l := a.layer
	qkv := a.batchFirst(x.Linear(param(a.g, l, "in_proj_weight", l.InProjWeight), a.bias(0, 3)))
	rows := qkv.Dim(-2)
	a.sizes(qkv, rows, rows)
	return a.finish(qkv.SelfAttention(l.heads, l.heads, a.options()...))
}

// decode attends to the cache and to x, which it appends.
func (a *attending) decode(x *autograd.Variable) *autograd.Variable {
	l := a.layer
	qkv := a.batchFirst(x.Linear(param(a.g, l, "in_proj_weight", l.InProjWeight), a.bias(0, 3)))
	if !a.batched {
		qkv = qkv.Unsqueeze(0)
	}
	if !qkv.Alive() {
		return qkv
	}
	heads := qkv.Reshape(qkv.Dim(0), qkv.Dim(1), 3*l.heads, l.embed/l.heads).Transpose(1, 2)
	part := func(i int) *autograd.Variable { return heads.Narrow(1, i*l.heads, l.heads) }
	before := a.cache.Lengths()
	keys, values := a.cache.Append(part(1), part(2))
	if keys.Alive() {
		a.rows = a.cache.Mask(a.g, qkv.Dim(1))
		a.causal, a.lowerRight = true, true
		a.sizes(qkv, qkv.Dim(1), keys.Dim(2))
	}
	out := autograd.ScaledDotProductAttention(part(0), keys, values, a.options()...).Transpose(1, 2).Flatten(-2, -1)
	if keys.Alive() {
		a.cache.orBack(before, out)
	}
	if !a.batched {
		out = out.Squeeze(0)
	}
	return a.finish(out)
}

// cross attends with a projection for each operand.
func (a *attending) cross(query, key, value *autograd.Variable) *autograd.Variable {
	var heads [3]*autograd.Variable
	for i, v := range []*autograd.Variable{query, key, value} {
		heads[i] = a.heads(v, i)
	}
	a.sizes(heads[0], heads[0].Dim(-2), heads[1].Dim(-2))
	out := autograd.ScaledDotProductAttention(heads[0], heads[1], heads[2], a.options()...).Transpose(-3, -2)
	return a.finish(out.Flatten(-2, -1))
}

// weight is the weight of the projection of operand i.
func (a *attending) weight(i int) *autograd.Variable {
	if p := a.layer.ProjWeights[i]; p != nil {
		return param(a.g, a.layer, projNames[i], p)
	}
	return param(a.g, a.layer, "in_proj_weight", a.layer.InProjWeight).Narrow(0, i*a.layer.embed, a.layer.embed)
}

// bias is the bias of n operands from i on, or nil.
func (a *attending) bias(i, n int) *autograd.Variable {
	p := a.layer.InProjBias
	if p == nil {
		return nil
	}
	if n == 3 {
		return param(a.g, a.layer, "in_proj_bias", p)
	}
	return param(a.g, a.layer, "in_proj_bias", p).Narrow(0, i*a.layer.embed, a.layer.embed)
}

// batchFirst exchanges rows and batch, unless they already are as attention wants them.
func (a *attending) batchFirst(v *autograd.Variable) *autograd.Variable {
	if a.layer.config.batchFirst || v.NDim() != 3 {
		return v
	}
	return v.Transpose(0, 1)
}

// finish projects what the heads found, and brings it into the order of the query.
func (a *attending) finish(v *autograd.Variable) *autograd.Variable {
	return a.batchFirst(a.layer.OutProj.Forward(v))
}
