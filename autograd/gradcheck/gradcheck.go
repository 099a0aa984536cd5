// Package gradcheck compares gradients with finite differences, as torch.autograd.gradcheck. It is for tests of operations
// and modules.
//
// A function y = f(x...) of float64 tensors is reduced to a number s = sum(w*y) with fixed random weights w. Backward gives
// ds/dx for all x at once; the numerical value is (s(x+eps) - s(x-eps)) / 2eps for each element of x in turn. A wrong
// gradient would have to be orthogonal to the random w to go unnoticed.
package gradcheck

import (
	"fmt"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// Func is what is checked: it makes one variable of several, of the same graph.
type Func func(in []*autograd.Variable) *autograd.Variable

// Option changes a check.
type Option func(*check)

// Eps is how far each element is moved; the default is 1e-6.
func Eps(eps float64) Option { return func(c *check) { c.eps = eps } }

// Tolerance sets the allowed difference, atol + rtol*|numerical|; the defaults are 1e-5 and 1e-3.
func Tolerance(atol, rtol float64) Option { return func(c *check) { c.atol, c.rtol = atol, rtol } }

// Graph gives options to the graphs that the check makes. f is called for each of them, so that random operations draw the
// same numbers each time from a new generator.
func Graph(f func() []autograd.Option) Option { return func(c *check) { c.options = f } }

// Error is a gradient that does not agree with the finite difference.
type Error struct {
	Input    int // which input
	Element  int // which of its elements, in row-major order
	Gradient float64
	Numeric  float64
}

func (e *Error) Error() string {
	return fmt.Sprintf("gradcheck: input %d, element %d: gradient %v, finite difference %v", e.Input, e.Element, e.Gradient, e.Numeric)
}

type check struct {
	dev             device.Device
	f               Func
	eps, atol, rtol float64
	options         func() []autograd.Option
	inputs          []*tensor.Tensor
	weights         []float64
}

// Check compares the gradients of f at the given inputs on dev. Inputs of type float64 are checked, those of other types are
// constants. The first difference is an *Error; other errors are those of f. What is wrong with the arguments, also that no input is of type
// float64, is an error before f is called.
func Check(dev device.Device, f Func, inputs []*tensor.Tensor, opts ...Option) error {
	c := newCheck(dev, f, inputs, opts)
	if err := c.wrong(); err != nil {
		return err
	}
	gradients, err := c.analytic()
	if err != nil {
		return err
	}
	for i, t := range inputs {
		if t.DType() != tensor.Float64 {
			continue
		}
		if err := c.compare(i, gradients[i]); err != nil {
			return err
		}
	}
	return nil
}

func newCheck(dev device.Device, f Func, inputs []*tensor.Tensor, opts []Option) *check {
	c := &check{dev: dev, f: f, inputs: inputs, eps: 1e-6, atol: 1e-5, rtol: 1e-3,
		options: func() []autograd.Option { return nil }}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return c
}

// wrong is what is wrong with the arguments, before anything is called.
func (c *check) wrong() error {
	switch {
	case c.f == nil || c.options == nil:
		return bad("the function is nil")
	case !(c.eps > 0) || math.IsInf(c.eps, 0):
		return bad("eps is %v; it must be finite and more than 0", c.eps)
	case !(c.atol >= 0 && c.rtol >= 0):
		return bad("the tolerances are %v and %v; they must not be negative", c.atol, c.rtol)
	}
	for i, t := range c.inputs {
		if t.Released() {
			return &tensor.ReleasedError{Op: fmt.Sprintf("gradcheck of input %d", i), Nil: t == nil}
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return &tensor.ValueError{Op: "gradcheck", Detail: fmt.Sprintf(format, args...)}
}

// analytic runs forward and backward once, chooses the weights, and returns the gradient of each float64 input.
func (c *check) analytic() ([][]float64, error) {
	g := autograd.NewGraph(c.dev, c.options()...)
	defer g.Release()
	vars := make([]*autograd.Variable, len(c.inputs))
	for i, t := range c.inputs {
		if t.DType() == tensor.Float64 {
			vars[i] = g.Input(t, autograd.RequiresGrad())
		} else {
			vars[i] = g.Input(t)
		}
	}
	if err := g.Err(); err != nil { // of the graph or its inputs, with which f can do nothing
		return nil, err
	}
	if !slices.ContainsFunc(c.inputs, func(t *tensor.Tensor) bool { return t.DType() == tensor.Float64 }) {
		return nil, bad("none of the %d inputs is of type float64: there is nothing to check", len(c.inputs))
	}
	out := c.f(vars)
	if err := g.Err(); err != nil { // whatever f has made of it
		return nil, err
	}
	if _, err := out.Tensor(); err != nil {
		return nil, err
	}
	w, err := tensor.RandN(g.Exec(), tensor.NewGenerator(1), tensor.Float64, out.Shape()...)
	if err != nil {
		return nil, err
	}
	defer w.Release()
	if c.weights, err = w.Float64s(); err != nil {
		return nil, err
	}
	if err := out.Backward(autograd.WithGradient(w)); err != nil {
		return nil, err
	}
	return collect(vars)
}

func collect(vars []*autograd.Variable) ([][]float64, error) {
	gradients := make([][]float64, len(vars))
	for i, v := range vars {
		if v.Grad() == nil {
			gradients[i] = make([]float64, v.Len())
			continue
		}
		var err error
		if gradients[i], err = v.Grad().Float64s(); err != nil {
			return nil, err
		}
	}
	return gradients, nil
}

// compare checks one input, element by element.
func (c *check) compare(input int, gradient []float64) error {
	x, err := c.inputs[input].Float64s()
	if err != nil {
		return err
	}
	return c.comparing(input, gradient, x, func() (float64, error) { return c.value(input, x) })
}

// comparing moves each element of x and looks at what value makes of it.
func (c *check) comparing(input int, gradient, x []float64, value func() (float64, error)) error {
	for j, at := range x {
		x[j] = at + c.eps
		up, err := value()
		if err != nil {
			return err
		}
		x[j] = at - c.eps
		down, err := value()
		if err != nil {
			return err
		}
		x[j] = at
		numeric := (up - down) / (2 * c.eps)
		if !(math.Abs(gradient[j]-numeric) <= c.atol+c.rtol*math.Abs(numeric)) {
			return &Error{Input: input, Element: j, Gradient: gradient[j], Numeric: numeric}
		}
	}
	return nil
}

// value is the weighted sum of the results with one input replaced.
func (c *check) value(input int, x []float64) (float64, error) {
	g := autograd.NewGraph(c.dev, append(c.options(), autograd.NoGrad())...)
	defer g.Release()
	vars := make([]*autograd.Variable, len(c.inputs))
	for i, t := range c.inputs {
		if i == input {
			vars[i] = g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, x, t.Shape()...) })
		} else {
			vars[i] = g.Input(t)
		}
	}
	if err := g.Err(); err != nil {
		return 0, err
	}
	y, err := c.f(vars).Float64s()
	if err != nil {
		return 0, err
	}
	if len(y) != len(c.weights) {
		return 0, &tensor.ValueError{Op: "gradcheck",
			Detail: fmt.Sprintf("the function has %d results at one time and %d at another: it must depend on its inputs alone", len(c.weights), len(y))}
	}
	s := 0.0
	for i, v := range y {
		s += c.weights[i] * v
	}
	return s, nil
}
