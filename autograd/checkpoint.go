package autograd

import (
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Checkpoint computes f of the inputs and trades time for memory: nothing that f makes on the way is saved for backward, only
// the inputs are, and when backward comes to the result, f runs once more to make it again (torch.utils.checkpoint). A model
// of n equal layers under k checkpoints saves k inputs and, for a while, what n/k layers save.
//
// f gets variables in a graph of its own, and uses parameters and values through that graph (in[i].Graph()): variables that it
// captures from outside are an error. It must compute the same both times. Random operations draw the same numbers, because
// the generator's state is put back; autocasting is as it was. Gradients of parameters that f uses are added to them when its
// second run goes backward.
func Checkpoint(f func(in []*Variable) *Variable, in ...*Variable) *Variable {
	return checkpoint.apply(&segment{f: f}, slices.Clone(in)...)
}

// segment is what a checkpoint remembers to run f again as it ran before.
type segment struct {
	f      func(in []*Variable) *Variable
	random tensor.GeneratorState
	caster Caster
	saving *saving
}

var checkpoint = defineCheckpoint()

func defineCheckpoint() *op {
	o := variadic(define("checkpoint", checkpointForward, rule{uses: inputs}))
	o.joint, o.always = checkpointGrad, true
	return o
}

func checkpointForward(n *node) (*tensor.Tensor, error) {
	if len(n.in) > 62 {
		return nil, fmt.Errorf("%d inputs; at most 62 can be saved", len(n.in))
	}
	s := n.arg.(*segment)
	if s.f == nil {
		return nil, &tensor.ValueError{Op: "Checkpoint", Detail: "the function is nil"}
	}
	s.random, s.caster, s.saving = n.g.Generator().State(), n.g.caster, n.g.saving
	sub := n.g.child(n.g.Generator(), s.caster, true)
	defer sub.Release()
	_, out, err := s.run(sub, n, (*node).tensor)
	if err == nil {
		err = n.checkInputs() // which f may have released
	}
	if err != nil {
		return nil, err
	}
	return out.tensor().Retain(), nil
}

// checkpointGrad runs f again, with gradients, and goes backward through it. The graph of the second run has the leaves'
// gradients, and dies with this function.
func checkpointGrad(n *node, g *tensor.Tensor) ([]*tensor.Tensor, error) {
	s := n.arg.(*segment)
	gen := tensor.NewGenerator(0)
	gen.SetState(s.random)
	sub := n.g.child(gen, s.caster, false)
	sub.saving = s.saving
	defer sub.Release()
	leaves, out, err := s.run(sub, n, (*node).savedInput)
	if err != nil {
		return nil, err
	}
	if !out.Shape().Equal(n.out.Shape()) || out.dtype != n.out.dtype {
		return nil, fmt.Errorf("the function did not compute the same again: %s at first, now %s", n.out.operand(), out.operand())
	}
	if out.requires {
		if err := out.Backward(WithGradient(g)); err != nil {
			return nil, err
		}
	}
	return s.gradients(n, leaves)
}

// run calls f in sub on leaves of the given values of n's inputs, and checks the result.
func (s *segment) run(sub *Graph, n *node, value func(n *node, i int) *tensor.Tensor) (in []*Variable, out *Variable, err error) {
	in = make([]*Variable, len(n.in))
	for i, v := range n.in {
		in[i] = sub.Input(value(n, i))
		in[i].requires = v.requires && !sub.inference
	}
	out = s.f(append([]*Variable(nil), in...))
	if sub.err != nil { // whatever f has made of it
		return nil, nil, sub.err
	}
	if out != nil && out.g != sub {
		return nil, nil, fmt.Errorf("%w: the result is not of the function's graph", ErrOtherGraph)
	}
	return in, out.now(), out.unusable("result")
}

// gradients are those of the leaves. The result may not depend on all of them.
func (s *segment) gradients(n *node, leaves []*Variable) ([]*tensor.Tensor, error) {
	ts := make([]*tensor.Tensor, len(leaves))
	for i, v := range leaves {
		switch {
		case v.grad != nil:
			ts[i] = v.grad.t.Retain()
		case n.flows(i):
			z, err := tensor.Zeros(n.g.exec, v.dtype, v.Shape()...)
			if err != nil {
				for _, t := range ts {
					t.Release()
				}
				return nil, err
			}
			ts[i] = z
		}
	}
	return ts, nil
}

// child is a graph that works as g does, for a computation inside one of g's operations, which releases it.
func (g *Graph) child(gen *tensor.Generator, c Caster, inference bool) *Graph {
	sub := &Graph{
		exec: g.exec, outer: g.outer, dev: g.dev, ledger: new(ledger), anomaly: g.anomaly,
		inference: inference, noGrad: inference, gen: gen, caster: c,
	}
	sub.poison = &Variable{g: sub}
	return sub
}
