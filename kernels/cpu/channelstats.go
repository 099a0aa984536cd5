package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// ChannelStats: mean and variance of each channel, in two passes.

// statsJob is one ChannelStats in work. It is a job over channels, or over blocks of samples if L is small.
type statsJob[T float] struct {
	normShape[T]
	partials partials
	second   bool // the pass over blocks for the variance, which knows the mean
	means    []T
	columns  []T       // the means of the columns' channels, for the second pass over blocks
	squares  []float64 // of each channel: the sum of squared distances from the mean
}

// channelStats makes the Func of ChannelStats.
func channelStats[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &statsJob[T]{normShape: normShape[T]{access: l}} }}
	return func(c *op.Call) error {
		j := pool.Get().(*statsJob[T])
		j.begin(c, &c.In[0])
		j.means = slice[T](c.Out[0].Ptr, j.c)
		if cap(j.squares) < j.c {
			j.squares = make([]float64, j.c)
		}
		j.squares = j.squares[:j.c]
		if j.short() {
			j.byBlocks()
		} else {
			split(j.c, max(1, elementGrain/4/max(j.n*j.l, 1)), j)
		}
		j.finish()
		j.release()
		j.means, j.columns = nil, nil
		pool.Put(j)
		return nil
	}
}

// byBlocks makes both passes over samples.
func (j *statsJob[T]) byBlocks() {
	for _, j.second = range []bool{false, true} {
		j.partials.set(j.n, j.c*j.l)
		j.partials.split(j)
		for c, v := range folded(j.partials.total(0), j.l) {
			if j.second {
				j.squares[c] = v
			} else {
				j.means[c] = T(v / float64(j.n*j.l))
			}
		}
		j.columns = j.repeated(j.means)
	}
	j.repeatInfinite()
}

// repeatInfinite computes channels once more whose squares overflowed in T: channel forms such in float64.
func (j *statsJob[T]) repeatInfinite() {
	s := takeScratch()
	defer scratches.Put(s)
	for c, v := range j.squares {
		if math.IsInf(v, 1) {
			j.channel(c, s)
		}
	}
}

func (j *statsJob[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	short := j.short()
	for ; lo < hi; lo++ {
		if short {
			j.block(lo, s)
		} else {
			j.channel(lo, s)
		}
	}
}

// block adds the rows of unit i up: elements in the first pass, squared distances in the second.
func (j *statsJob[T]) block(i int, s *scratch) {
	b, lo, hi, from, to := j.partials.unit(i, j.n)
	sums := j.partials.of(b, 0)[from:to]
	width, n := j.c*j.l, to-from
	for r := lo; r < hi; r++ {
		x := j.open(j.call.In[0].Ptr, r*width+from, n, scratchBuffer[T](s, 0, n))
		if j.second {
			d := scratchBuffer[T](s, 1, n)
			subSlices(d, x, j.columns[from:to])
			mulSlices(d, d, d)
			x = d
		}
		mergeFloats(sums, x)
	}
}

// channel makes both passes over channel c.
func (j *statsJob[T]) channel(c int, s *scratch) {
	var sum, square float64
	for _, second := range []bool{false, true} {
		for n := range j.n {
			for i := 0; i < j.l; i += chunk {
				k := min(chunk, j.l-i)
				x := j.open(j.call.In[0].Ptr, (n*j.c+c)*j.l+i, k, scratchBuffer[T](s, 0, k))
				if second {
					square += squares(x, j.means[c], scratchBuffer[T](s, 1, k))
				} else {
					sum += foldSum(0, x)
				}
			}
		}
		if !second {
			j.means[c] = T(sum / float64(j.n*j.l))
		}
	}
	j.squares[c] = square
}

// finish writes rstd, and brings the running statistics up to date.
func (j *statsJob[T]) finish() {
	c, count := j.call, float64(j.n*j.l)
	rstd := slice[T](c.Out[1].Ptr, j.c)
	for i, v := range j.squares {
		rstd[i] = T(1 / math.Sqrt(v/count+c.F[0]))
	}
	if !j.has(op.NormRunning) {
		return
	}
	momentum := c.F[1]
	for k := range 2 {
		running := j.vector(&c.Out[2+k])
		for i, old := range running {
			v := float64(j.means[i])
			if k == 1 {
				v = j.squares[i] / (count - 1)
			}
			running[i] = T(float64((1-momentum)*float64(old)) + float64(momentum*v))
		}
		storeVector(&c.Out[2+k], running)
	}
}
