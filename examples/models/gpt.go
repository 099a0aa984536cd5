package models

import (
	"math"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
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
}

// GPT is a transformer that predicts the next token, in the form of GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019): layer norms before attention and feed-forward part, GELU, learned positions. The output matrix is
// its own, unless the configuration says that it is the embedding's.
type GPT struct {
	nn.Base
	config    GPTConfig
	tokens    *nn.EmbeddingLayer
	positions *autograd.Parameter // [context, width]
	drop      *nn.DropoutLayer
	layers    []nn.Layer
	norm      nn.Layer
	head      *nn.LinearLayer // nil if it is the embedding
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
	m := &GPT{config: c, drop: nn.Dropout(c.Dropout), norm: nn.LayerNorm([]int{c.Width})}
	m.tokens = nn.Embedding(c.Vocab, c.Width, nn.WeightInit(nn.Normal(0, deviation)))
	nn.RegisterField(&m.Base, "tokens", &m.tokens)
	m.positions = autograd.DeclareParameter("positions", nn.Normal(0, deviation), c.Context, c.Width)
	m.RegisterParameterField("positions", &m.positions)
	nn.RegisterField(&m.Base, "drop", &m.drop)
	for range c.Layers {
		var layer nn.Layer = newBlock(&c)
		if c.Checkpoint {
			layer = nn.Checkpointed(layer)
		}
		m.layers = append(m.layers, layer)
	}
	nn.RegisterList(&m.Base, "layers", &m.layers)
	nn.RegisterField(&m.Base, "norm", &m.norm)
	if !c.Tied {
		m.head = nn.Linear(c.Width, c.Vocab, nn.NoBias(), nn.WeightInit(nn.Normal(0, deviation)))
		nn.RegisterField(&m.Base, "head", &m.head)
	}
	return m, nil
}

// Forward gives the logits, [batch, length, vocabulary], of the token that follows each token of x, [batch, length].
func (m *GPT) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		h := g.Scope(func() *autograd.Variable {
			at := g.Param(m.positions).Narrow(0, 0, x.Dim(-1))
			return m.drop.Forward(m.tokens.Forward(x).Add(at))
		})
		for _, layer := range m.layers {
			before := h
			h = layer.Forward(before)
			before.Release() // what backward needs of it, its readers have saved
		}
		return m.logits(m.norm.Forward(h))
	})
}

// logits are the output matrix's.
func (m *GPT) logits(h *autograd.Variable) *autograd.Variable {
	if m.head == nil {
		return h.Linear(h.Graph().Param(m.tokens.Weight), nil)
	}
	return m.head.Forward(h)
}

// block is one layer: attention and a feed-forward part, each beside the residual stream.
type block struct {
	nn.Base
	heads              int
	dropout            float64
	norm1, norm2       nn.Layer
	qkv, out, fc1, fc2 *nn.LinearLayer
	drop               *nn.DropoutLayer
}

func newBlock(c *GPTConfig) *block {
	linear := func(in, out int, std float64) *nn.LinearLayer {
		return nn.Linear(in, out, nn.WeightInit(nn.Normal(0, std)), nn.BiasInit(nn.Zeros))
	}
	last := deviation / math.Sqrt(2*float64(c.Layers))
	b := &block{heads: c.Heads, dropout: c.Dropout, norm1: nn.LayerNorm([]int{c.Width}), norm2: nn.LayerNorm([]int{c.Width}),
		qkv: linear(c.Width, 3*c.Width, deviation), out: linear(c.Width, c.Width, last),
		fc1: linear(c.Width, 4*c.Width, deviation), fc2: linear(4*c.Width, c.Width, last),
		drop: nn.Dropout(c.Dropout)}
	nn.RegisterField(&b.Base, "norm1", &b.norm1)
	nn.RegisterField(&b.Base, "qkv", &b.qkv)
	nn.RegisterField(&b.Base, "out", &b.out)
	nn.RegisterField(&b.Base, "norm2", &b.norm2)
	nn.RegisterField(&b.Base, "fc1", &b.fc1)
	nn.RegisterField(&b.Base, "fc2", &b.fc2)
	nn.RegisterField(&b.Base, "drop", &b.drop)
	return b
}

// Forward implements nn.Layer.
func (b *block) Forward(x *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		x := g.Scope(func() *autograd.Variable { return x.Add(b.drop.Forward(b.attention(x))) })
		return x.Add(b.drop.Forward(b.feedForward(x)))
	})
}

func (b *block) feedForward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		return b.fc2.Forward(b.fc1.Forward(b.norm2.Forward(x)).GELU())
	})
}

// attention is causal attention of several heads.
func (b *block) attention(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		qkv := b.qkv.Forward(b.norm1.Forward(x))
		options := []autograd.AttentionOption{autograd.IsCausal()}
		if b.Training() {
			options = append(options, autograd.AttnDropout(b.dropout))
		}
		return b.out.Forward(qkv.SelfAttention(b.heads, b.heads, options...))
	})
}
