package main

import (
	"errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/tensor"
)

// leastWarm is how many steps of a captured training do not count at least: an eager one, and the one that captures.
const leastWarm = 2

// capture makes the step that is captured and replayed, before the optimizer has state: the model is on the step's stream from then on.
// The batch stays where it is, and is copied to the graph's places by each step, as a new one would be.
func (r *trainer) capture() (err error) {
	r.graph, err = stepgraph.New(r.dev, r.captured, stepgraph.Modules(r.net), stepgraph.GraphOptions(r.autocast()...), stepgraph.WarmUp(r.Warm-1))
	if err != nil {
		return err
	}
	if !r.graph.Captures() {
		return errors.New("steps are captured on a GPU, with an allocator that caches")
	}
	r.exec = r.graph.Exec()
	return nil
}

// captured is what a captured step does: what an eager one does, but for the gradients, which the graph releases.
func (r *trainer) captured(_ *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
	loss := r.loss(in[0], in[1])
	if err := r.scaler.Backward(loss); err != nil {
		return nil, err
	}
	return []*autograd.Variable{loss}, r.update()
}

// replay is step by the graph. The loss is the graph's until the next step.
func (r *trainer) replay(read bool) (*tensor.Tensor, error) {
	out, err := r.graph.Run(r.x.Tensor(), r.y.Tensor())
	if err != nil || !read {
		return nil, err
	}
	return out[0], nil
}
