package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// DecoderBlockLayer is a layer of the decoder of a transformer: attention of the sequence to itself, attention to the memory, which an encoder has made,
// and a feed-forward part, each beside a way past it, as in TransformerBlockLayer. It is torch.nn.TransformerDecoderLayer, and its parameters have
// the names of that.
type DecoderBlockLayer struct {
	Base
	SelfAttn, MultiheadAttn *MultiheadAttentionLayer
	Linear1, Linear2        *LinearLayer
	Norm1, Norm2, Norm3     *LayerNormLayer

	width, heads int
	config       blockConfig
	drop         *DropoutLayer
}

// DecoderBlock makes a layer of the given width, a multiple of heads. CausalBlock is about the attention to itself.
func DecoderBlock(width, heads int, opts ...BlockOption) *DecoderBlockLayer {
	c := blockOf(opts)
	l := &DecoderBlockLayer{
		SelfAttn: MultiheadAttention(width, heads, c.attention()...), MultiheadAttn: MultiheadAttention(width, heads, c.attention()...),
		Linear1: Linear(width, c.feedForward), Linear2: Linear(c.feedForward, width),
		Norm1: LayerNorm([]int{width}), Norm2: LayerNorm([]int{width}), Norm3: LayerNorm([]int{width}),
		width: width, heads: heads, config: c, drop: Dropout(c.dropout),
	}
	l.refuseProbability("DecoderBlock", c.dropout)
	RegisterField(&l.Base, "self_attn", &l.SelfAttn)
	RegisterField(&l.Base, "multihead_attn", &l.MultiheadAttn)
	RegisterField(&l.Base, "linear1", &l.Linear1)
	RegisterField(&l.Base, "linear2", &l.Linear2)
	RegisterField(&l.Base, "norm1", &l.Norm1)
	RegisterField(&l.Base, "norm2", &l.Norm2)
	RegisterField(&l.Base, "norm3", &l.Norm3)
	RegisterField(&l.Base, "dropout", &l.drop)
	return l
}

// Decode computes the layer's function: x is [T, N, width], or [N, T, width] with BatchFirst, or [T, width], and so is the result; memory is [S, N, width]
// or the like. self are the masks of the attention of x to itself, cross those of the attention to memory.
func (l *DecoderBlockLayer) Decode(x, memory *autograd.Variable, self, cross []AttendOption) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := l.incomplete(); err != nil {
			return g.Refuse("decoder_block", err, x)
		}
		if l.config.causal {
			self = append(self[:len(self):len(self)], IsCausal())
		}
		attend := func(x *autograd.Variable) *autograd.Variable { return l.SelfAttn.Attend(x, x, x, self...) }
		look := func(x *autograd.Variable) *autograd.Variable {
			return l.MultiheadAttn.Attend(x, memory, memory, cross...)
		}
		b := beside{&l.config, l.drop, l.Linear1, l.Linear2}
		sum := g.Scope(func() *autograd.Variable {
			first := g.Scope(func() *autograd.Variable { return b.add(x, attend, l.Norm1) })
			return b.add(first, look, l.Norm2)
		})
		return b.add(sum, b.feedForward, l.Norm3)
	})
}

// incomplete says which field is nil.
func (l *DecoderBlockLayer) incomplete() error {
	for _, f := range []struct {
		name string
		nil  bool
	}{
		{"self_attn", l.SelfAttn == nil}, {"multihead_attn", l.MultiheadAttn == nil}, {"linear1", l.Linear1 == nil}, {"linear2", l.Linear2 == nil},
		{"norm1", l.Norm1 == nil}, {"norm2", l.Norm2 == nil}, {"norm3", l.Norm3 == nil}, {"dropout", l.drop == nil},
	} {
		if f.nil {
			return argumentErr(l.String(), "the field of part %s is nil", f.name)
		}
	}
	return nil
}

// String names the layer and its sizes.
func (l *DecoderBlockLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("DecoderBlock(width=%d, heads=%d, feed_forward=%d, dropout=%v, norm_first=%s)", l.width, l.heads, l.config.feedForward,
		l.config.dropout, truth(l.config.normFirst))
}

// TransformerEncoderModule runs layers one after the other (torch.nn.TransformerEncoder), with the names of that: layers.0 and so on, and norm.
type TransformerEncoderModule struct {
	Base
	Layers []*TransformerBlockLayer
	Norm   *LayerNormLayer // of the result, or nil
}

// TransformerEncoder makes an encoder of layers, and of a layer norm behind the last one, which may be nil. PyTorch copies one layer: Clone does so, and
// layers that are made one by one start with values of their own.
func TransformerEncoder(norm *LayerNormLayer, layers ...*TransformerBlockLayer) *TransformerEncoderModule {
	return New(&TransformerEncoderModule{Layers: layers, Norm: norm})
}

// Forward implements Layer: shapes are those of TransformerBlockLayer.
func (m *TransformerEncoderModule) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Attend(x)
}

// Attend is Forward with masks, which are those of each layer.
func (m *TransformerEncoderModule) Attend(x *autograd.Variable, opts ...AttendOption) *autograd.Variable {
	return within(m, x, func(g *autograd.Graph) *autograd.Variable {
		of, _, err := layered("TransformerEncoder", len(m.Layers), opts)
		if err != nil {
			return g.Refuse("attention", err, x)
		}
		y := stacked(g, x, len(m.Layers), func(i int, x *autograd.Variable) *autograd.Variable { return m.Layers[i].Attend(x, of(i)...) })
		if m.Norm == nil {
			return y
		}
		return m.Norm.Forward(y)
	})
}

// TransformerDecoderModule runs layers one after the other (torch.nn.TransformerDecoder), with the names of that: layers.0 and so on, and norm.
type TransformerDecoderModule struct {
	Base
	Layers []*DecoderBlockLayer
	Norm   *LayerNormLayer // of the result, or nil
}

// TransformerDecoder makes a decoder of layers, and of a layer norm behind the last one, which may be nil. See TransformerEncoder.
func TransformerDecoder(norm *LayerNormLayer, layers ...*DecoderBlockLayer) *TransformerDecoderModule {
	return New(&TransformerDecoderModule{Layers: layers, Norm: norm})
}

// Decode lets each layer decode what the one before has made, with the same memory and masks: see DecoderBlockLayer.Decode. With CachedLayers among self x
// is the positions that come after those of the cache, and with another one among cross keys and values of memory are computed in the first call alone.
func (m *TransformerDecoderModule) Decode(x, memory *autograd.Variable, self, cross []AttendOption) *autograd.Variable {
	return within(m, x, func(g *autograd.Graph) *autograd.Variable {
		toItself, positions, err := layered("TransformerDecoder", len(m.Layers), self)
		if err != nil {
			return g.Refuse("attention", err, x)
		}
		toMemory, memories, err := layered("TransformerDecoder", len(m.Layers), cross)
		if err == nil && positions != nil && positions == memories {
			err = argumentErr("TransformerDecoder", "one KVCache for the attention to itself and for that to the memory; each needs its own")
		}
		if err != nil {
			return g.Refuse("attention", err, x)
		}
		y := stacked(g, x, len(m.Layers), func(i int, x *autograd.Variable) *autograd.Variable {
			return m.Layers[i].Decode(x, memory, toItself(i), toMemory(i))
		})
		if m.Norm == nil {
			return y
		}
		return m.Norm.Forward(y)
	})
}

// String is PyTorch's description.
func (m *TransformerEncoderModule) String() string { return Describe("TransformerEncoder", m) }

// String is PyTorch's description.
func (m *TransformerDecoderModule) String() string { return Describe("TransformerDecoder", m) }

// stacked runs n layers. The scope of each holds its input, which is freed when it has run, unless it was saved for backward.
func stacked(g *autograd.Graph, x *autograd.Variable, n int, layer func(i int, x *autograd.Variable) *autograd.Variable) *autograd.Variable {
	if n == 0 {
		return x
	}
	return g.Scope(func() *autograd.Variable { return layer(n-1, stacked(g, x, n-1, layer)) })
}
