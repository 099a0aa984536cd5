package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// RowNorm and RowNormGrad: layer norm, group norm, instance norm and RMS norm.

// rowNorm is one RowNorm or RowNormGrad in work. It is a job over rows.
type rowNorm[T float] struct {
	normShape[T]
	gradient bool
}

// rowNormalizer makes the Func of RowNorm, or of its gradient.
func rowNormalizer[T float](gradient bool) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func {
		pool := &sync.Pool{New: func() any {
			return &rowNorm[T]{normShape: normShape[T]{access: l}, gradient: gradient}
		}}
		return func(c *op.Call) error {
			j := pool.Get().(*rowNorm[T])
			j.begin(c, &c.Out[0])
			if gradient {
				stats := 2
				if j.has(op.NormRMS) {
					stats = 1
				}
				j.statistics(c.In[2 : 2+stats])
				j.affine(c.In[2+stats:])
			} else {
				j.affine(c.In[1:])
			}
			if j.total() > 0 {
				split(j.n*j.groups, max(1, elementGrain/4/j.columns), j)
			}
			j.release()
			pool.Put(j)
			return nil
		}
	}
}

func (j *rowNorm[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		if j.gradient {
			j.backward(lo, s)
		} else {
			j.forward(lo, s)
		}
	}
}

// forward normalises row r.
func (j *rowNorm[T]) forward(r int, s *scratch) {
	c, at := j.call, r*j.columns
	mean, rstd := j.moments(r, s)
	if !j.has(op.NormRMS) {
		slice[T](c.Out[1].Ptr, j.n*j.groups)[r] = mean
	}
	slice[T](c.Out[len(c.Out)-1].Ptr, j.n*j.groups)[r] = rstd
	first := r % j.groups * j.per
	for col := 0; col < j.columns; col += chunk {
		n := min(chunk, j.columns-col)
		if j.forwardFloats(at+col, first, col, n, mean, rstd) {
			continue
		}
		x := j.open(c.In[0].Ptr, at+col, n, scratchBuffer[T](s, 0, n))
		y := j.target(c.Out[0].Ptr, at+col, n, scratchBuffer[T](s, 1, n))
		if mean != 0 {
			shiftSlice(y, x, -mean)
			x = y
		}
		scaleSlice(y, x, rstd)
		if j.weight != nil {
			mulSlices(y, y, j.along(j.weight, first, col, n, scratchBuffer[T](s, 2, n)))
		}
		if j.bias != nil {
			addSlices(y, y, j.along(j.bias, first, col, n, scratchBuffer[T](s, 2, n)))
		}
		j.close(c.Out[0].Ptr, at+col, y)
	}
}

// moments are mean and rstd of row r; the mean is 0 for RMS norm.
func (j *rowNorm[T]) moments(r int, s *scratch) (mean, rstd T) {
	c, at := j.call, r*j.columns
	var sum float64
	if !j.has(op.NormRMS) {
		for col := 0; col < j.columns; col += chunk {
			n := min(chunk, j.columns-col)
			sum += foldSum(0, j.open(c.In[0].Ptr, at+col, n, scratchBuffer[T](s, 0, n)))
		}
		mean = T(sum / float64(j.columns))
	}
	var square float64
	for col := 0; col < j.columns; col += chunk {
		n := min(chunk, j.columns-col)
		x := j.open(c.In[0].Ptr, at+col, n, scratchBuffer[T](s, 0, n))
		square += squares(x, mean, scratchBuffer[T](s, 1, n))
	}
	return mean, T(1 / math.Sqrt(square/float64(j.columns)+c.F[0]))
}

// squares is the sum of (x-mean)². tmp has the length of x. Squares that overflow in T are formed in float64.
func squares[T float](x []T, mean T, tmp []T) float64 {
	if f, ok := any(x).([]float32); ok {
		if sum, ok := squares32(f, float32(mean)); ok {
			return sum
		}
	}
	d := x
	if mean != 0 {
		shiftSlice(tmp, x, -mean)
		d = tmp
	}
	mulSlices(tmp, d, d)
	if sum := foldSum(0, tmp); !math.IsInf(sum, 1) {
		return sum
	}
	m := float64(mean)
	return fourSums(x, func(v float64) float64 { return (v - m) * (v - m) })
}

// backward computes the gradient of row r.
func (j *rowNorm[T]) backward(r int, s *scratch) {
	if j.backwardFloats(r, s) {
		return
	}
	c, at := j.call, r*j.columns
	var sum, dot float64
	for col := 0; col < j.columns; col += chunk {
		n := min(chunk, j.columns-col)
		g, x := j.pair(r, col, n, s)
		sum += foldSum(0, g)
		mulSlices(x, x, g)
		dot += foldSum(0, x)
	}
	rstd := float64(j.rstd[r])
	slope, shift := -dot/float64(j.columns)*rstd, -sum/float64(j.columns)*rstd
	if j.has(op.NormRMS) {
		shift = 0
	}
	for col := 0; col < j.columns; col += chunk {
		n := min(chunk, j.columns-col)
		g, x := j.pair(r, col, n, s)
		y := j.target(c.Out[0].Ptr, at+col, n, scratchBuffer[T](s, 3, n))
		scaleSlice(y, g, T(rstd))
		scaleSlice(x, x, T(slope))
		addSlices(y, y, x)
		if shift != 0 {
			shiftSlice(y, y, T(shift))
		}
		j.close(c.Out[0].Ptr, at+col, y)
	}
}

// pair is the weighted gradient, and the normalised input, of n elements from column col of row r on. The second one is
// scratch memory; the first one may be the gradient itself.
func (j *rowNorm[T]) pair(r, col, n int, s *scratch) (g, x []T) {
	c, at := j.call, r*j.columns+col
	g = j.open(c.In[0].Ptr, at, n, scratchBuffer[T](s, 0, n))
	if j.weight != nil {
		weighted := scratchBuffer[T](s, 0, n)
		mulSlices(weighted, g, j.along(j.weight, r%j.groups*j.per, col, n, scratchBuffer[T](s, 2, n)))
		g = weighted
	}
	x = scratchBuffer[T](s, 1, n)
	shiftSlice(x, j.open(c.In[1].Ptr, at, n, x), -j.mean[r])
	scaleSlice(x, x, j.rstd[r])
	return g, x
}
