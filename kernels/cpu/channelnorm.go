package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// ChannelNorm and ChannelNormGrad: what batch norm does to each element. Both are k0*g + k1*x + k2, where x is the normalised
// input and the k belong to the channel: for the forward pass k0 is 0.

// channelNorm is one ChannelNorm or ChannelNormGrad in work. It is a job over the runs of L elements of one channel, or over
// samples if L is small: then each column has its own coefficients.
type channelNorm[T float] struct {
	normShape[T]
	gradient   bool
	a, g       *op.View
	k0, k1, k2 []T // nil for 0, of k1 for 1
}

// channelNormalizer makes the Func of ChannelNorm, or of its gradient.
func channelNormalizer[T float](gradient bool) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func {
		pool := &sync.Pool{New: func() any {
			return &channelNorm[T]{normShape: normShape[T]{access: l}, gradient: gradient}
		}}
		return func(c *op.Call) error {
			j := pool.Get().(*channelNorm[T])
			j.begin(c, &c.Out[0])
			j.groups, j.per, j.k0, j.k1, j.k2 = 0, j.c, nil, nil, nil
			if gradient {
				j.g, j.a = &c.In[0], &c.In[1]
				j.statistics(c.In[2:4])
				j.coefficients(c.In[4:])
			} else {
				j.a = &c.In[0]
				j.statistics(c.In[1:3])
				j.affine(c.In[3:])
				j.k1, j.k2 = j.weight, j.bias
			}
			if j.short() {
				j.mean, j.rstd = j.repeated(j.mean), j.repeated(j.rstd)
				j.k0, j.k1, j.k2 = j.repeated(j.k0), j.repeated(j.k1), j.repeated(j.k2)
				split(j.n, max(1, elementGrain/4/max(j.c*j.l, 1)), j)
			} else {
				split(j.n*j.c, max(1, elementGrain/4/max(j.l, 1)), j)
			}
			j.release()
			j.a, j.g = nil, nil
			pool.Put(j)
			return nil
		}
	}
}

// coefficients are those of the gradient; views are the weight and the sums, as the flags say.
func (j *channelNorm[T]) coefficients(views []op.View) {
	j.k0 = j.rstd
	if j.has(op.NormWeight) {
		j.weight = j.vector(&views[0])
		views = views[1:]
		j.k0 = j.room(j.c)
		mulSlices(j.k0, j.weight, j.rstd)
	}
	if !j.has(op.NormTraining) {
		return
	}
	products, sums := j.vector(&views[0]), j.vector(&views[1])
	j.k1, j.k2 = j.room(j.c), j.room(j.c)
	count := float64(j.n * j.l)
	for c, k := range j.k0 {
		j.k1[c] = T(-float64(k) * float64(products[c]) / count)
		j.k2[c] = T(-float64(k) * float64(sums[c]) / count)
	}
}

func (j *channelNorm[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	width, short := j.l, j.short()
	if short {
		width = j.c * j.l
	}
	for ; lo < hi; lo++ {
		for col := 0; col < width; col += chunk {
			n := min(chunk, width-col)
			y := j.target(j.call.Out[0].Ptr, lo*width+col, n, scratchBuffer[T](s, 3, n))
			if short {
				j.columns1(y, lo*width+col, col, s)
			} else {
				j.run1(y, lo*width+col, lo%j.c, s)
			}
			j.close(j.call.Out[0].Ptr, lo*width+col, y)
		}
	}
}

// columns1 computes elements of neighbouring columns, from column c on.
func (j *channelNorm[T]) columns1(y []T, at, c int, s *scratch) {
	n := len(y)
	x := y
	if j.gradient {
		x = scratchBuffer[T](s, 1, n)
	}
	if !j.gradient || j.k1 != nil {
		subSlices(x, j.open(j.a.Ptr, at, n, scratchBuffer[T](s, 1, n)), j.mean[c:c+n])
		mulSlices(x, x, j.rstd[c:c+n])
		if j.k1 != nil {
			mulSlices(x, x, j.k1[c:c+n])
		}
	}
	if j.gradient {
		mulSlices(y, j.open(j.g.Ptr, at, n, scratchBuffer[T](s, 0, n)), j.k0[c:c+n])
		if j.k1 != nil {
			addSlices(y, y, x)
		}
	}
	if j.k2 != nil {
		addSlices(y, y, j.k2[c:c+n])
	}
}

// run1 computes elements of channel c.
func (j *channelNorm[T]) run1(y []T, at, c int, s *scratch) {
	var x, g []T
	if !j.gradient || j.k1 != nil {
		x = j.open(j.a.Ptr, at, len(y), scratchBuffer[T](s, 1, len(y)))
	}
	if j.gradient {
		g = j.open(j.g.Ptr, at, len(y), scratchBuffer[T](s, 0, len(y)))
	}
	if done := j.form32(y, g, x, c); done > 0 {
		y, x = y[done:], x[done:]
		if j.gradient {
			g = g[done:]
		}
	}
	if len(y) > 0 {
		j.steps1(y, g, x, c, s)
	}
}

// steps1 computes elements of channel c in one step after the other.
func (j *channelNorm[T]) steps1(y, g, a []T, c int, s *scratch) {
	x := y
	if j.gradient {
		x = scratchBuffer[T](s, 1, len(y))
	}
	if a != nil {
		shiftSlice(x, a, -j.mean[c])
		scaleSlice(x, x, j.rstd[c])
		if j.k1 != nil {
			scaleSlice(x, x, j.k1[c])
		}
	}
	if j.gradient {
		scaleSlice(y, g, j.k0[c])
		if j.k1 != nil {
			addSlices(y, y, x)
		}
	}
	if j.k2 != nil {
		shiftSlice(y, y, j.k2[c])
	}
}
