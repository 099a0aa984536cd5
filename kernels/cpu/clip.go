package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Norm and clipping of gradients: many tensors in one call.

func clipRows() []op.Row {
	return []op.Row{
		row(op.GradNorm, floats(gradNorm[float32], gradNorm[float64])),
		row(op.ClipNorm, floats(
			func(l accessor[float32]) op.Func { return tensors(l, clipFactor[float32], scaleBy[float32]) },
			func(l accessor[float64]) op.Func { return tensors(l, clipFactor[float64], scaleBy[float64]) })),
		row(op.ClipValue, floats(
			func(l accessor[float32]) op.Func { return tensors(l, clipLimit[float32], limitTo[float32]) },
			func(l accessor[float64]) op.Func { return tensors(l, clipLimit[float64], limitTo[float64]) })),
	}
}

// clipFactor is what ClipNorm multiplies by, 1 for nothing.
func clipFactor[T float](c *op.Call) T {
	norm := slice[float64](c.In[0].Ptr, 1)[0]
	factor := c.F[0] / (norm + 1e-6)
	if finite := norm-norm == 0; finite && factor >= 1 || !finite && c.I[1] == 0 {
		return 1
	}
	return T(factor)
}

func scaleBy[T float](v operands[T], factor *T) {
	if *factor != 1 {
		scaleSlice(v[0], v[0], *factor)
	}
}

func clipLimit[T float](c *op.Call) T { return T(c.F[0]) }

func limitTo[T float](v operands[T], limit *T) {
	top := *limit
	for i, x := range v[0] {
		if x > top {
			v[0][i] = top
		} else if x < -top {
			v[0][i] = -top
		}
	}
}

// normPiece is the elements of which one part of a norm is made, at the same places whatever the number of goroutines, so that
// sums are the same bits.
const normPiece = stepGrain

// normJob is one call of GradNorm in work: a job over pieces, which are counted through all tensors.
type normJob[T float] struct {
	access accessor[T]
	views  []op.View
	p      float64
	parts  []float64
}

// gradNorm makes the Func of GradNorm.
func gradNorm[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &normJob[T]{access: l} }}
	return func(c *op.Call) error {
		j := pool.Get().(*normJob[T])
		j.views, j.p = c.In, c.F[0]
		pieces := 0
		for i := range j.views {
			pieces += piecesOf(&j.views[i])
		}
		if cap(j.parts) < pieces {
			j.parts = make([]float64, pieces)
		}
		j.parts = j.parts[:pieces]
		split(pieces, 1, j)
		total := &slice[float64](c.Out[0].Ptr, 1)[0]
		for _, part := range j.parts {
			*total = joinNorm(*total, part, j.p)
		}
		j.views = nil
		pool.Put(j)
		return nil
	}
}

func piecesOf(v *op.View) int { return (v.Len() + normPiece - 1) / normPiece }

func joinNorm(a, b, p float64) float64 {
	if math.IsInf(p, 1) {
		return max(a, b)
	}
	return a + b
}

func (j *normJob[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	first := 0
	for i := range j.views {
		v := &j.views[i]
		n := piecesOf(v)
		for k := max(lo, first); k < min(hi, first+n); k++ {
			from := (k - first) * normPiece
			j.parts[k] = j.part(v, from, min(from+normPiece, v.Len()), s)
		}
		first += n
	}
}

// part is the part of the norm that elements lo..hi-1 of a tensor have.
func (j *normJob[T]) part(v *op.View, lo, hi int, s *scratch) float64 {
	total := 0.0
	for ; lo < hi; lo += chunk {
		n := min(chunk, hi-lo)
		at := offset(v.Ptr, lo, j.access.size)
		var x []T
		if j.access.direct {
			x = slice[T](at, n)
		} else {
			x = scratchBuffer[T](s, 0, n)
			j.access.load(x, at, 1)
		}
		total = joinNorm(total, norm(x, j.p), j.p)
	}
	return total
}

// norm is the sum of |x|^p, or the largest |x|. Four sums at a time keep the processor busy.
func norm[T float](x []T, p float64) float64 {
	var a [4]float64
	switch {
	case p == 2:
		n, i := len(x)&^3, 0
		if narrow, ok := any(x).([]float32); ok && n > 0 && vector.squareSums != nil {
			a[0], a[1], a[2], a[3] = vector.squareSums(n, &narrow[0])
			i = n
		}
		for ; i < n; i += 4 {
			b, c, d, e := float64(x[i]), float64(x[i+1]), float64(x[i+2]), float64(x[i+3])
			a[0] += float64(b * b)
			a[1] += float64(c * c)
			a[2] += float64(d * d)
			a[3] += float64(e * e)
		}
		for _, v := range x[n:] {
			a[0] += float64(float64(v) * float64(v))
		}
	case p == 1:
		for i, v := range x {
			a[i&3] += math.Abs(float64(v))
		}
	case math.IsInf(p, 1):
		for _, v := range x {
			a[0] = max(a[0], math.Abs(float64(v)))
		}
	default:
		for i, v := range x {
			a[i&3] += pow64(math.Abs(float64(v)), p)
		}
	}
	return a[0] + a[1] + a[2] + a[3]
}
