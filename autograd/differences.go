package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	diff                = composite{name: "diff"}
	spatialGradient     = composite{name: "gradient"}
	trapezoid           = composite{name: "trapezoid"}
	cumulativeTrapezoid = composite{name: "cumulative_trapezoid"}
)

// Diff is the differences of neighbours along dim, taken n times; of what has no more than n elements nothing is left. PyTorch's defaults are once, and the
// last dimension; its prepend and append are Cat. Of bools it is whether they differ.
func (v *Variable) Diff(n, dim int) *Variable {
	d := 0
	return diff.run([]*Variable{v}, func() (err error) {
		if d, err = diff.dim(v, dim); err == nil && v.NDim() == 0 {
			err = diff.shapes("at least one dimension is needed", v)
		}
		if err == nil && n < 0 {
			err = diff.values("n is %d; it is at least 0", n)
		}
		return err
	}, func(in []*Variable) *Variable {
		x := in[0]
		for range min(n, v.Dim(d)) {
			x = x.stepped(d)
		}
		if n == 0 {
			return x.copied()
		}
		return x
	})
}

// stepped is each element less the one before along dim.
func (v *Variable) stepped(dim int) *Variable {
	n := v.Dim(dim) - 1
	if v.dtype == tensor.Bool {
		return v.Narrow(dim, 1, n).Xor(v.Narrow(dim, 0, n))
	}
	return v.Narrow(dim, 1, n).Sub(v.Narrow(dim, 0, n))
}

// Gradient is the derivatives of what v samples, by central differences within and by one-sided ones at the ends, along each of dims, or of all dimensions
// if there are none (torch.gradient). spacing has the distance of neighbours, for all or for each dimension, and 1 if it is empty; edgeOrder is 1 or 2, and
// each dimension has more elements than that. It is no gradient of a loss: see Grad.
func (v *Variable) Gradient(spacing []float64, dims []int, edgeOrder int) []*Variable {
	c, dims := spatialGradient, slices.Clone(dims)
	count := len(dims)
	if count == 0 {
		count = max(v.NDim(), 1)
	}
	return c.runs(count, []*Variable{v}, func() error {
		for i := range v.NDim() {
			if len(dims) < count {
				dims = append(dims, i)
			}
		}
		if edgeOrder != 1 && edgeOrder != 2 || len(spacing) > 1 && len(spacing) != count {
			return c.values("edgeOrder is %d, spacing %v, and there are %d dimensions", edgeOrder, spacing, count)
		}
		if v.NDim() == 0 {
			return c.shapes("at least one dimension is needed", v)
		}
		seen := map[int]bool{}
		for i, dim := range dims {
			d, err := c.dim(v, dim)
			if err == nil && (seen[d] || v.Dim(d) <= edgeOrder) {
				err = c.shapes("dimensions differ, and have more elements than edgeOrder", v)
			}
			if err != nil {
				return err
			}
			dims[i], seen[d] = d, true
		}
		return c.floats(v)
	}, func(in []*Variable) []*Variable {
		all := make([]*Variable, count)
		for i, d := range dims {
			h := 1.0
			if len(spacing) > 0 {
				h = spacing[min(i, len(spacing)-1)]
			}
			all[i] = in[0].slopes(d, edgeOrder).DivScalar(h)
		}
		return all
	})
}

// slopes are the derivatives along dim for neighbours at a distance of 1.
func (v *Variable) slopes(dim, edgeOrder int) *Variable {
	n := v.Dim(dim)
	at := func(i int) *Variable { return v.Narrow(dim, i, 1) }
	first, last := at(1).Sub(at(0)), at(n-1).Sub(at(n-2))
	if edgeOrder == 2 {
		first = at(1).MulScalar(2).Sub(at(0).MulScalar(1.5)).Sub(at(2).MulScalar(0.5))
		last = at(n - 1).MulScalar(1.5).Sub(at(n - 2).MulScalar(2)).Add(at(n - 3).MulScalar(0.5))
	}
	if n == 2 {
		return Cat([]*Variable{first, last}, dim)
	}
	return Cat([]*Variable{first, v.Narrow(dim, 2, n-2).Sub(v.Narrow(dim, 0, n-2)).MulScalar(0.5), last}, dim)
}

// Trapezoid is the integral of v along dim by the trapezoidal rule. The samples stand at x, a vector or what broadcasts to v, or dx apart if x is nil.
// PyTorch's defaults are a dx of 1 and the last dimension.
func (v *Variable) Trapezoid(x *Variable, dx float64, dim int) *Variable {
	return trapezoid.areas(v, x, dx, dim, func(areas *Variable, d int) *Variable { return areas.Sum([]int{d}, false) })
}

// CumulativeTrapezoid is the integrals of v from its first element to each of the others; see Trapezoid.
func (v *Variable) CumulativeTrapezoid(x *Variable, dx float64, dim int) *Variable {
	return cumulativeTrapezoid.areas(v, x, dx, dim, func(areas *Variable, d int) *Variable { return areas.CumSum(d) })
}

// areas runs f of the areas between neighbours along dim, which it counts from the end.
func (c composite) areas(v, x *Variable, dx float64, dim int, f func(areas *Variable, d int) *Variable) *Variable {
	in, d := []*Variable{v}, 0
	if x != nil {
		in = append(in, x)
	}
	return c.run(in, func() (err error) {
		if d, err = c.dim(v, dim); err == nil && v.NDim() == 0 {
			err = c.shapes("at least one dimension is needed", v)
		}
		if err != nil || x == nil {
			return err
		}
		if d -= v.NDim(); x.NDim() == 1 && x.Dim(0) == v.Dim(d) || x.NDim() >= -d && x.NDim() > 1 && x.Dim(d) == v.Dim(d) {
			return c.broadcast(in[0], x.standing(d))
		}
		return c.shapes("there is one place for each element", v, x)
	}, func(in []*Variable) *Variable {
		y := in[0]
		if d >= 0 {
			d -= y.NDim()
		}
		n := y.Dim(d)
		if n == 0 {
			return f(y.asFloat(), d)
		}
		sums := y.asFloat()
		sums = sums.Narrow(d, 1, n-1).Add(sums.Narrow(d, 0, n-1))
		if len(in) > 1 {
			return f(sums.Mul(in[1].standing(d).stepped(d)), d).MulScalar(0.5)
		}
		return f(sums, d).MulScalar(dx / 2)
	})
}

// standing is a vector as one that stands along dimension d, counted from the end; others are as they are.
func (v *Variable) standing(d int) *Variable {
	if v.NDim() != 1 {
		return v
	}
	shape := slices.Repeat([]int{1}, -d)
	shape[0] = v.Len()
	return v.Reshape(shape...)
}
