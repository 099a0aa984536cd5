package autograd

import "github.com/cistern-ml/cistern/tensor"

// Rules of the operations of elementwise_gen.go whose gradients are kernels too.

type gradFunc = func(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error)

// ofInput makes the rule of a gradient at the input.
func ofInput(f func(g, in *tensor.Tensor) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.savedInput(0)) })
	}
}

// ofInputWith1 is ofInput for an operation with a number.
func ofInputWith1(f func(g, in *tensor.Tensor, s float64) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.savedInput(0), n.arg.(float64)) })
	}
}

// ofInputWith2 is ofInput for an operation with two numbers.
func ofInputWith2(f func(g, in *tensor.Tensor, s, t float64) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		s := n.arg.([2]float64)
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.savedInput(0), s[0], s[1]) })
	}
}

// ofOutput makes the rule of a gradient at the result.
func ofOutput(f func(g, out *tensor.Tensor) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.savedOutput()) })
	}
}

// ofInputs makes the rule of a gradient, by one of two inputs, at both.
func ofInputs(f func(g, a, b *tensor.Tensor) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return f(g, n.savedInput(0), n.savedInput(1)) })
	}
}

// ReLU6 is v brought into 0..6, with Hardtanh's gradient. Saves v.
func (v *Variable) ReLU6() *Variable { return hardtanh.apply([2]float64{0, 6}, v) }

// zeroGrad is one 0, repeated without taking memory.
func zeroGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	z, err := zero(g)
	if err != nil {
		return nil, err
	}
	return after(z, func(z *tensor.Tensor) (*tensor.Tensor, error) { return z.Expand(n.in[i].Shape()...) })
}
