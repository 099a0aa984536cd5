package torchtest

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// The makers of operations that are made of others. Where numbers are special only their values are compared: PyTorch's gradients there
// are those of its formulas.
var commonMakers = slices.Concat(times(5, commonPairs), times(4, commonUnary), times(4, differences), times(3, scattered), times(3, puts), times(4, distancesAndNorms),
	times(3, unpooling), times(3, statistics), times(4, orderStatistics), times(3, running), times(3, skipping))

// plain is v, without a gradient where numbers may be special.
func (g *generator) plain(v value) value {
	if g.special > 0 {
		return g.still(v)
	}
	return v
}

func (g *generator) plainLike(dtype tensor.DType, shape []int) string {
	return g.plain(g.info(g.like(dtype, shape))).name
}

func commonPairs(g *generator) {
	v := g.plain(g.any())
	switch op := oneOf(g, "Copysign", "FMax", "FMin", "FloatPower", "Heaviside", "Hypot", "Ldexp", "LogAddExp2", "Inner", "VecDot", "IsClose"); op {
	case "Hypot", "LogAddExp2":
		v = g.plain(g.fit(v))
		g.call(op, v.name, g.plain(g.info(g.broadcast(v))).name)
	case "Heaviside":
		g.call(op, v.name, g.plainLike(v.dtype, g.narrower(v.shape)))
	case "Inner":
		v = g.plain(g.floats(0, 3))
		shape := g.shape(0, 2)
		if n := len(v.shape); n > 0 {
			shape = append(shape, v.shape[n-1])
		}
		g.call(op, v.name, g.plainLike(v.dtype, shape))
	case "VecDot":
		v = g.plain(g.floats(1, 3))
		g.call(op, v.name, g.plainLike(v.dtype, v.shape), g.dim(v))
	case "IsClose":
		g.call(op, v.name, g.plainLike(v.dtype, g.narrower(v.shape)), oneOf(g, 1e-5, 0.5, 0), oneOf(g, 1e-8, 0.25), g.chance(0.5))
	case "Ldexp":
		u := g.plain(g.info(g.broadcast(v)))
		if u.float() && u.dtype != v.dtype { // the power of 2 is one of the exponent's type, however exact the other is
			name, _ := g.call("To", u.name, v.dtype.String())
			u = g.info(name)
		}
		g.call(op, v.name, u.name)
	default:
		g.call(op, v.name, g.plain(g.info(g.broadcast(v))).name)
	}
}

func commonUnary(g *generator) {
	v := g.plain(g.any())
	switch op := oneOf(g, "Deg2Rad", "Rad2Deg", "IsNegInf", "IsPosInf", "Signbit", "Sinc", "Tanhshrink", "Vander", "Combinations", "UniqueConsecutive", "AMinMax"); op {
	case "Tanhshrink":
		g.call(op, g.fit(v).name)
	case "Vander":
		v = g.plain(g.dims(1, 1))
		g.call(op, v.name, g.IntN(5), g.chance(0.5))
	case "Combinations":
		v = g.plain(g.dims(1, 1))
		g.call(op, v.name, g.IntN(4), g.chance(0.5))
	case "AMinMax":
		g.call(op, v.name, g.dimList(v), g.chance(0.5))
	default:
		g.call(op, v.name)
	}
}

// differences are of neighbours, and sums of what lies between them.
func differences(g *generator) {
	v := g.plain(g.dims(1, 3))
	d := g.dim(v)
	switch op := oneOf(g, "Diff", "Gradient", "Trapezoid", "CumulativeTrapezoid"); op {
	case "Diff":
		g.call(op, v.name, g.IntN(4), d)
	case "Gradient":
		v = g.plain(g.floats(1, 3))
		dims := g.dimList(v)
		spacing := []float64{}
		if g.chance(0.6) {
			for range max(1, len(dims)*g.IntN(2)) {
				spacing = append(spacing, oneOf(g, 0.5, 2, 1, -1, 0.3))
			}
		}
		g.call(op, v.name, spacing, dims, 1+g.IntN(2))
	default:
		v = g.plain(g.fit(v))
		var x any
		if g.chance(0.4) && d >= -len(v.shape) && d < len(v.shape) {
			x = g.plainLike(v.dtype, []int{v.shape[(d+len(v.shape))%len(v.shape)]})
		}
		g.call(op, v.name, x, oneOf(g, 1, 0.5, -2), d)
	}
}

// scattered puts a tensor in the place of a part.
func scattered(g *generator) {
	v := g.dims(1, 4)
	n := len(v.shape)
	d := g.IntN(n)
	part := slices.Clone(v.shape)
	switch op := oneOf(g, "SelectScatter", "SliceScatter", "DiagonalScatter"); op {
	case "SelectScatter":
		if v.shape[d] == 0 {
			return
		}
		k := g.IntN(2*v.shape[d]) - v.shape[d]
		g.call(op, v.name, g.like(v.dtype, slices.Delete(part, d, d+1)), d-n*g.IntN(2), k)
	case "SliceScatter":
		step, start := 1+g.IntN(3), g.IntN(v.shape[d]+1)
		end := start + g.IntN(v.shape[d]-start+1)
		part[d] = (end - start + step - 1) / step
		g.call(op, v.name, g.like(v.dtype, part), d-n*g.IntN(2), start, end, step)
	case "DiagonalScatter":
		if n < 2 {
			return
		}
		p, offset := g.Perm(n), g.IntN(5)-2
		rows, columns := v.shape[p[0]], v.shape[p[1]]
		var shape []int
		for i, s := range v.shape {
			if i != p[0] && i != p[1] {
				shape = append(shape, s)
			}
		}
		g.call(op, v.name, g.like(v.dtype, append(shape, max(0, min(rows+min(offset, 0), columns-max(offset, 0))))), offset, p[0], p[1])
	}
}

// puts writes to places that indices name, each of which is named once where the last one would win.
func puts(g *generator) {
	v := g.dims(1, 3)
	if product(v.shape) == 0 {
		return
	}
	if g.chance(0.5) {
		n := g.IntN(product(v.shape) + 1)
		several := v.float() && g.chance(0.5)
		index := g.distinct(product(v.shape), n)
		if several {
			n = g.IntN(5)
			index = g.integers("int64", []int{n}, product(v.shape))
		}
		g.call("Put", v.name, index, g.like(v.dtype, []int{n}), several)
		return
	}
	v = g.plain(g.floats(1, 3))
	if product(v.shape) == 0 {
		return
	}
	d := g.IntN(len(v.shape))
	shape := slices.Clone(v.shape)
	shape[d] = g.IntN(5)
	g.call("IndexReduce", v.name, d, g.integers("int64", []int{shape[d]}, v.shape[d]), g.plainLike(v.dtype, shape), 1+g.IntN(4), g.chance(0.6))
}

// distinct makes n different numbers below limit.
func (g *generator) distinct(limit, n int) string {
	words := make([]string, n)
	for i, k := range g.Perm(limit)[:n] {
		words[i] = number(float64(k))
	}
	return g.inputData("int64", []int{n}, nil, words)
}

func distancesAndNorms(g *generator) {
	p := oneOf[any](g, 2, 2, 1, 0, 3, "inf", 0.5)
	switch op := oneOf(g, "Dist", "PDist", "Renorm"); op {
	case "Dist":
		v := g.plain(g.float())
		g.call(op, v.name, g.plainLike(v.dtype, g.narrower(v.shape)), p)
	case "PDist":
		g.call(op, g.plain(g.floats(2, 2)).name, p)
	case "Renorm":
		v := g.plain(g.floats(2, 4))
		g.call(op, v.name, oneOf[any](g, 2, 1, 3, "inf"), g.dim(v), oneOf(g, 1.5, 0.5, 5))
	}
}

// unpooling pools to indices, and puts what was pooled back.
func unpooling(g *generator) {
	dims := 1 + g.IntN(2)
	v := g.floats(dims+1, dims+2)
	if v.dtype.Size() == 2 {
		return
	}
	k := 1 + g.IntN(3)
	p := map[string]any{"Kernel": []int{k}, "Stride": []int{k + g.IntN(2)}, "CeilMode": g.chance(0.3)}
	if g.chance(0.3) {
		v = g.plain(v)
		p["Stride"] = []int{2}
		op := oneOf(g, "LPPool1d", "LPPool2d")
		if op == "LPPool1d" && dims == 2 || op == "LPPool2d" && dims == 1 {
			return
		}
		g.call(op, v.name, oneOf(g, 2, 1, 3), p)
		return
	}
	if g.chance(0.3) {
		p["Padding"] = []int{k / 2}
	}
	image := v.shape[len(v.shape)-dims:]
	op := "1d"
	if dims == 2 {
		op = "2d"
	}
	pooled, ok := g.call("MaxPool"+op+"Indices", v.name, p)
	if !ok {
		return
	}
	if g.chance(0.6) {
		size := []any{pooled, pooled + ".1"}
		for _, s := range image {
			size = append(size, s)
		}
		g.call("MaxUnpool"+op, size...)
	}
}

func statistics(g *generator) {
	switch op := oneOf(g, "Cov", "CorrCoef", "VarMean", "StdMean"); op {
	case "Cov":
		g.call(op, g.plain(g.floats(1, 2)).name, oneOf(g, 1, 1, 0))
	case "CorrCoef":
		g.call(op, g.plain(g.floats(1, 2)).name)
	default:
		v := g.plain(g.float())
		dims := g.dimList(v)
		correction := oneOf(g, 1, 1, 0)
		if dims == nil && product(v.shape) <= correction {
			v = g.still(v) // as for Var
		}
		g.call(op, v.name, dims, correction, g.chance(0.5))
	}
}

func orderStatistics(g *generator) {
	v := g.dims(0, 3)
	d, keep := g.dim(v), g.chance(0.5)
	switch op := oneOf(g, "KthValue", "MedianDim", "NanMedianDim", "ModeDim", "Median", "Quantile", "NanQuantile"); op {
	case "KthValue":
		n := 1
		if len(v.shape) > 0 && d < len(v.shape) {
			n = v.shape[(d+len(v.shape))%len(v.shape)]
		}
		g.call(op, v.name, 1+g.IntN(max(n, 1)), d, keep)
	case "Median":
		g.call(op, g.plain(v).name)
	case "Quantile", "NanQuantile":
		v = g.plain(g.floats(1, 3))
		g.call(op, v.name, oneOf(g, 0, 0.5, 0.25, 0.3, 1), g.dim(v), keep, g.IntN(5))
	default:
		g.call(op, v.name, d, keep)
	}
}

func running(g *generator) {
	v := g.dims(0, 3)
	switch op := oneOf(g, "CumMax", "CumMin", "LogCumSumExp"); op {
	case "LogCumSumExp":
		v = g.plain(g.fit(v))
		g.call(op, v.name, g.dim(v))
	default:
		g.call(op, v.name, g.dim(v))
	}
}

func skipping(g *generator) {
	v := g.plain(g.float())
	g.call(oneOf(g, "NanSum", "NanMean"), v.name, g.dimList(v), g.chance(0.5))
}
