package lm

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/examples/internal/text"
)

// capture makes the step that is captured and replayed, if that is wanted: the one of TrainStep.
func (t *Trainer) capture() (err error) {
	if !t.Graph {
		return nil
	}
	t.graph, err = stepgraph.New(t.Device, t.captured, stepgraph.Modules(t.model), stepgraph.WithGenerator(t.gen),
		stepgraph.GraphOptions(t.autocast()...))
	return err
}

// captured is a training step. Learning rate, the steps taken, the loss's scale and the random numbers of dropout are those of the time in each
// replay.
func (t *Trainer) captured(_ *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
	loss := t.lossOf(in[0], in[1]).Keep()
	if err := t.scaler.Backward(loss); err != nil {
		return nil, err
	}
	if err := t.update(); err != nil {
		return nil, err
	}
	return []*autograd.Variable{loss}, nil
}

// replayStep is TrainStep by the graph.
func (t *Trainer) replayStep() (float64, error) {
	x, y, err := text.Random(t.exec, t.Corpus.Train, t.Seed, uint64(t.step), t.Batch, t.Seq)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	defer y.Release()
	t.opt.SetLR(t.rate(t.step))
	out, err := t.graph.Run(x, y)
	if err != nil {
		return 0, err
	}
	loss, err := out[0].Item()
	if err != nil {
		return 0, err
	}
	t.step++
	t.Session.Step()
	return loss, nil
}

// endGraph gives the memory of the graph back. Without one it does nothing.
func (t *Trainer) endGraph() error {
	graph := t.graph
	t.graph = nil
	return graph.Close()
}
