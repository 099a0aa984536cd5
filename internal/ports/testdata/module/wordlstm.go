package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["wordlstm"] = wordLSTM }

// rnnModel is an encoder, a recurrent module and a decoder.
type rnnModel struct {
	nn.Base
	Drop    *nn.DropoutLayer
	Encoder *nn.EmbeddingLayer
	RNN     *nn.RNNLayer
	Decoder *nn.LinearLayer

	tokens, units, layers int
}

func newRNNModel(tokens, width, units, layers int, dropout float64) *rnnModel {
	m := nn.New(&rnnModel{
		Drop:    nn.Dropout(dropout),
		Encoder: nn.Embedding(tokens, width),
		RNN:     nn.LSTM(width, units, nn.Layers(layers), nn.DropoutBetween(dropout)),
		Decoder: nn.Linear(units, tokens),
		tokens:  tokens, units: units, layers: layers,
	})
	m.Decoder.Weight = m.Encoder.Weight // tied: width is units
	return m
}

func (m *rnnModel) forward(input, h, c *autograd.Variable) (decoded, nextH, nextC *autograd.Variable) {
	m.Scopes(input, func(*autograd.Graph) []*autograd.Variable {
		var output *autograd.Variable
		emb := m.Drop.Forward(m.Encoder.Forward(input))
		output, nextH, nextC = m.RNN.ForwardState(emb, h, c)
		decoded = m.Decoder.Forward(m.Drop.Forward(output)).View(-1, m.tokens)
		return []*autograd.Variable{decoded, nextH, nextC}
	})
	return decoded, nextH, nextC
}

// hidden is the state between two steps: tensors, through which no gradients flow.
type hidden struct{ h, c *tensor.Tensor }

func (m *rnnModel) initHidden(e tensor.Exec, batch int) (s hidden, err error) {
	if s.h, err = tensor.Zeros(e, tensor.Float64, m.layers, batch, m.units); err != nil {
		return s, err
	}
	s.c, err = tensor.Zeros(e, tensor.Float64, m.layers, batch, m.units)
	return s, err
}

// repackage takes the state out of its graph.
func (s *hidden) repackage(h, c *autograd.Variable) (err error) {
	s.release()
	if s.h, err = h.Take(); err != nil {
		return err
	}
	s.c, err = c.Take()
	return err
}

func (s *hidden) release() {
	s.h.Release()
	s.c.Release()
	s.h, s.c = nil, nil
}

// corpus is a text of n words, in columns that are read beside each other.
func corpus(g *autograd.Graph, n, tokens, batch int) *autograd.Variable {
	words := make([]int64, n)
	for i := range words {
		words[i] = int64((i*i + 3*i) % tokens)
	}
	rows := n / batch
	return autograd.FromSlice(g, words).Narrow(0, 0, rows*batch).View(batch, -1).T().Contiguous()
}

// getBatch gives the words from row i on, and for each the one after it.
func getBatch(source *autograd.Variable, i, bptt int) (data, target *autograd.Variable) {
	n := min(bptt, source.Dim(0)-1-i)
	return source.Slice(0, i, i+n, 1), source.Slice(0, i+1, i+1+n, 1).Reshape(-1)
}

// wordLSTM is PyTorch's word_language_model with an LSTM: the state goes from one piece of the text to the next, and the step is
// written out.
func wordLSTM(p *port) error {
	const words, tokens, width, layers, batch, bptt, clip, lr = 65, 11, 6, 2, 3, 4, 0.25, 5.0
	model := newRNNModel(tokens, width, width, layers, 0)
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	e, err := tensor.On(p.dev)
	if err != nil {
		return err
	}
	state, err := model.initHidden(e, batch)
	if err != nil {
		return err
	}
	defer state.release()
	p.carry(&state.h, &state.c)

	nn.Train(model)
	train := func(i int) error {
		g := p.graph()
		defer g.Release()
		data, targets := getBatch(corpus(g, words, tokens, batch), i, bptt)
		for _, q := range model.Parameters() {
			q.ZeroGrad()
		}
		output, h, c := model.forward(data, g.Input(state.h), g.Input(state.c))
		h.Keep()
		c.Keep()
		loss := output.CrossEntropy(targets)
		if err := loss.Backward(); err != nil {
			return err
		}
		norm, err := optim.ClipGradNorm(model.Parameters(), clip)
		if err != nil {
			return err
		}
		for _, q := range model.Parameters() {
			if err := q.Tensor().AddInPlace(q.Grad(), -lr); err != nil {
				return err
			}
		}
		if err := state.repackage(h, c); err != nil {
			return err
		}
		return p.losses(g, loss, g.Scalar(norm, tensor.Float64))
	}
	for i := 0; i < words/batch-1; i += bptt {
		if err := train(i); err != nil {
			return err
		}
	}

	nn.Eval(model)
	evaluate := func(i int) (float64, error) {
		g := p.graph(autograd.NoGrad())
		defer g.Release()
		data, targets := getBatch(corpus(g, words, tokens, batch), i, bptt)
		output, h, c := model.forward(data, g.Input(state.h), g.Input(state.c))
		loss, err := output.CrossEntropy(targets).Item()
		if err != nil {
			return 0, err
		}
		return float64(data.Dim(0)) * loss, state.repackage(h, c)
	}
	total, rows := 0.0, words/batch
	for i := 0; i < rows-1; i += bptt {
		loss, err := evaluate(i)
		if err != nil {
			return err
		}
		total += loss
	}
	valLoss := total / float64(rows-1)
	return p.step(valLoss, math.Exp(valLoss))
}
