package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// model is GPT-2, with the parameters' names that it has in Hugging Face's files, without their prefix.
type model struct {
	nn.Base
	Tokens    *nn.EmbeddingLayer `nn:"wte"`
	Positions *nn.EmbeddingLayer `nn:"wpe"`
	Blocks    []*block           `nn:"h"`
	Norm      *nn.LayerNormLayer `nn:"ln_f"`
	Head      *nn.LinearLayer    `nn:"lm_head"` // nil where it is the embedding
}

// newModel makes a model without values.
func newModel(c config) *model {
	m := &model{Tokens: nn.Embedding(c.Vocab, c.Width), Positions: nn.Embedding(c.Context, c.Width), Norm: nn.LayerNorm([]int{c.Width}, nn.Eps(c.Eps))}
	for range c.Layers {
		m.Blocks = append(m.Blocks, newBlock(c))
	}
	if !c.Tied {
		m.Head = nn.Linear(c.Width, c.Vocab, nn.NoBias())
	}
	return nn.New(m)
}

// Forward gives the logits, [batch, length, vocabulary], of the token that follows each token of x, [batch, length].
func (m *model) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.logits(m.hidden(x, 0)) })
}

// Last gives the logits, [batch, vocabulary], of the token that follows the last one alone. at is the place of x's first token.
func (m *model) Last(x *autograd.Variable, at int) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.logits(m.hidden(x, at).Select(1, -1)) })
}

// hidden is what all layers make of tokens, the first of which is at a place.
func (m *model) hidden(x *autograd.Variable, at int) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		g := x.Graph()
		h := m.Tokens.Forward(x).Add(g.Param(m.Positions.Weight).Narrow(0, at, x.Dim(-1)))
		for _, b := range m.Blocks {
			before := h
			h = b.Forward(before)
			before.Release() // what backward needs of it, its readers have saved
		}
		return m.Norm.Forward(h)
	})
}

func (m *model) logits(h *autograd.Variable) *autograd.Variable {
	if m.Head == nil {
		return h.Linear(h.Graph().Param(m.Tokens.Weight), nil)
	}
	return m.Head.Forward(h)
}

// block is a layer.
type block struct {
	nn.Base
	Norm1     *nn.LayerNormLayer `nn:"ln_1"`
	Attention *attention         `nn:"attn"`
	Norm2     *nn.LayerNormLayer `nn:"ln_2"`
	MLP       *mlp               `nn:"mlp"`
}

func newBlock(c config) *block {
	norm := func() *nn.LayerNormLayer { return nn.LayerNorm([]int{c.Width}, nn.Eps(c.Eps)) }
	return nn.New(&block{Norm1: norm(), Attention: newAttention(c), Norm2: norm(), MLP: newMLP(c)})
}

// Forward implements nn.Layer.
func (b *block) Forward(x *autograd.Variable) *autograd.Variable {
	return b.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		x := g.Scope(func() *autograd.Variable { return x.Add(b.Attention.Forward(b.Norm1.Forward(x))) })
		return x.Add(b.MLP.Forward(b.Norm2.Forward(x)))
	})
}

// attention is causal attention of several heads.
type attention struct {
	nn.Base
	QKV   nn.Layer `nn:"c_attn"` // a Linear, or one with an adapter
	Out   nn.Layer `nn:"c_proj"`
	heads int
}

func newAttention(c config) *attention {
	return nn.New(&attention{QKV: nn.Linear(c.Width, 3*c.Width), Out: nn.Linear(c.Width, c.Width), heads: c.Heads})
}

// Forward implements nn.Layer.
func (a *attention) Forward(x *autograd.Variable) *autograd.Variable {
	return a.Scope(x, func(*autograd.Graph) *autograd.Variable {
		return a.Out.Forward(a.QKV.Forward(x).SelfAttention(a.heads, a.heads, autograd.IsCausal()))
	})
}

// mlp is the feed-forward part.
type mlp struct {
	nn.Base
	In  *nn.LinearLayer `nn:"c_fc"`
	Out *nn.LinearLayer `nn:"c_proj"`
}

func newMLP(c config) *mlp {
	return nn.New(&mlp{In: nn.Linear(c.Width, c.inner()), Out: nn.Linear(c.inner(), c.Width)})
}

// Forward implements nn.Layer.
func (m *mlp) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.Out.Forward(m.In.Forward(x).GELUTanh()) })
}
