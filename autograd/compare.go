package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file have results of type int64, through which no gradients flow. They save nothing.

const steps = "the result is constant between the places where it jumps"

// ArgMax is the index, of type int64, of the largest element along dim; the first of several. keep leaves the dimension
// with one element.
func (v *Variable) ArgMax(dim int, keep bool) *Variable { return argMax.apply(along{dim, keep}, v) }

// ArgMin is the index of the smallest element; see ArgMax.
func (v *Variable) ArgMin(dim int, keep bool) *Variable { return argMin.apply(along{dim, keep}, v) }

type along struct {
	dim  int
	keep bool
}

var (
	argMax = define("argmax", argMaxForward, notDifferentiable(steps))
	argMin = define("argmin", argMinForward, notDifferentiable(steps))
)

func argMaxForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(along)
	return n.tensor(0).ArgMax(a.dim, a.keep)
}

func argMinForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(along)
	return n.tensor(0).ArgMin(a.dim, a.keep)
}
