package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["wordtransformer"] = wordTransformer }

// positionalEncoding adds sines and cosines of the positions.
type positionalEncoding struct {
	nn.Base
	Dropout *nn.DropoutLayer
	PE      *autograd.Parameter `nn:",buffer"`
}

func newPositionalEncoding(model int, dropout float64, maxLen int) *positionalEncoding {
	table := func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		g := autograd.NewGraph(e.Device(), autograd.NoGrad())
		defer g.Release()
		position := g.Arange(0, float64(maxLen), 1, dt).Unsqueeze(1)
		divTerm := g.Arange(0, float64(model), 2, dt).MulScalar(-math.Log(10000) / float64(model)).Exp()
		angles := position.Mul(divTerm)
		return autograd.Stack([]*autograd.Variable{angles.Sin(), angles.Cos()}, 2).View(shape...).Take() // sines at even places
	}
	return nn.New(&positionalEncoding{Dropout: nn.Dropout(dropout), PE: autograd.DeclareParameter("pe", table, maxLen, 1, model)})
}

func (m *positionalEncoding) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return m.Dropout.Forward(x.Add(g.Param(m.PE).Narrow(0, 0, x.Dim(0))))
	})
}

// transformerModel is an encoder, a stack of layers that see no word before its time, and a decoder.
type transformerModel struct {
	nn.Base
	PosEncoder         *positionalEncoding
	TransformerEncoder *nn.TransformerEncoderModule
	Encoder            *nn.EmbeddingLayer
	Decoder            *nn.LinearLayer

	width int
}

func newTransformerModel(tokens, width, heads, hidden, layers int, dropout float64) *transformerModel {
	blocks := make([]*nn.TransformerBlockLayer, layers)
	for i := range blocks {
		blocks[i] = nn.TransformerBlock(width, heads, nn.FeedForward(hidden), nn.BlockDropout(dropout))
	}
	return nn.New(&transformerModel{
		PosEncoder:         newPositionalEncoding(width, dropout, 50),
		TransformerEncoder: nn.TransformerEncoder(nil, blocks...),
		Encoder:            nn.Embedding(tokens, width),
		Decoder:            nn.Linear(width, tokens),
		width:              width,
	})
}

// squareSubsequentMask is 0 where a word may be seen, and minus infinity where not.
func squareSubsequentMask(g *autograd.Graph, n int) *autograd.Variable {
	return g.Ones(tensor.Float64, n, n).Tril(0).Log()
}

func (m *transformerModel) forward(src *autograd.Variable, hasMask bool) *autograd.Variable {
	return m.Scope(src, func(g *autograd.Graph) *autograd.Variable {
		var masks []nn.AttendOption
		if hasMask {
			masks = append(masks, nn.AttnMask(squareSubsequentMask(g, src.Dim(0))))
		}
		x := m.Encoder.Forward(src).MulScalar(math.Sqrt(float64(m.width)))
		x = m.PosEncoder.Forward(x)
		output := m.TransformerEncoder.Attend(x, masks...)
		output = m.Decoder.Forward(output)
		return output.LogSoftmax(-1)
	})
}

// wordTransformer is PyTorch's word_language_model with a Transformer, trained by Adam.
func wordTransformer(p *port) error {
	const words, tokens, width, heads, hidden, layers, batch, bptt = 62, 9, 8, 2, 12, 2, 3, 5
	model := newTransformerModel(tokens, width, heads, hidden, layers, 0)
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	optimizer := optim.Adam(model.Parameters(), optim.LR(0.01))
	p.train(optimizer)
	defer optimizer.Release()

	nn.Train(model)
	train := func(i int) error {
		g := p.graph()
		defer g.Release()
		data, targets := getBatch(corpus(g, words, tokens, batch), i, bptt)
		optimizer.ZeroGrad()
		output := model.forward(data, true).View(-1, tokens)
		loss := output.NLLLoss(targets)
		if err := loss.Backward(); err != nil {
			return err
		}
		norm, err := optim.ClipGradNorm(model.Parameters(), 0.5)
		if err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		return p.losses(g, loss, g.Scalar(norm, tensor.Float64))
	}
	for i := 0; i < words/batch-1; i += bptt {
		if err := train(i); err != nil {
			return err
		}
	}

	// A text of its own: each word is the likeliest one.
	nn.Eval(model)
	g := p.graph(autograd.NoGrad())
	defer g.Release()
	input := autograd.FromSlice(g, []int64{4}, 1, 1)
	for range 6 {
		output := model.forward(input, false)
		word := output.Select(0, -1).ArgMax(-1, true)
		input = autograd.Cat([]*autograd.Variable{input, word}, 0)
	}
	written, err := input.Float64s()
	if err != nil {
		return err
	}
	likelihood := model.forward(input, false)
	for _, w := range written {
		p.log = append(p.log, w)
	}
	return p.losses(g, likelihood.Mean(nil, false), likelihood.Max(nil, false))
}
