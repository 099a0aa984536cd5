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

// extremeGrad is g / k at the k elements that equal the result, and 0 at the others.
func extremeGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	r, v, out := n.arg.(reduction), n.savedInput(0), n.savedOutput()
	extreme := w.do(r.restore(out, v.Shape()))
	mask := w.do(v.Eq(extreme))
	count := w.do(mask.Sum(r.dims, true))
	share := w.do(w.do(r.restore(g, v.Shape())).Div(w.do(count.To(g.DType()))))
	return w.result(keepWhere(mask, share))
}
