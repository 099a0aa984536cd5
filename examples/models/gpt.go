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
	Tokens    *nn.EmbeddingLayer
	Positions *autograd.Parameter // [context, width]
	Drop      *nn.DropoutLayer
	Layers    []nn.Layer
	Norm      nn.Layer
	Head      *nn.LinearLayer // nil if it is the embedding
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
		Drop:      nn.Dropout(c.Dropout), Norm: nn.LayerNorm([]int{c.Width}),
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
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		h := g.Scope(func() *autograd.Variable {
			at := g.Param(m.Positions).Narrow(0, 0, x.Dim(-1))
			return m.Drop.Forward(m.Tokens.Forward(x).Add(at))
		})
		for _, layer := range m.Layers {
			before := h
			h = layer.Forward(before)
			before.Release() // what backward needs of it, its readers have saved
		}
		return m.logits(m.Norm.Forward(h))
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
	Norm1    nn.Layer
	QKV, Out *nn.LinearLayer
	Norm2    nn.Layer
	FC1, FC2 *nn.LinearLayer
	Drop     *nn.DropoutLayer
	heads    int
	dropout  float64
}

func newBlock(c *GPTConfig) *block {
	linear := func(in, out int, std float64) *nn.LinearLayer {
		return nn.Linear(in, out, nn.WeightInit(nn.Normal(0, std)), nn.BiasInit(nn.Zeros))
	}
	last := deviation / math.Sqrt(2*float64(c.Layers))
	return nn.New(&block{
		Norm1: nn.LayerNorm([]int{c.Width}), QKV: linear(c.Width, 3*c.Width, deviation), Out: linear(c.Width, c.Width, last),
		Norm2: nn.LayerNorm([]int{c.Width}), FC1: linear(c.Width, 4*c.Width, deviation), FC2: linear(4*c.Width, c.Width, last),
		Drop: nn.Dropout(c.Dropout), heads: c.Heads, dropout: c.Dropout,
	})
}

// Forward implements nn.Layer.
func (b *block) Forward(x *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		x := g.Scope(func() *autograd.Variable { return x.Add(b.Drop.Forward(b.attention(x))) })
		return x.Add(b.Drop.Forward(b.feedForward(x)))
	})
}

func (b *block) feedForward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		return b.FC2.Forward(b.FC1.Forward(b.Norm2.Forward(x)).GELU())
	})
}

// attention is causal attention of several heads.
func (b *block) attention(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		qkv := b.QKV.Forward(b.Norm1.Forward(x))
		options := []autograd.AttentionOption{autograd.IsCausal()}
		if b.Training() {
			options = append(options, autograd.AttnDropout(b.dropout))
		}
		return b.Out.Forward(qkv.SelfAttention(b.heads, b.heads, options...))
	})
}
