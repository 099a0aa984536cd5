package tensor

import "math"

// Linspace makes a tensor of one dimension: steps numbers at even distances, of which start is the first and end the last. One
// step is start. They are computed in float64, from the nearer end, and converted to dt, which is not bool; integer types take the integral
// part of both ends, and of each number.
func Linspace(e Exec, start, end float64, steps int, dt DType) (*Tensor, error) {
	const name = "Linspace"
	if err := spaced(name, start, end, steps, dt); err != nil {
		return nil, err
	}
	var p parts
	return p.result(e, p.do(p.line(e, start, end, steps, dt).To(dt)))
}

// Logspace makes the powers of base, 10 in PyTorch if nothing is said, whose exponents are those of Linspace.
func Logspace(e Exec, start, end float64, steps int, base float64, dt DType) (*Tensor, error) {
	const name = "Logspace"
	if err := spaced(name, start, end, steps, dt); err != nil {
		return nil, err
	}
	if err := whole(name, dt, math.Pow(base, start)); err != nil {
		return nil, err
	}
	if err := whole(name, dt, math.Pow(base, end)); err != nil {
		return nil, err
	}
	var p parts
	return p.result(e, p.do(p.do(p.line(e, start, end, steps, dt).RPowScalar(base)).To(dt)))
}

// maxSteps is that of Arange.
const maxSteps = math.MaxInt32 * 1024

func spaced(name string, start, end float64, steps int, dt DType) error {
	switch {
	case dt == Bool || !dt.Valid():
		return dtypeErr(name, "needs a type of numbers", dt)
	case steps < 0 || steps > maxSteps:
		return valueErr(name, "%d steps; there must be 0..%d", steps, maxSteps)
	}
	if err := fillable(name, dt, start); err != nil {
		return err
	}
	return fillable(name, dt, end)
}

// line is steps float64 numbers from start to end, for type dt. Each half is computed from its end, as in PyTorch.
func (p *parts) line(e Exec, start, end float64, steps int, dt DType) *Tensor {
	e = e.Owned()
	if dt.IsInteger() {
		start, end = math.Trunc(start), math.Trunc(end)
	}
	if steps < 2 {
		return p.do(Full(e, start, Float64, steps))
	}
	step, half := (end-start)/float64(steps-1), steps/2
	first := p.do(Arange(e, 0, float64(half), 1, Float64))
	first = p.do(p.do(first.MulScalar(step)).AddScalar(start))
	last := p.do(Arange(e, float64(half-steps+1), 1, 1, Float64))
	last = p.do(p.do(last.MulScalar(step)).AddScalar(end))
	return p.do(Cat([]*Tensor{first, last}, 0))
}
