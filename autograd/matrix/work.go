package matrix

import (
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// work keeps the temporaries of a formula, and its first error.
type work struct {
	made []*tensor.Tensor
	err  error
}

// of takes the result of an operation.
func (w *work) of(t *tensor.Tensor, err error) *tensor.Tensor {
	if w.err == nil {
		w.err = err
	}
	if t != nil {
		w.made = append(w.made, t)
	}
	return t
}

// end releases everything but a result, which is another handle.
func (w *work) end(result *tensor.Tensor) (*tensor.Tensor, error) {
	var out *tensor.Tensor
	if w.err == nil {
		out = result.Retain()
	}
	for _, t := range w.made {
		t.Release()
	}
	return out, w.err
}

// flipped is the transposed matrix.
func (w *work) flipped(t *tensor.Tensor) *tensor.Tensor { return w.of(t.Transpose(-2, -1)) }

// times is the product of matrices.
func (w *work) times(a, b *tensor.Tensor) *tensor.Tensor { return w.of(a.MatMul(b)) }

// symmetric is the half of a matrix and its transposed.
func (w *work) symmetric(t *tensor.Tensor) *tensor.Tensor {
	return w.of(w.of(t.Add(w.flipped(t))).MulScalar(0.5))
}

// over is a number for each of the batch, as matrices to be multiplied with.
func (w *work) over(t *tensor.Tensor) *tensor.Tensor {
	return w.of(w.of(t.Unsqueeze(-1)).Unsqueeze(-1))
}

// ends is end for the gradients of several inputs, of which those that need none are nil.
func (w *work) ends(results ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	outs := make([]*tensor.Tensor, len(results))
	for i, t := range results {
		if w.err == nil && t != nil {
			outs[i] = t.Retain()
		}
	}
	_, err := w.end(nil)
	if err != nil {
		return nil, err
	}
	return outs, nil
}

// orZeros is a gradient, or zeros for one that is not there.
func (w *work) orZeros(grad, like *tensor.Tensor) *tensor.Tensor {
	if grad != nil {
		return grad
	}
	return w.of(like.ZerosLike())
}

// plus is a sum, of which the first may not be there.
func (w *work) plus(t, u *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return u
	}
	return w.of(t.Add(u))
}

// beside is two matrices as one, with the columns of both.
func (w *work) beside(a, b *tensor.Tensor) *tensor.Tensor {
	if w.err != nil {
		return nil
	}
	return w.of(tensor.Cat([]*tensor.Tensor{a, b}, -1))
}

// under is a^-T*t for a triangular matrix a.
func (w *work) under(a, t *tensor.Tensor, how linalg.Triangular) *tensor.Tensor {
	how.Upper = !how.Upper
	return w.of(linalg.SolveTriangular(w.flipped(a), t, how))
}

// after is t*a^-T for a triangular matrix a.
func (w *work) after(t, a *tensor.Tensor, how linalg.Triangular) *tensor.Tensor {
	how.Right = true
	return w.under(a, t, how)
}
