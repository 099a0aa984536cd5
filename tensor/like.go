package tensor

// EmptyLike makes a tensor of t's shape and type, on its device, with undefined content. As in PyTorch dimensions keep the order that they have in
// t, without gaps: strides are those of t if its elements lie side by side. The other functions in this file differ from it in the content. Another
// type is that of To, or of the functions that take a shape.
func (t *Tensor) EmptyLike() (*Tensor, error) {
	const name = "EmptyLike"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout.preserved()
	return allocAs(name, t.exec, t.dtype, &l)
}

// ZerosLike makes zeros of t's shape and type.
func (t *Tensor) ZerosLike() (*Tensor, error) { return t.fullLike("ZerosLike", 0) }

// OnesLike makes ones of t's shape and type.
func (t *Tensor) OnesLike() (*Tensor, error) { return t.fullLike("OnesLike", 1) }

// FullLike makes copies of value, of t's shape and type, as Full does.
func (t *Tensor) FullLike(value float64) (*Tensor, error) { return t.fullLike("FullLike", value) }

func (t *Tensor) fullLike(name string, value float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout.preserved()
	return full(name, t.exec, value, t.dtype, &l)
}

// RandLike makes uniform numbers in [0, 1) of t's shape and type, which must be of floating point. gen must not be nil.
func (t *Tensor) RandLike(gen *Generator) (*Tensor, error) {
	return t.randomLike("RandLike", Rand, gen)
}

// RandNLike makes standard normal numbers of t's shape and type, which must be of floating point. gen must not be nil.
func (t *Tensor) RandNLike(gen *Generator) (*Tensor, error) {
	return t.randomLike("RandNLike", RandN, gen)
}

func (t *Tensor) randomLike(name string, f func(Exec, *Generator, DType, ...int) (*Tensor, error), gen *Generator) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if err := gen.given(name); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	r, err := f(t.exec, gen, t.dtype, t.Shape()...)
	if err == nil {
		r.layout.strides = t.layout.preserved().strides // numbers are drawn in the order of memory
	}
	return r, err
}
