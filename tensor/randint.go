package tensor

import "math"

// RandInt makes a tensor of whole numbers, of which each in lo..hi-1 is equally likely. dt must hold them; bool holds 0 and 1. gen must not
// be nil. Numbers depend on the generator's state and on the number of elements, not on device or stream.
func RandInt(e Exec, gen *Generator, lo, hi int64, dt DType, shape ...int) (*Tensor, error) {
	const name = "RandInt"
	if err := gen.given(name); err != nil {
		return nil, err
	}
	if err := drawable(name, lo, hi, dt); err != nil {
		return nil, err
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	var p parts
	x := p.below(e.Owned(), gen, hi-lo, l.dims())
	return p.result(e, p.do(p.plus(x, lo).To(dt)))
}

// drawable refuses ranges that are empty, larger than an int64, or beyond the type.
func drawable(name string, lo, hi int64, dt DType) error {
	if lo >= hi {
		return valueErr(name, "from %d to %d; the first must be less", lo, hi)
	}
	if hi-lo < 0 {
		return valueErr(name, "from %d to %d are more than %d numbers", lo, hi, int64(math.MaxInt64))
	}
	least, most, ok := wholeNumbers(dt)
	if !ok {
		return dtypeErr(name, "not an element type", dt)
	}
	if lo < least || hi-1 > most {
		return valueErr(name, "from %d to %d: %s holds %d to %d", lo, hi-1, dt, least, most)
	}
	return nil
}

// wholeNumbers is the range of a type, as far as int64 goes.
func wholeNumbers(dt DType) (least, most int64, ok bool) {
	switch dt {
	case Bool:
		return 0, 1, true
	case Uint8:
		return 0, math.MaxUint8, true
	case Int32:
		return math.MinInt32, math.MaxInt32, true
	case Float16:
		return -65504, 65504, true
	}
	return math.MinInt64, math.MaxInt64, dt.Valid()
}

// below is int64 numbers in 0..n-1. A float64 has 53 random bits: for larger n two halves make one number of 64, of which the remainder is
// taken, as in PyTorch.
func (p *parts) below(e Exec, gen *Generator, n int64, shape []int) *Tensor {
	if n <= 1<<53 {
		return p.do(p.do(Uniform(e, gen, 0, float64(n), Float64, shape...)).To(Int64))
	}
	const half = 1 << 32
	high := p.do(p.do(Uniform(e, gen, 0, half, Float64, shape...)).To(Int64))
	low := p.do(p.do(Uniform(e, gen, 0, half, Float64, shape...)).To(Int64))
	number := p.do(p.do(high.MulScalar(half)).Add(low)) // wraps around
	return p.do(number.Remainder(p.do(FromSlice(e, []int64{n}, 1))))
}

// plus adds n to int64 numbers, in two parts that float64 holds.
func (p *parts) plus(t *Tensor, n int64) *Tensor {
	high := n >> 32 << 32
	return p.do(p.do(t.AddScalar(float64(high))).AddScalar(float64(n - high)))
}

// RandPermOn is a random permutation of 0..n-1, as an int64 tensor that is made on e's device: the order of as many random numbers.
// RandPerm makes one on the host, another one. gen must not be nil.
func RandPermOn(e Exec, gen *Generator, n int) (*Tensor, error) {
	const name = "RandPermOn"
	if err := gen.given(name); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, valueErr(name, "n is %d; it must not be negative", n)
	}
	var p parts
	return p.result(e, p.do(p.do(Rand(e.Owned(), gen, Float64, n)).ArgSort(0, false)))
}
