package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Sums of half precision and float32, as where a layer's result is added to the residual stream: one kernel, and no conversion before it.

// mixed finds which of two tensors of one shape, in one memory format, is of half precision beside one in float32. They are nil if it is otherwise.
func mixed(a, b *Tensor) (half, wide *Tensor) {
	if a.dtype == Float32 {
		a, b = b, a
	}
	if a.dtype != Float16 && a.dtype != BFloat16 || b.dtype != Float32 || !a.layout.inOrder(&b.layout) || !a.layout.formatted() {
		return nil, nil
	}
	return a, b
}

// addMixed writes the sum, which may be over wide.
func addMixed(name string, e Exec, dst, half, wide *Tensor) error {
	if dst.Len() == 0 {
		return nil
	}
	c := begin(op.AddMixed, e)
	to, from, other := dst.layout.run(), half.layout.run(), wide.layout.run()
	c.out(dst, &to)
	c.in(half, &from)
	c.in(wide, &other)
	return c.run(name)
}
