package tensor

// Strided is a handle on t's storage with a shape and strides from its first element on.
func Strided(t *Tensor, shape, strides []int) *Tensor {
	l := layout{ndim: len(shape)}
	copy(l.shape[:], shape)
	copy(l.strides[:], strides)
	return t.handle(&l, t.exec)
}
