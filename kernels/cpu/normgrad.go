package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// The gradient of layer norm, of float32 with a weight, in two passes: one for both sums of a row, one for its gradients.

// normRow is what the passes need of a row.
type normRow struct{ mean, rstd, slope, shift float32 }

// normDots are the sums of g*w and of g*w*(x-mean)*rstd, in eight parts by place. Four elements, 8 apart, are added as they are and their sums
// in float64, as in foldSum.
func normDots(g, w, x []float32, c *normRow, sums *[2]float64) (sum, dot float64) {
	n := len(g) &^ 7
	w, x = w[:len(g)], x[:len(g)]
	*sums = [2]float64{}
	if vector.normDots != nil && n > 0 {
		vector.normDots(n, &g[0], &w[0], &x[0], c, sums)
	} else {
		normDotsGo(g[:n], w, x, c, sums)
	}
	for i := n; i < len(g); i++ {
		a, b := normPair(g[i], w[i], x[i], c)
		sums[0] += float64(a)
		sums[1] += float64(float32(a * b))
	}
	if spoiltSums(sums[:]) {
		*sums = [2]float64{}
		for i := range g {
			a, b := normPair(g[i], w[i], x[i], c)
			sums[0] += float64(a)
			sums[1] += float64(float32(a * b))
		}
	}
	return sums[0], sums[1]
}

// normPair is the weighted gradient and the normalised input.
func normPair(g, w, x float32, c *normRow) (weighted, normal float32) {
	return float32(g * w), float32(float32(x-c.mean) * c.rstd)
}

func normDotsGo(g, w, x []float32, c *normRow, sums *[2]float64) {
	var s, d [8]float64
	w, x = w[:len(g)], x[:len(g)]
	pair := func(i int) (a, b float32) {
		v, normal := normPair(g[i], w[i], x[i], c)
		return v, float32(v * normal)
	}
	i := 0
	for ; i+32 <= len(g); i += 32 {
		for k := range 8 {
			a0, b0 := pair(i + k)
			a1, b1 := pair(i + k + 8)
			a2, b2 := pair(i + k + 16)
			a3, b3 := pair(i + k + 24)
			s[k] += float64((a0 + a1) + (a2 + a3))
			d[k] += float64((b0 + b1) + (b2 + b3))
		}
	}
	for ; i < len(g); i++ {
		a, b := pair(i)
		s[i%8] += float64(a)
		d[i%8] += float64(b)
	}
	for k, v := range [2]*[8]float64{&s, &d} {
		sums[k] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
	}
}

// normGrads sets dst to g*w*rstd + (x-mean)*rstd*slope + shift.
func normGrads(dst, g, w, x []float32, c *normRow) {
	n := 0
	if vector.normGrads != nil && len(dst) >= 8 {
		n = len(dst) &^ 7
		vector.normGrads(n, &dst[0], &g[0], &w[0], &x[0], c)
	}
	for i := n; i < len(dst); i++ {
		a, b := normPair(g[i], w[i], x[i], c)
		dst[i] = float32(float32(a*c.rstd)+float32(b*c.slope)) + c.shift
	}
}

// backwardFloats is backward by the two passes, and reports whether they serve.
func (j *rowNorm[T]) backwardFloats(r int, s *scratch) bool {
	weight, ok := any(j.weight).([]float32)
	if !ok || weight == nil || j.l != 1 || !j.access.direct {
		return false
	}
	c, at, n := j.call, r*j.columns, j.columns
	w := weight[r%j.groups*j.per:][:n]
	row := func(p int) []float32 { return slice[float32](offset(c.In[p].Ptr, at, 4), n) }
	g, x := row(0), row(1)
	k := &s.norm.row
	k.mean, k.rstd = float32(j.mean[r]), float32(j.rstd[r])
	var sum, dot float64
	for i := 0; i < n; i += chunk {
		end := min(i+chunk, n)
		a, b := normDots(g[i:end], w[i:end], x[i:end], k, &s.norm.sums)
		sum, dot = sum+a, dot+b
	}
	rstd := float64(k.rstd)
	k.slope = float32(-dot / float64(n) * rstd)
	if k.shift = float32(-sum / float64(n) * rstd); j.has(op.NormRMS) {
		k.shift = 0
	}
	normGrads(slice[float32](offset(c.Out[0].Ptr, at, 4), n), g, w, x, k)
	return true
}

// normTogether is the number of rows of a block that are added up by one call.
const normTogether = 8

// blockFloats is block for layer norm of float32: eight rows at a time, sixteen columns in registers. Of four rows numbers are added as they are, and
// their sums in float64. It gives the first column that is left: from, if a sum is not finite, as that of four may not be where the sum of all is.
func (j *sumsJob[T]) blockFloats(products, sums []float64, lo, hi, from, to int) int {
	n := (to - from) &^ 15
	mean, ok := any(j.mean).([]float32)
	if !ok || j.groups != 1 || j.l != 1 || !j.access.direct || n == 0 {
		return from
	}
	width, rstd := j.c, any(j.rstd).([]float32)
	products, sums = products[from:from+n], sums[from:from+n]
	for ; lo < hi; lo += normTogether {
		at, rows := lo*width+from, min(normTogether, hi-lo)
		g, x := slice[float32](offset(j.call.In[0].Ptr, at, 4), (rows-1)*width+n), slice[float32](offset(j.call.In[1].Ptr, at, 4), (rows-1)*width+n)
		if vector.normSums != nil {
			vector.normSums(rows, n, &g[0], &x[0], 4*width, &mean[lo], &rstd[lo], &products[0], &sums[0])
		} else {
			normSumsGo(g, x, width, mean[lo:lo+rows], rstd[lo:lo+rows], products, sums)
		}
	}
	if spoiltSums(products) || spoiltSums(sums) {
		clear(products)
		clear(sums)
		return from
	}
	return from + n
}

// normSumsGo adds g*(x-mean)*rstd to products and g to sums, of rows that are ld apart.
func normSumsGo(g, x []float32, ld int, mean, rstd []float32, products, sums []float64) {
	n := len(products)
	sums = sums[:n]
	for ; len(mean) > 0; mean, rstd = mean[min(4, len(mean)):], rstd[min(4, len(rstd)):] {
		var dots, adds [chunk]float32
		for r := range min(4, len(mean)) {
			m, k := mean[r], rstd[r]
			gs, xs := g[:n], x[:n]
			for i, v := range gs {
				dots[i] += float32(float32(float32(xs[i]-m)*k) * v)
				adds[i] += v
			}
			g, x = g[min(ld, len(g)):], x[min(ld, len(x)):]
		}
		for i := range products {
			products[i] += float64(dots[i])
			sums[i] += float64(adds[i])
		}
	}
}
