package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// llama is a language model as one ports it: attention by hand, with rotary positions and a cache.
type llama struct {
	nn.Base
	Embed  *nn.EmbeddingLayer
	Layers []*llamaLayer
	Norm   *nn.RMSNormLayer
	Head   *nn.LinearLayer
}

type llamaLayer struct {
	nn.Base
	Norm       *nn.RMSNormLayer
	Q, K, V, O *nn.LinearLayer
	Rope       *nn.RotaryEmbeddingModule
}

const (
	llamaWidth, llamaHeads, llamaGroups, llamaHead = 16, 4, 2, 4 // two heads of queries share one of keys
	llamaContext                                   = 64
)

func newLlama(vocabulary, layers int) *llama {
	m := &llama{Embed: nn.Embedding(vocabulary, llamaWidth), Norm: nn.RMSNorm([]int{llamaWidth}), Head: nn.Linear(llamaWidth, vocabulary, nn.NoBias())}
	rope := nn.RotaryEmbedding(llamaHead, llamaContext) // one table for all layers
	for range layers {
		m.Layers = append(m.Layers, nn.New(&llamaLayer{
			Norm: nn.RMSNorm([]int{llamaWidth}), Rope: rope,
			Q: nn.Linear(llamaWidth, llamaHeads*llamaHead, nn.NoBias()), K: nn.Linear(llamaWidth, llamaGroups*llamaHead, nn.NoBias()),
			V: nn.Linear(llamaWidth, llamaGroups*llamaHead, nn.NoBias()), O: nn.Linear(llamaHeads*llamaHead, llamaWidth, nn.NoBias()),
		}))
	}
	return nn.New(m)
}

// Logits are those of the token that follows each of tokens, [batch, T], the first of which come after those in the cache.
func (m *llama) Logits(tokens *autograd.Variable, cache *nn.KVCache) *autograd.Variable {
	return m.Scope(tokens, func(g *autograd.Graph) *autograd.Variable {
		positions := cache.Positions(g, tokens.Dim(1))
		x := m.Embed.Forward(tokens)
		for i, l := range m.Layers {
			x = x.Add(l.attend(l.Norm.Forward(x), positions, cache.Layer(i)))
		}
		return m.Head.Forward(m.Norm.Forward(x))
	})
}

func (l *llamaLayer) attend(x, positions *autograd.Variable, cache *nn.KVCacheLayer) *autograd.Variable {
	return l.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		heads := func(p *nn.LinearLayer) *autograd.Variable {
			return p.Forward(x).Reshape(x.Dim(0), x.Dim(1), -1, llamaHead).Transpose(1, 2)
		}
		q, k := l.Rope.AtPositions(heads(l.Q), positions), l.Rope.AtPositions(heads(l.K), positions)
		out := cache.Attend(q, k, heads(l.V))
		return l.O.Forward(out.Transpose(1, 2).Flatten(-2, -1))
	})
}

// A prompt goes in at once, and then each token alone: what the tokens before it left in the cache is not computed again.
func ExampleKVCache() {
	dev := host.Default()
	model := newLlama(50, 2)
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	nn.Eval(model)
	cache, err := nn.NewKVCache(dev, nn.KVCacheSize{Layers: 2, Batch: 1, Heads: llamaGroups, MaxLen: llamaContext, HeadDim: llamaHead})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Release()

	next := func(tokens []int64) int64 {
		g := autograd.NewGraph(dev, autograd.NoGrad())
		defer g.Release()
		best, err := autograd.Values[int64](model.Logits(autograd.FromSlice(g, tokens, 1, len(tokens)), cache).Select(1, -1).ArgMax(-1, false))
		if err != nil {
			log.Fatal(err)
		}
		return best[0]
	}
	text := []int64{3, 14, 15, 9}
	text = append(text, next(text))
	for range 4 {
		text = append(text, next(text[len(text)-1:]))
	}
	fmt.Println(len(text), "tokens,", cache.Len(), "of them in the", cache)

	// The same without a cache's help: all at once.
	cache.Reset()
	whole := func(tokens []int64) []int64 {
		g := autograd.NewGraph(dev, autograd.NoGrad())
		defer g.Release()
		best, err := autograd.Values[int64](model.Logits(autograd.FromSlice(g, tokens, 1, len(tokens)), cache).ArgMax(-1, false))
		if err != nil {
			log.Fatal(err)
		}
		return best
	}(text[:8])
	fmt.Println("the same tokens:", tensor.Shape{len(whole)}, fmt.Sprint(whole[3:]) == fmt.Sprint(text[4:]))
	// Output:
	// 9 tokens, 8 of them in the KVCache(layers=2, batch=1, heads=2, max_len=64, head_dim=4, float32)
	// the same tokens: [8] true
}
