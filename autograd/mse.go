package autograd

import "github.com/cistern-ml/cistern/tensor"

// MSELoss is (v - target)², reduced. Saves v and target.
func (v *Variable) MSELoss(target *Variable, r Reduction) *Variable {
	return mse.apply(r, v, target)
}

var mse = define("mse_loss", mseForward,
	rule{uses: input(0) | input(1), grad: mseGrad},
	rule{uses: input(0) | input(1), grad: mseGrad})

func mseForward(n *node) (*tensor.Tensor, error) {
	d, err := n.tensor(0).Sub(n.tensor(1))
	if err != nil {
		return nil, err
	}
	square, err := after(d, func(d *tensor.Tensor) (*tensor.Tensor, error) { return d.Mul(d) })
	if err != nil {
		return nil, err
	}
	return n.arg.(Reduction).reduce(square)
}

// mseGrad is g * 2*(x - y), where x is the input in question and y the other.
func mseGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	d := w.do(n.savedInput(i).Sub(n.savedInput(1 - i)))
	if w.err != nil {
		return w.result(nil, nil)
	}
	s := w.do(n.arg.(Reduction).scale(g, d.Len()))
	return w.result(d.Mul(w.do(s.MulScalar(2))))
}

// L1Loss is |v - target|, reduced. Its gradient where they are equal is 0. Saves v and target.
func (v *Variable) L1Loss(target *Variable, r Reduction) *Variable {
	return l1.apply(r, v, target)
}

var l1 = define("l1_loss", l1Forward,
	rule{uses: input(0) | input(1), grad: l1Grad},
	rule{uses: input(0) | input(1), grad: l1Grad})

func l1Forward(n *node) (*tensor.Tensor, error) {
	d, err := n.tensor(0).Sub(n.tensor(1))
	if err != nil {
		return nil, err
	}
	distance, err := after(d, (*tensor.Tensor).Abs)
	if err != nil {
		return nil, err
	}
	return n.arg.(Reduction).reduce(distance)
}

// l1Grad is g * sign(x - y), where x is the input in question and y the other.
func l1Grad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	d := w.do(n.savedInput(i).Sub(n.savedInput(1 - i)))
	if w.err != nil {
		return w.result(nil, nil)
	}
	s := w.do(n.arg.(Reduction).scale(g, d.Len()))
	return w.result(w.do(d.Sign()).Mul(s))
}
