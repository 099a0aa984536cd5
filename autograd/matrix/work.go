package matrix

import "github.com/cistern-ml/cistern/tensor"

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
