package models

import (
	"math"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
)

// GPTConfig is the shape of a GPT.
type GPTConfig struct {
	Vocab   int // tokens
	Context int // the longest sequence
	Layers  int
	Width   int // of each token's vector; a multiple of Heads
	Heads   int
	Dropout float64
	// Checkpoint makes each layer save only its input for backward, and run again then.
	Checkpoint bool
	// Tied makes the output matrix that of the embedding, as in GPT-2.
	Tied bool
	// GELUTanh makes GELU the approximation with tanh, as in GPT-2's own code. cuBLASLt computes it with the product before it.
	GELUTanh bool
}

// GPT is a transformer that predicts the next token, in the form of GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019): layer norms before attention and feed-forward part, GELU, learned positions. The output matrix is
// its own, unless the configuration says that it is the embedding's.
type GPT struct {
	nn.Base
	Tokens    *nn.EmbeddingLayer
	Positions *autograd.Parameter // [context, width]
	Drop      *nn.DropoutLayer
	Layers    []nn.Layer
	Norm      *nn.LayerNormLayer
	Head      *nn.LinearLayer // nil if it is the embedding

	heads int
}

// deviation is that of all weights at the start, as in GPT-2.
const deviation = 0.02

// NewGPT makes a GPT without values; its To gives them. Weights start normal with deviation 0.02, and those that end a branch
// beside the residual stream divided by sqrt(2*Layers), as in GPT-2.
func NewGPT(c GPTConfig) (*GPT, error) {
	for _, v := range []struct {
		name  string
		value int
	}{{"vocabulary", c.Vocab}, {"context", c.Context}, {"layers", c.Layers}, {"width", c.Width}, {"heads", c.Heads}} {
		if v.value < 1 {
			return nil, errors.Errorf("models: GPT: %s is %d, must be at least 1", v.name, v.value)
		}
	}
	if c.Width%c.Heads != 0 {
		return nil, errors.Errorf("models: GPT: a width of %d cannot be cut into %d heads", c.Width, c.Heads)
	}
	m := &GPT{
		Tokens:    nn.Embedding(c.Vocab, c.Width, nn.WeightInit(nn.Normal(0, deviation))),
		Positions: autograd.DeclareParameter("positions", nn.Normal(0, deviation), c.Context, c.Width),
		Drop:      nn.Dropout(c.Dropout), Norm: nn.LayerNorm([]int{c.Width}), heads: c.Heads,
	}
	for range c.Layers {
		var layer nn.Layer = newBlock(&c)
		if c.Checkpoint {
			layer = nn.Checkpointed(layer)
		}
		m.Layers = append(m.Layers, layer)
	}
	if !c.Tied {
		m.Head = nn.Linear(c.Width, c.Vocab, nn.NoBias(), nn.WeightInit(nn.Normal(0, deviation)))
	}
	return nn.New(m), nil
}

// Forward gives the logits, [batch, length, vocabulary], of the token that follows each token of x, [batch, length].
func (m *GPT) Forward(x *autograd.Variable) *autograd.Variable {
	return m.run(x, 0, func(_ int, layer nn.Layer, h *autograd.Variable) *autograd.Variable { return layer.Forward(h) })
}

// Decode is Forward of tokens that come after those of a cache, in a graph without gradients. All rows of the cache have one length.
func (m *GPT) Decode(x *autograd.Variable, cache *nn.KVCache) *autograd.Variable {
	return m.run(x, cache.Len(), func(i int, layer nn.Layer, h *autograd.Variable) *autograd.Variable {
		if c, ok := layer.(*nn.CheckpointModule); ok {
			layer = c.Layer // nothing is saved that could be computed again
		}
		b, ok := layer.(*block)
		if !ok {
			return h.Graph().Refuse("decode", errors.Errorf("models: GPT: layer %d is a %T, which has no cache", i, layer), h)
		}
		return b.forward(h, cache.Layer(i), true)
	})
}

// Cache makes a cache for so many sequences, of the type that attention computes in. The caller releases it.
func (m *GPT) Cache(dev device.Device, batch int, opts ...nn.Option) (*nn.KVCache, error) {
	shape := m.Positions.Shape()
	return nn.NewKVCache(dev, nn.KVCacheSize{Layers: len(m.Layers), Batch: batch, Heads: m.heads, MaxLen: shape[0], HeadDim: shape[1] / m.heads}, opts...)
}

// run computes the logits of tokens from a position on; step is a layer.
func (m *GPT) run(x *autograd.Variable, position int, step func(i int, layer nn.Layer, h *autograd.Variable) *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		h := g.Scope(func() *autograd.Variable {
			at := g.Param(m.Positions).Narrow(0, position, x.Dim(-1))
			return m.Drop.Forward(m.Tokens.Forward(x).Add(at))
		})
		for i, layer := range m.Layers {
			before := h
			h = step(i, layer, before)
			before.Release() // what backward needs of it, its readers have saved
		}
		return m.logits(m.Norm.BeforeLinear(h))
	})
}

// logits are the output matrix's.
func (m *GPT) logits(h *autograd.Variable) *autograd.Variable {
	if m.Head == nil {
		return h.Linear(h.Graph().Param(m.Tokens.Weight), nil)
	}
	return m.Head.Forward(h)
}

// block is one layer: attention and a feed-forward part, each beside the residual stream.
type block struct {
	nn.Base
	Norm1    *nn.LayerNormLayer
	QKV, Out *nn.LinearLayer
	Norm2    *nn.LayerNormLayer
	FC1, FC2 *nn.LinearLayer
	Drop     *nn.DropoutLayer
	gelu     func(fc *nn.LinearLayer, x *autograd.Variable) *autograd.Variable
	heads    int
	dropout  float64
}

func newBlock(c *GPTConfig) *block {
	linear := func(in, out int, std float64) *nn.LinearLayer {
		return nn.Linear(in, out, nn.WeightInit(nn.Normal(0, std)), nn.BiasInit(nn.Zeros))
	}
	gelu := (*nn.LinearLayer).ForwardGELU
	if c.GELUTanh {
		gelu = (*nn.LinearLayer).ForwardGELUTanh
	}
	last := deviation / math.Sqrt(2*float64(c.Layers))
	return nn.New(&block{
		Norm1: nn.LayerNorm([]int{c.Width}), QKV: linear(c.Width, 3*c.Width, deviation), Out: linear(c.Width, c.Width, last),
		Norm2: nn.LayerNorm([]int{c.Width}), FC1: linear(c.Width, 4*c.Width, deviation), FC2: linear(4*c.Width, c.Width, last),
		Drop: nn.Dropout(c.Dropout), gelu: gelu, heads: c.Heads, dropout: c.Dropout,
	})
}

// Forward implements nn.Layer.
func (b *block) Forward(x *autograd.Variable) *autograd.Variable { return b.forward(x, nil, false) }

// forward attends to x alone, or also to a cache.
func (b *block) forward(x *autograd.Variable, cache *nn.KVCacheLayer, cached bool) *autograd.Variable {
	attention := b.attention
	if cached {
		attention = func(x *autograd.Variable) *autograd.Variable { return b.decode(x, cache) }
	}
	return b.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		x := g.Scope(func() *autograd.Variable { return x.Add(b.Drop.Forward(attention(x))) })
		return x.Add(b.Drop.Forward(b.feedForward(x)))
	})
}

// decode is attention to what is in the cache and to x, which follows it.
func (b *block) decode(x *autograd.Variable, cache *nn.KVCacheLayer) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		qkv := b.QKV.Forward(b.Norm1.BeforeLinear(x))
		if !qkv.Alive() {
			return qkv
		}
		heads := qkv.Reshape(qkv.Dim(0), qkv.Dim(1), 3*b.heads, -1).Transpose(1, 2) // [batch, 3*heads, length, size]
		part := func(i int) *autograd.Variable { return heads.Narrow(1, i*b.heads, b.heads) }
		return b.Out.Forward(cache.Attend(part(0), part(1), part(2)).Transpose(1, 2).Flatten(-2, -1))
	})
}

func (b *block) feedForward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		return b.FC2.Forward(b.gelu(b.FC1, b.Norm2.BeforeLinear(x)))
	})
}

// attention is causal attention of several heads.
func (b *block) attention(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		qkv := b.QKV.Forward(b.Norm1.BeforeLinear(x))
		options := []autograd.AttentionOption{autograd.IsCausal()}
		if b.Training() {
			options = append(options, autograd.AttnDropout(b.dropout))
		}
		return b.Out.Forward(qkv.SelfAttention(b.heads, b.heads, options...))
	})
}
