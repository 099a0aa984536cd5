package autograd

import "github.com/cistern-ml/cistern/tensor"

// Max is the largest element along dims, or of all if there are none (torch.amax). Equal largest elements share the
// gradient evenly. Saves v and its result. ArgMax tells where it is.
func (v *Variable) Max(dims []int, keep bool) *Variable { return maxOp.apply(reduction{dims, keep}, v) }

var maxOp = define("amax", maxForward, rule{uses: input(0) | output, grad: extremeGrad})

func maxForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).Max(r.dims, r.keep)
}

// Min is the smallest element along dims, or of all if there are none (torch.amin). Equal smallest elements share the
// gradient evenly. Saves v and its result.
func (v *Variable) Min(dims []int, keep bool) *Variable { return minOp.apply(reduction{dims, keep}, v) }

var minOp = define("amin", minForward, rule{uses: input(0) | output, grad: extremeGrad})

func minForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).Min(r.dims, r.keep)
}

// extremeGrad is g / k at the k elements that equal the result, and 0 at the others. Where the result is NaN, which equals nothing, all are
// 0/0.
func extremeGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	r, v, out := n.arg.(reduction), n.savedInput(0), n.savedOutput()
	mask := w.do(v.Eq(w.do(r.restore(out, v.Shape()))))
	if w.err != nil {
		return w.result(nil, nil)
	}
	count := w.do(w.do(mask.Sum(r.dims, true)).To(g.DType()))
	kept := w.do(w.do(mask.To(g.DType())).Mul(w.do(r.restore(g, v.Shape()))))
	return w.result(kept.Div(count))
}
