package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// TransformerBlockLayer is a layer of a transformer: attention of the sequence to itself and a feed-forward part, each beside a way past
// it, with a layer norm after each sum or before each part (Vaswani et al., "Attention is all you need", 2017). It is
// torch.nn.TransformerEncoderLayer, and its parameters have the names of that.
type TransformerBlockLayer struct {
	Base
	SelfAttn         *MultiheadAttentionLayer
	Linear1, Linear2 *LinearLayer
	Norm1, Norm2     *LayerNormLayer

	width, heads int
	config       blockConfig
	drop         *DropoutLayer
}

// BlockOption changes TransformerBlock and DecoderBlock. BatchFirst is one, too.
type BlockOption interface{ applyBlock(c *blockConfig) }

type blockOption func(*blockConfig)

func (o blockOption) applyBlock(c *blockConfig) { o(c) }

func (BatchFirstOption) applyBlock(c *blockConfig) { c.batchFirst = true }

type blockConfig struct {
	feedForward                         int
	dropout                             float64
	gelu, normFirst, causal, batchFirst bool
}

// FeedForward is the width of the feed-forward part; the default is 2048.
func FeedForward(width int) BlockOption {
	return blockOption(func(c *blockConfig) { c.feedForward = width })
}

// BlockDropout sets weights of attention, and elements after each part and after the activation, to 0 with probability p in
// training; the default is 0.1.
func BlockDropout(p float64) BlockOption { return blockOption(func(c *blockConfig) { c.dropout = p }) }

// ActivationGELU makes the activation GELU instead of ReLU.
func ActivationGELU() BlockOption { return blockOption(func(c *blockConfig) { c.gelu = true }) }

// NormFirst normalises before each part instead of after each sum.
func NormFirst() BlockOption { return blockOption(func(c *blockConfig) { c.normFirst = true }) }

// CausalBlock lets each place attend to itself and those before it only. PyTorch says so in each call, by is_causal.
func CausalBlock() BlockOption { return blockOption(func(c *blockConfig) { c.causal = true }) }

func blockOf(opts []BlockOption) blockConfig {
	c := blockConfig{feedForward: 2048, dropout: 0.1}
	for _, o := range opts {
		if o != nil {
			o.applyBlock(&c)
		}
	}
	return c
}

// attention are the options of attention in a layer.
func (c *blockConfig) attention() []AttentionLayerOption {
	opts := []AttentionLayerOption{AttentionDropout(c.dropout)}
	if c.batchFirst {
		opts = append(opts, BatchFirst())
	}
	return opts
}

// TransformerBlock makes a layer of the given width, a multiple of heads.
func TransformerBlock(width, heads int, opts ...BlockOption) *TransformerBlockLayer {
	c := blockOf(opts)
	l := &TransformerBlockLayer{
		SelfAttn: MultiheadAttention(width, heads, c.attention()...),
		Linear1:  Linear(width, c.feedForward), Linear2: Linear(c.feedForward, width),
		Norm1: LayerNorm([]int{width}), Norm2: LayerNorm([]int{width}),
		width: width, heads: heads, config: c, drop: Dropout(c.dropout),
	}
	l.refuseProbability("TransformerBlock", c.dropout)
	RegisterField(&l.Base, "self_attn", &l.SelfAttn)
	RegisterField(&l.Base, "linear1", &l.Linear1)
	RegisterField(&l.Base, "linear2", &l.Linear2)
	RegisterField(&l.Base, "norm1", &l.Norm1)
	RegisterField(&l.Base, "norm2", &l.Norm2)
	RegisterField(&l.Base, "dropout", &l.drop)
	return l
}

// Forward implements Layer: x is [T, N, width], or [N, T, width] with BatchFirst, or [T, width], and so is the result.
func (l *TransformerBlockLayer) Forward(x *autograd.Variable) *autograd.Variable { return l.Attend(x) }

// Attend is Forward with masks.
func (l *TransformerBlockLayer) Attend(x *autograd.Variable, opts ...AttendOption) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := l.incomplete(); err != nil {
			return g.Refuse("transformer_block", err, x)
		}
		if l.config.causal {
			opts = append(opts[:len(opts):len(opts)], IsCausal())
		}
		attend := func(x *autograd.Variable) *autograd.Variable { return l.SelfAttn.Attend(x, x, x, opts...) }
		b := l.beside()
		sum := g.Scope(func() *autograd.Variable { return b.add(x, attend, l.Norm1) })
		return b.add(sum, b.feedForward, l.Norm2)
	})
}

func (l *TransformerBlockLayer) beside() beside {
	return beside{&l.config, l.drop, l.Linear1, l.Linear2}
}

// beside is what the layers of encoders and decoders have in common: parts, each beside a way past it.
type beside struct {
	config           *blockConfig
	drop             *DropoutLayer
	linear1, linear2 *LinearLayer
}

// add adds what part makes of x to x; norm comes before the part or after the sum.
func (b *beside) add(x *autograd.Variable, part func(x *autograd.Variable) *autograd.Variable, norm *LayerNormLayer) *autograd.Variable {
	branch := func(x *autograd.Variable) *autograd.Variable {
		return x.Graph().Scope(func() *autograd.Variable { return b.drop.Forward(part(x)) })
	}
	if b.config.normFirst {
		return x.Add(branch(norm.Forward(x)))
	}
	return norm.Forward(x.Add(branch(x)))
}

func (b *beside) feedForward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable { return b.linear2.Forward(b.drop.Forward(b.activated(x))) })
}

// activated is the first linear layer and the activation, in one pass unless there are hooks, which see what is between them.
func (b *beside) activated(x *autograd.Variable) *autograd.Variable {
	switch hooked := b.linear1.hooked(); {
	case hooked && b.config.gelu:
		return b.linear1.Forward(x).GELU()
	case hooked:
		return b.linear1.Forward(x).ReLU()
	case b.config.gelu:
		return b.linear1.forward(x, (*autograd.Variable).LinearGELU)
	}
	return b.linear1.forward(x, (*autograd.Variable).LinearReLU)
}

// incomplete says which field is nil.
func (l *TransformerBlockLayer) incomplete() error {
	missing := ""
	switch {
	case l.SelfAttn == nil:
		missing = "self_attn"
	case l.Linear1 == nil:
		missing = "linear1"
	case l.Linear2 == nil:
		missing = "linear2"
	case l.Norm1 == nil:
		missing = "norm1"
	case l.Norm2 == nil:
		missing = "norm2"
	case l.drop == nil:
		missing = "dropout"
	default:
		return nil
	}
	return argumentErr(l.String(), "the field of part %s is nil", missing)
}

// String names the layer and its sizes.
func (l *TransformerBlockLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("TransformerBlock(width=%d, heads=%d, feed_forward=%d, dropout=%v, norm_first=%s)", l.width, l.heads, l.config.feedForward,
		l.config.dropout, truth(l.config.normFirst))
}
