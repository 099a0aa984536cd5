package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Rand makes a tensor of uniform numbers in [0, 1). dt is a floating-point type, here and below; gen must not be nil.
// Numbers depend on the generator's state and on the number of elements, not on device or stream.
func Rand(e Exec, gen *Generator, dt DType, shape ...int) (*Tensor, error) {
	return random("Rand", op.Uniform, e, gen, dt, shape, 0, 1, lastBelow(dt, 0, 1))
}

// RandN makes a tensor of standard normal numbers.
func RandN(e Exec, gen *Generator, dt DType, shape ...int) (*Tensor, error) {
	return random("RandN", op.Normal, e, gen, dt, shape, 0, 1)
}

// Uniform makes a tensor of uniform numbers in [lo, hi), which are lo where the type has no other numbers between them. The type must hold lo,
// hi and their difference. Bounds between two numbers of a half type are rounded to the nearest, as in PyTorch: 2049..2051 of float16 is 2048..2052. Unlike
// there, the rounded hi itself is never drawn.
func Uniform(e Exec, gen *Generator, lo, hi float64, dt DType, shape ...int) (*Tensor, error) {
	const name = "Uniform"
	if !(lo <= hi) {
		return nil, valueErr(name, "from %v to %v is not a range", lo, hi)
	}
	if most := largest(dt); dt.IsFloat() && !(lo >= -most && hi <= most && hi-lo <= most) {
		return nil, valueErr(name, "from %v to %v is not a range of %s, whose largest number is %v", lo, hi, dt, most)
	}
	lo, hi = halfOf(dt, lo), halfOf(dt, hi)
	return random(name, op.Uniform, e, gen, dt, shape, lo, hi, lastBelow(dt, lo, hi))
}

// Normal makes a tensor of normal numbers with the given mean and standard deviation.
func Normal(e Exec, gen *Generator, mean, std float64, dt DType, shape ...int) (*Tensor, error) {
	const name = "Normal"
	if !(std >= 0) {
		return nil, valueErr(name, "the standard deviation is %v; it must not be negative", std)
	}
	return random(name, op.Normal, e, gen, dt, shape, mean, std)
}

// Bernoulli makes a tensor that is 1 with probability p, else 0. dt may also be Bool.
func Bernoulli(e Exec, gen *Generator, p float64, dt DType, shape ...int) (*Tensor, error) {
	const name = "Bernoulli"
	if !(p >= 0 && p <= 1) {
		return nil, valueErr(name, "the probability is %v; it must be in 0..1", p)
	}
	return random(name, op.Bernoulli, e, gen, dt, shape, p)
}

func random(name string, id op.ID, e Exec, gen *Generator, dt DType, shape []int, v ...float64) (*Tensor, error) {
	if gen == nil {
		return nil, valueErr(name, "the generator is nil")
	}
	if !dt.IsFloat() && !(dt == Bool && id == op.Bernoulli) {
		return nil, dtypeErr(name, needsFloat, dt)
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	t, err := alloc(name, e, dt, &l)
	if err != nil || t.Len() == 0 {
		return t, err
	}
	c := begin(id, e)
	copy(c.call.F[:], v)
	c.out(t, &t.layout)
	if err = c.random(name, gen.take(t.Len())); err == nil {
		err = c.run(name)
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}
