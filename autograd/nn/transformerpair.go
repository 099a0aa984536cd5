package nn

import "github.com/cistern-ml/cistern/autograd"

// TransformerModule is an encoder and a decoder (torch.nn.Transformer), with the names of that: encoder.layers.0 and so on, encoder.norm,
// decoder.layers.0 and so on, decoder.norm. Either may be replaced, as by torch's custom_encoder.
type TransformerModule struct {
	Base
	Encoder *TransformerEncoderModule
	Decoder *TransformerDecoderModule
}

// TransformerMasks are the masks of Forward. None is needed.
type TransformerMasks struct {
	Source []AttendOption // of the encoder's attention: src_mask and src_key_padding_mask
	Target []AttendOption // of the decoder's attention to itself: tgt_mask, as IsCausal, and tgt_key_padding_mask
	Memory []AttendOption // of its attention to what the encoder has made: memory_mask and memory_key_padding_mask
}

// Transformer makes an encoder and a decoder of so many layers, 0 to 4096, of the given width, a multiple of heads; PyTorch's defaults are 512, 8, 6 and 6.
// Matrices start uniform by XavierUniform, as in PyTorch. CausalBlock is about the decoder alone.
func Transformer(width, heads, encoders, decoders int, opts ...BlockOption) *TransformerModule {
	m := &TransformerModule{Encoder: TransformerEncoder(LayerNorm([]int{width})), Decoder: TransformerDecoder(LayerNorm([]int{width}))}
	if min(encoders, decoders) < 0 || max(encoders, decoders) > maxLayers {
		m.mistaken(argumentErr("Transformer", "%d layers of the encoder and %d of the decoder; there may be 0 to %d", encoders, decoders, maxLayers))
		encoders, decoders = 0, 0
	}
	c := blockOf(opts)
	inner := append(opts[:len(opts):len(opts)], blockOption(func(c *blockConfig) { c.causal = false }))
	for range encoders {
		l := TransformerBlock(width, heads, inner...)
		l.Linear1, l.Linear2 = xavierLinear(width, c.feedForward), xavierLinear(c.feedForward, width)
		l.SelfAttn.xavier()
		m.Encoder.Layers = append(m.Encoder.Layers, l)
	}
	for range decoders {
		l := DecoderBlock(width, heads, opts...)
		l.Linear1, l.Linear2 = xavierLinear(width, c.feedForward), xavierLinear(c.feedForward, width)
		l.SelfAttn.xavier()
		l.MultiheadAttn.xavier()
		m.Decoder.Layers = append(m.Decoder.Layers, l)
	}
	return New(m)
}

func xavierLinear(in, out int) *LinearLayer { return Linear(in, out, WeightInit(XavierUniform(1))) }

// Forward encodes source and lets the decoder decode target with it. Both are [T, N, width], or [N, T, width] with BatchFirst, or [T, width], with lengths
// of their own; the result has the shape of target. To decode step by step encode once, by Encoder, and give Decoder's Decode caches (CachedLayers).
func (m *TransformerModule) Forward(source, target *autograd.Variable, masks TransformerMasks) *autograd.Variable {
	return within(m, source, func(g *autograd.Graph) *autograd.Variable {
		if m.Encoder == nil || m.Decoder == nil {
			return g.Refuse("transformer", argumentErr("Transformer", "the encoder or the decoder is nil"), source)
		}
		return m.Decoder.Decode(target, m.Encoder.Attend(source, masks.Source...), masks.Target, masks.Memory)
	})
}

// xavier makes the projection of what heads found start by XavierUniform, as torch.nn.Transformer has all matrices.
func (l *MultiheadAttentionLayer) xavier() {
	opts := []LayerOption{BiasInit(Zeros), WeightInit(XavierUniform(1))}
	if l.config.noBias {
		opts = append(opts, NoBias())
	}
	l.OutProj = Linear(l.embed, l.embed, opts...)
}

// String is PyTorch's description.
func (m *TransformerModule) String() string { return Describe("Transformer", m) }
