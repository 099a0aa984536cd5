package main

import (
	"errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/generate"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["llama"] = llama }

const (
	llamaVocabulary, llamaWidth, llamaHidden, llamaBlocks = 17, 16, 24, 2
	llamaHeads, llamaKVHeads, llamaHead, llamaContext     = 4, 2, 4, 16
)

type llamaModel struct {
	nn.Base
	EmbedTokens *nn.EmbeddingLayer
	Layers      []*llamaLayer
	Norm        *nn.RMSNormLayer
	LMHead      *nn.LinearLayer
}

type llamaLayer struct {
	nn.Base
	InputLayernorm         *nn.RMSNormLayer
	SelfAttn               *llamaAttention
	PostAttentionLayernorm *nn.RMSNormLayer
	MLP                    *llamaMLP
}

type llamaAttention struct {
	nn.Base
	QProj, KProj, VProj, OProj *nn.LinearLayer
	RotaryEmb                  *nn.RotaryEmbeddingModule
}

type llamaMLP struct {
	nn.Base
	GateProj, UpProj, DownProj *nn.LinearLayer
}

func newLlama() *llamaModel {
	linear := func(in, out int) *nn.LinearLayer { return nn.Linear(in, out, nn.NoBias()) }
	norm := func() *nn.RMSNormLayer { return nn.RMSNorm([]int{llamaWidth}, nn.Eps(1e-5)) }
	rotary := nn.RotaryEmbedding(llamaHead, llamaContext)
	m := &llamaModel{EmbedTokens: nn.Embedding(llamaVocabulary, llamaWidth), Norm: norm(), LMHead: linear(llamaWidth, llamaVocabulary)}
	for range llamaBlocks {
		m.Layers = append(m.Layers, nn.New(&llamaLayer{
			InputLayernorm: norm(),
			SelfAttn: nn.New(&llamaAttention{
				QProj: linear(llamaWidth, llamaHeads*llamaHead), KProj: linear(llamaWidth, llamaKVHeads*llamaHead),
				VProj: linear(llamaWidth, llamaKVHeads*llamaHead), OProj: linear(llamaHeads*llamaHead, llamaWidth), RotaryEmb: rotary,
			}),
			PostAttentionLayernorm: norm(),
			MLP: nn.New(&llamaMLP{
				GateProj: linear(llamaWidth, llamaHidden), UpProj: linear(llamaWidth, llamaHidden), DownProj: linear(llamaHidden, llamaWidth),
			}),
		}))
	}
	return nn.New(m)
}

// Logits are [batch, T, vocabulary] for tokens, [batch, T]. cache may be nil.
func (m *llamaModel) Logits(tokens *autograd.Variable, cache *nn.KVCache) *autograd.Variable {
	return m.Scope(tokens, func(g *autograd.Graph) *autograd.Variable {
		positions := g.Arange(0, float64(tokens.Dim(1)), 1, tensor.Int64)
		if cache != nil {
			positions = cache.Positions(g, tokens.Dim(1))
		}
		x := m.EmbedTokens.Forward(tokens)
		for i, l := range m.Layers {
			var past *nn.KVCacheLayer
			if cache != nil {
				past = cache.Layer(i)
			}
			x = x.Add(l.SelfAttn.Attend(l.InputLayernorm.Forward(x), positions, past))
			x = x.Add(l.MLP.Forward(l.PostAttentionLayernorm.Forward(x)))
		}
		return m.LMHead.Forward(m.Norm.Forward(x))
	})
}

func (l *llamaAttention) Attend(x, positions *autograd.Variable, past *nn.KVCacheLayer) *autograd.Variable {
	return l.Scope(x, func(*autograd.Graph) *autograd.Variable {
		heads := func(p *nn.LinearLayer) *autograd.Variable {
			return p.Forward(x).View(x.Dim(0), x.Dim(1), -1, llamaHead).Transpose(1, 2)
		}
		q, k, v := l.RotaryEmb.AtPositions(heads(l.QProj), positions), l.RotaryEmb.AtPositions(heads(l.KProj), positions), heads(l.VProj)
		var out *autograd.Variable
		if past != nil {
			out = past.Attend(q, k, v)
		} else {
			out = autograd.ScaledDotProductAttention(q, k, v, autograd.IsCausal(), autograd.EnableGQA())
		}
		return l.OProj.Forward(out.Transpose(1, 2).Flatten(2, 3))
	})
}

func (l *llamaMLP) Forward(x *autograd.Variable) *autograd.Variable {
	return l.Scope(x, func(*autograd.Graph) *autograd.Variable {
		return l.DownProj.Forward(l.GateProj.Forward(x).SiLU().Mul(l.UpProj.Forward(x)))
	})
}

// llama is the language model of that name: rotary positions, fewer heads of keys than of queries, a gated MLP. It is trained, and then
// writes greedily with a cache of keys and values.
func llama(p *port) error {
	const batch, length, prompt, written = 2, 8, 5, 8
	model := newLlama()
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(0.01), optim.Betas(0.9, 0.95), optim.WeightDecay(0.1))
	p.train(opt)
	defer opt.Release()

	text := func(g *autograd.Graph, phase, length int) *autograd.Variable {
		return g.Arange(0, float64(batch*length), 1, tensor.Int64).Reshape(batch, length).Square().AddScalar(float64(phase)).RemainderScalar(llamaVocabulary)
	}
	step := func(i int) error {
		g := p.graph()
		defer g.Release()
		opt.ZeroGrad()
		tokens := text(g, i, length+1)
		logits := model.Logits(tokens.Slice(1, 0, -1, 1), nil)
		loss := logits.Reshape(-1, llamaVocabulary).CrossEntropy(tokens.Slice(1, 1, tensor.End, 1).Reshape(-1))
		if err := loss.Backward(); err != nil {
			return err
		}
		norm, err := optim.ClipGradNorm(model.Parameters(), 1)
		if err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		return p.losses(g, loss, g.Scalar(norm, tensor.Float64))
	}
	for i := range 3 {
		if err := step(i); err != nil {
			return err
		}
	}
	nn.Eval(model)
	log, err := llamaWrite(p, model, func(g *autograd.Graph) *autograd.Variable { return text(g, 3, prompt) }, batch, written)
	if err != nil {
		return err
	}
	return p.step(log...)
}

// llamaWrite decodes greedily behind a prompt, [batch, T]: the sums of the logits and the tokens of each step. What the logits are
// without a cache must be equal.
func llamaWrite(p *port, model *llamaModel, prompt func(g *autograd.Graph) *autograd.Variable, batch, written int) (log []float64, err error) {
	cache, err := nn.NewKVCache(p.dev, nn.KVCacheSize{Layers: llamaBlocks, Batch: batch, Heads: llamaKVHeads, MaxLen: llamaContext, HeadDim: llamaHead},
		nn.DType(tensor.Float64))
	if err != nil {
		return nil, err
	}
	defer cache.Release()
	g := p.graph(autograd.NoGrad())
	defer g.Release()
	tokens := prompt(g)
	next := tokens
	for range written {
		logits := model.Logits(next, cache).Select(1, -1)
		same := model.Logits(tokens, nil).Select(1, -1).IsClose(logits, 1e-12, 1e-12, false).All(nil, false)
		if equal, err := same.Item(); err != nil {
			return nil, err
		} else if equal == 0 {
			return nil, errors.New("logits differ with and without a cache")
		}
		next = generate.Greedy(logits).Unsqueeze(1)
		tokens = autograd.Cat([]*autograd.Variable{tokens, next}, 1)
		sum, err := logits.Sum(nil, false).Item()
		if err != nil {
			return nil, err
		}
		chosen, err := next.Float64s()
		if err != nil {
			return nil, err
		}
		log = append(append(log, sum), chosen...)
	}
	return log, nil
}
