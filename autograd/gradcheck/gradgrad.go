package gradcheck

import (
	"math"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// CheckGradGrad compares second derivatives with finite differences, as torch.autograd.gradgradcheck. The gradients of the weighted sum of
// f's results, computed with CreateGraph, must equal those of an ordinary pass; then the gradients of a weighted sum of them, by
// the inputs and by the weights, must equal the finite differences of what ordinary passes give. Errors are as those of Check; of an
// *Error the input after the last one stands for the weights.
func CheckGradGrad(dev device.Device, f Func, inputs []*tensor.Tensor, opts ...Option) error {
	c := newCheck(dev, f, inputs, opts)
	if err := c.wrong(); err != nil {
		return err
	}
	gradients, err := c.twice()
	if err != nil {
		return err
	}
	at := make([][]float64, len(inputs), len(inputs)+1)
	for i, t := range inputs {
		if at[i], err = t.Float64s(); err != nil {
			return err
		}
	}
	at = append(at, c.weights)
	for i := range at {
		if i < len(inputs) && inputs[i].DType() != tensor.Float64 {
			continue
		}
		if err := c.comparing(i, gradients[i], at[i], func() (float64, error) { return c.slopes(at) }); err != nil {
			return err
		}
	}
	return nil
}

// leaves makes the inputs of a graph, of which those of type float64 have the elements of at, or their own if it is nil.
func (c *check) leaves(g *autograd.Graph, at [][]float64) []*autograd.Variable {
	vars := make([]*autograd.Variable, len(c.inputs))
	for i, t := range c.inputs {
		switch {
		case t.DType() != tensor.Float64:
			vars[i] = g.Input(t)
		case at == nil:
			vars[i] = g.Input(t, autograd.RequiresGrad())
		default:
			vars[i] = c.leaf(g, at[i], t.Shape())
		}
	}
	return vars
}

// leaf makes a leaf of elements.
func (c *check) leaf(g *autograd.Graph, elements []float64, shape tensor.Shape) *autograd.Variable {
	t, err := tensor.FromSlice(g.Exec(), elements, shape...)
	if err != nil {
		g.Fail(err)
	}
	defer t.Release()
	return g.Input(t, autograd.RequiresGrad())
}

// random are normal numbers of a fixed seed.
func random(seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// differentiable are the leaves that gradients flow to.
func differentiable(vars []*autograd.Variable) []*autograd.Variable {
	var list []*autograd.Variable
	for _, v := range vars {
		if v.RequiresGrad() {
			list = append(list, v)
		}
	}
	return list
}

// twice computes the second derivatives, of each input and of the weights.
func (c *check) twice() ([][]float64, error) {
	g := autograd.NewGraph(c.dev, c.options()...)
	defer g.Release()
	vars := c.leaves(g, nil)
	if err := g.Err(); err != nil {
		return nil, err
	}
	out := c.f(vars)
	if err := g.Err(); err != nil {
		return nil, err
	}
	c.weights = random(1, out.Len())
	w := c.leaf(g, c.weights, out.Shape())
	first, err := autograd.Grad([]*autograd.Variable{out}, differentiable(vars), autograd.GradOutputs(w), autograd.CreateGraph())
	if err != nil {
		return nil, err
	}
	if err := c.agrees(first); err != nil {
		return nil, err
	}
	total := weigh(first)
	if total == nil || !total.RequiresGrad() {
		return collect(append(vars, w))
	}
	if err := total.Backward(); err != nil {
		return nil, err
	}
	return collect(append(vars, w))
}

// weigh is the sum of gradients, each element times a fixed number.
func weigh(gradients []*autograd.Variable) *autograd.Variable {
	var total *autograd.Variable
	for i, d := range gradients {
		if d == nil {
			continue
		}
		u := d.Graph().New(func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.FromSlice(e, random(uint64(2+i), d.Len()), d.Shape()...)
		})
		s := d.Mul(u).Sum(nil, false)
		if total == nil {
			total = s
		} else {
			total = total.Add(s)
		}
	}
	return total
}

// agrees compares recorded gradients with those of an ordinary pass.
func (c *check) agrees(recorded []*autograd.Variable) error {
	plain, release, err := c.plain(nil, c.weights)
	if err != nil {
		return err
	}
	defer release()
	for i, d := range recorded {
		if d == nil || plain[i] == nil {
			if d != plain[i] {
				return bad("input %d has a gradient in one of two passes", i)
			}
			continue
		}
		have, err := d.Float64s()
		if err != nil {
			return err
		}
		want, err := plain[i].Float64s()
		if err != nil {
			return err
		}
		for j := range have {
			if !(math.Abs(have[j]-want[j]) <= 1e-9*(1+math.Abs(want[j]))) {
				return bad("gradient %d of element %d is %v when it is recorded, and %v when it is not", i, j, have[j], want[j])
			}
		}
	}
	return nil
}

// plain are the gradients of an ordinary pass.
func (c *check) plain(at [][]float64, weights []float64) (gradients []*autograd.Variable, release func(), err error) {
	g := autograd.NewGraph(c.dev, c.options()...)
	vars := c.leaves(g, at)
	if err := g.Err(); err != nil {
		g.Release()
		return nil, nil, err
	}
	out := c.f(vars)
	w, err := tensor.FromSlice(g.Exec(), weights, out.Shape()...)
	if err == nil {
		defer w.Release()
		gradients, err = autograd.Grad([]*autograd.Variable{out}, differentiable(vars), autograd.WithGradient(w))
	}
	if err != nil {
		g.Release()
		return nil, nil, err
	}
	return gradients, g.Release, nil
}

// slopes is the weighted sum of the gradients at a place.
func (c *check) slopes(at [][]float64) (float64, error) {
	gradients, release, err := c.plain(at, at[len(at)-1])
	if err != nil {
		return 0, err
	}
	defer release()
	total := weigh(gradients)
	if total == nil {
		return 0, nil
	}
	return total.Item()
}
