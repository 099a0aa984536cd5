package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["timesequence"] = timeSequence }

// sequence is two cells, one above the other, and a layer that gives the next value.
type sequence struct {
	nn.Base
	LSTM1, LSTM2 *nn.RNNCellLayer
	Linear       *nn.LinearLayer

	units int
}

func newSequence(units int) *sequence {
	return nn.New(&sequence{LSTM1: nn.LSTMCell(1, units), LSTM2: nn.LSTMCell(units, units), Linear: nn.Linear(units, 1), units: units})
}

// forward gives the value after each one of input, [N, T], and future more, each after the one that it gave before.
func (m *sequence) forward(input *autograd.Variable, future int) *autograd.Variable {
	return m.Scope(input, func(g *autograd.Graph) *autograd.Variable {
		var outputs []*autograd.Variable
		ht, ct := g.Zeros(tensor.Float64, input.Dim(0), m.units), g.Zeros(tensor.Float64, input.Dim(0), m.units)
		ht2, ct2 := g.Zeros(tensor.Float64, input.Dim(0), m.units), g.Zeros(tensor.Float64, input.Dim(0), m.units)

		var output *autograd.Variable
		for _, inputT := range input.Split(1, 1) {
			ht, ct = m.LSTM1.Step(inputT, ht, ct)
			ht2, ct2 = m.LSTM2.Step(ht, ht2, ct2)
			output = m.Linear.Forward(ht2)
			outputs = append(outputs, output)
		}
		for range future { // what should come, if the future is predicted
			ht, ct = m.LSTM1.Step(output, ht, ct)
			ht2, ct2 = m.LSTM2.Step(ht, ht2, ct2)
			output = m.Linear.Forward(ht2)
			outputs = append(outputs, output)
		}
		return autograd.Cat(outputs, 1)
	})
}

// sines are n of length t, each beginning elsewhere.
func sines(g *autograd.Graph, n, t int) *autograd.Variable {
	x := make([]float64, 0, n*t)
	for i := range n {
		for j := range t {
			x = append(x, math.Sin(float64(j+5*i)/3))
		}
	}
	return autograd.FromSlice(g, x, n, t)
}

// timeSequence is PyTorch's time_sequence_prediction: cells learn sine waves by LBFGS, and go on with them.
func timeSequence(p *port) error {
	const n, length, units, future = 7, 16, 6, 8
	seq := newSequence(units)
	if err := p.place(seq); err != nil {
		return err
	}
	defer seq.Release()
	criterion := nn.MSELoss()
	optimizer := optim.LBFGS(seq.Parameters(), optim.LR(0.8), optim.MaxIter(5))
	p.train(optimizer)
	defer optimizer.Release()

	closure := func() (float64, error) {
		optimizer.ZeroGrad()
		g := p.graph()
		defer g.Release()
		data := sines(g, n, length)
		input, target := data.Slice(0, 3, tensor.End, 1).Slice(1, 0, -1, 1), data.Slice(0, 3, tensor.End, 1).Slice(1, 1, tensor.End, 1)
		out := seq.forward(input, 0)
		loss := criterion(out, target)
		if err := loss.Backward(); err != nil {
			return 0, err
		}
		value, err := loss.Item()
		p.log = append(p.log, value)
		return value, err
	}
	predict := func() error {
		g := p.graph(autograd.NoGrad())
		defer g.Release()
		data := sines(g, n, length)
		testInput, testTarget := data.Slice(0, 0, 3, 1).Slice(1, 0, -1, 1), data.Slice(0, 0, 3, 1).Slice(1, 1, tensor.End, 1)
		pred := seq.forward(testInput, future)
		loss := criterion(pred.Slice(1, 0, -future, 1), testTarget)
		last := pred.Select(1, -1).Unbind(0)
		return p.losses(g, append(last, loss)...)
	}
	for range 4 {
		if _, err := optimizer.StepClosure(closure); err != nil {
			return err
		}
		if err := predict(); err != nil { // begin to predict: no gradients here
			return err
		}
	}
	return nil
}
