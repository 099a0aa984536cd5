package tensor

import "math"

// Multinomial draws samples indices, of type int64, from each row of t, [M, N] or [N], whose elements say how likely each is: they are of a
// floating-point type, not negative, finite, and need not sum to 1. With replacement an index may be drawn several times; without,
// there are at most N of them, and what is left when all that are likely were drawn are those of probability 0. The result is [M, samples] or
// [samples]. gen must not be nil.
//
// It waits for the device once, to refuse what is not a distribution.
func (t *Tensor) Multinomial(gen *Generator, samples int, replacement bool) (*Tensor, error) {
	const name = "Multinomial"
	if err := multinomial(name, t, gen, samples, replacement); err != nil {
		return nil, err
	}
	var p parts
	x := p.of(t)
	if t.Len() > 0 {
		if err := p.distribution(name, x); err != nil {
			return nil, err
		}
	}
	if !replacement {
		return p.result(t.exec, p.race(x, gen, samples))
	}
	return p.result(t.exec, p.draw(x, gen, samples))
}

func multinomial(name string, t *Tensor, gen *Generator, samples int, replacement bool) error {
	if err := usable(name, t); err != nil {
		return err
	}
	if err := gen.given(name); err != nil {
		return err
	}
	switch n := t.Dim(-1); {
	case !t.dtype.IsFloat():
		return dtypeErr(name, needsFloat, t.dtype)
	case t.NDim() != 1 && t.NDim() != 2:
		return shapeErr(name, []Shape{t.Shape()}, "probabilities have one dimension, or two")
	case samples < 1:
		return valueErr(name, "%d samples; there must be at least one", samples)
	case n == 0:
		return shapeErr(name, []Shape{t.Shape()}, "there is nothing to draw from")
	case !replacement && samples > n:
		return valueErr(name, "%d samples of %d without replacement", samples, n)
	}
	_, err := newLayout(name, []int{t.Len() / t.Dim(-1), samples})
	return err
}

// distribution refuses rows that are none. It waits.
func (p *parts) distribution(name string, x *Tensor) error {
	good := p.do(p.do(x.GeScalar(0)).And(p.do(x.LtScalar(math.Inf(1)))))
	wrong := p.do(p.do(p.do(good.Not()).Any(nil, false)).To(Float64))
	empty := p.do(p.do(x.NeScalar(0)).Any([]int{-1}, false))
	empty = p.do(p.do(p.do(empty.Not()).Any(nil, false)).To(Float64))
	code := p.do(p.do(wrong.MulScalar(2)).Add(empty))
	if p.err != nil {
		return p.release()
	}
	v, err := code.Item()
	if err == nil && v == 0 {
		return nil
	}
	p.release()
	switch {
	case err != nil:
		return err
	case v >= 2:
		return valueErr(name, "a probability is negative, infinite or NaN")
	}
	return valueErr(name, "the probabilities of a row sum to 0")
}

// race lets the indices race: those whose exponential random number, divided by their probability, is least come first.
func (p *parts) race(x *Tensor, gen *Generator, samples int) *Tensor {
	x = p.do(x.To(wideFor(x.DType())))
	if x == nil {
		return nil
	}
	times := p.do(p.do(p.do(p.do(x.RandLike(gen)).Neg()).Log1p()).Neg())
	_, first := p.both(p.do(times.Div(x)).TopK(samples, -1, false)) // what never arrives is infinite or NaN: last
	return first
}

// draw finds the indices at which the running sum of the probabilities passes random numbers.
func (p *parts) draw(x *Tensor, gen *Generator, samples int) *Tensor {
	sums := p.do(p.do(x.To(Float64)).CumSum(-1))
	if sums == nil {
		return nil
	}
	shape := x.Shape().Clone()
	shape[len(shape)-1] = samples
	total := p.do(sums.Narrow(-1, x.Dim(-1)-1, 1))
	at := p.do(p.do(Rand(x.exec, gen, Float64, shape...)).Mul(total))
	return p.do(sums.SearchSorted(at, true))
}
