package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// The gradient of layer norm, of float32 with a weight, in two passes: one for both sums of a row, one for its gradients.

// normRow is what the passes need of a row.
type normRow struct{ mean, rstd, slope, shift float32 }

// normDots are the sums of g*w and of g*w*(x-mean)*rstd, in eight parts by place.
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
	return sums[0], sums[1]
}

// normPair is the weighted gradient and the normalised input.
func normPair(g, w, x float32, c *normRow) (weighted, normal float32) {
	return g * w, float32(x-c.mean) * c.rstd
}

func normDotsGo(g, w, x []float32, c *normRow, sums *[2]float64) {
	var s, d [8]float64
	for i := range g {
		a, b := normPair(g[i], w[i], x[i], c)
		s[i%8] += float64(a)
		d[i%8] += float64(float32(a * b))
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

// normTogether is the number of rows of a block that are added up together.
const normTogether = 8

// blockFloats is block for layer norm of float32: eight rows at a time, sixteen columns in registers. It gives the first column that is left.
func (j *sumsJob[T]) blockFloats(products, sums []float64, lo, hi, from, to int) int {
	n := (to - from) &^ 15
	mean, ok := any(j.mean).([]float32)
	if !ok || vector.normSums == nil || j.groups != 1 || j.l != 1 || !j.access.direct || n == 0 {
		return from
	}
	width, rstd := j.c, any(j.rstd).([]float32)
	for ; lo < hi; lo += normTogether {
		at := lo*width + from
		g, x := slice[float32](offset(j.call.In[0].Ptr, at, 4), n), slice[float32](offset(j.call.In[1].Ptr, at, 4), n)
		vector.normSums(min(normTogether, hi-lo), n, &g[0], &x[0], 4*width, &mean[lo], &rstd[lo], &products[from], &sums[from])
	}
	return from + n
}
