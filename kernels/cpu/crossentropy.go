package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// CrossEntropy and CrossEntropyGrad: softmax, its logarithm and the loss in one pass over a row, of which two numbers are
// kept for backward: the logarithm of its sum of exponentials would lose the digits of the sum beside a large maximum.

// entropyJob is one call in work. It is a job over rows.
type entropyJob[T float] struct {
	access              accessor[T]
	wide                accessor[T] // of losses, which have the type of computation
	backward            bool
	logits, classes     *op.View
	loss, dst           *op.View // loss is the gradient of the rows' losses in backward
	most, logSum        []T      // of each row: its maximum, and the logarithm of the sum of exponentials relative to that
	weight              []T
	weights             []T // nil if there are none
	total               float64
	ignore              int64
	smooth              float64
	memory, weightsPool sync.Pool
}

// entropy makes the Func of CrossEntropy, or of its gradient. All classes are checked before anything is written.
func entropy[T float](l accessor[T], backward bool) op.Func {
	pool := &sync.Pool{New: func() any { return &entropyJob[T]{access: l, wide: wordAccessor[T](), backward: backward} }}
	return func(c *op.Call) error {
		j := pool.Get().(*entropyJob[T])
		j.set(c)
		columns := j.logits.Shape[1]
		err := checkClassesOf(c, j.classes, columns)
		if err == nil {
			weights := j.loadWeights(c)
			split(j.logits.Shape[0], max(1, elementGrain/4/max(1, columns)), j)
			j.weightsPool.Put(weights)
		}
		j.logits, j.classes, j.loss, j.dst, j.most, j.logSum, j.weight, j.weights = nil, nil, nil, nil, nil, nil, nil, nil
		pool.Put(j)
		return err
	}
}

func (j *entropyJob[T]) set(c *op.Call) {
	j.ignore, j.smooth = c.I[0], c.F[0]
	if j.backward {
		j.dst, j.loss, j.logits, j.classes = &c.Out[0], &c.In[0], &c.In[1], &c.In[2]
		j.setSums(&c.In[3])
		return
	}
	j.logits, j.classes, j.loss = &c.In[0], &c.In[1], &c.Out[0]
	j.setSums(&c.Out[1])
	j.weight = slice[T](c.Out[2].Ptr, c.Out[2].Len())
}

// setSums takes lse, which is contiguous: all maxima, and then all logarithms.
func (j *entropyJob[T]) setSums(lse *op.View) {
	both, rows := slice[T](lse.Ptr, lse.Len()), lse.Shape[1]
	j.most, j.logSum = both[:rows], both[rows:]
}

// loadWeights reads the weights of classes, and their sum. It returns the memory that they are in.
func (j *entropyJob[T]) loadWeights(c *op.Call) *[]T {
	memory, _ := j.weightsPool.Get().(*[]T)
	if memory == nil {
		memory = new([]T)
	}
	count := j.logits.Shape[1]
	first := 2
	if j.backward {
		first = 4
	}
	if len(c.In) <= first {
		j.weights, j.total = nil, float64(count)
		return memory
	}
	*memory = sized(*memory, count)
	j.weights = *memory
	j.access.load(j.weights, c.In[first].Ptr, c.In[first].Strides[0])
	j.total = foldSum(0, j.weights)
	return memory
}

func (j *entropyJob[T]) run(lo, hi int) {
	s := takeScratch()
	memory, _ := j.memory.Get().(*[]T)
	if memory == nil {
		memory = new([]T)
	}
	columns := j.logits.Shape[1]
	for ; lo < hi; lo++ {
		class := int64At(j.classes, lo)
		from, step := j.rowOf(j.logits, lo)
		if j.backward {
			j.gradRow(lo, class, from, step, memory, s)
			continue
		}
		row := j.gathered(from, step, columns, memory)
		j.lossRow(lo, class, row, s)
	}
	j.memory.Put(memory)
	scratches.Put(s)
}

func (j *entropyJob[T]) rowOf(v *op.View, n int) (p device.Ptr, step int) {
	return offset(v.Ptr, n*v.Strides[0], j.access.size), v.Strides[1]
}

// gathered is a row as it lies, or gathered and converted into memory.
func (j *entropyJob[T]) gathered(p device.Ptr, step, n int, memory *[]T) []T {
	if j.access.direct && step == 1 {
		return slice[T](p, n)
	}
	*memory = sized(*memory, n)
	j.access.load(*memory, p, step)
	return *memory
}

// weightOf is that of a class, or 0 if its rows are to be ignored.
func (j *entropyJob[T]) weightOf(class int64) float64 {
	switch {
	case class == j.ignore:
		return 0
	case j.weights == nil:
		return 1
	}
	return float64(j.weights[class])
}

// lossRow computes loss, maximum, logarithm of the sum, and weight of row n.
func (j *entropyJob[T]) lossRow(n int, class int64, a []T, s *scratch) {
	most, logSum := math.Inf(-1), math.Inf(-1)
	if len(a) > 0 {
		tmp := scratchBuffer[T](s, 0, rowGroup)
		most = float64(maxOf(a[0], a))
		var sum float64
		for i := 0; i < len(a); i += rowGroup {
			k := min(rowGroup, len(a)-i)
			sum += expSumGroup(tmp[:k], a[i:i+k], T(most))
		}
		logSum = math.Log(sum)
	}
	j.most[n], j.logSum[n], j.weight[n] = T(most), T(logSum), T(j.weightOf(class))
	var loss float64
	if class != j.ignore {
		loss = float64((1 - j.smooth) * j.weightOf(class) * (logSum + (most - float64(a[class]))))
		if j.smooth != 0 {
			loss += float64(j.smooth / float64(len(a)) * j.distances(most, logSum, a))
		}
	}
	out := scratchBuffer[T](s, 1, 1)
	out[0] = T(loss)
	j.wide.store(offset(j.loss.Ptr, n*j.loss.Strides[0], j.wide.size), 1, out)
}

// distances is the weighted sum of -log(softmax(a)).
func (j *entropyJob[T]) distances(most, logSum float64, a []T) float64 {
	var sum float64
	for i := 0; i < len(a); i += rowGroup {
		var part float64
		for k := i; k < min(i+rowGroup, len(a)); k++ {
			d := logSum + (most - float64(a[k]))
			if j.weights != nil {
				d *= float64(j.weights[k])
			}
			part += d
		}
		sum += part
	}
	return sum
}

// gradRow computes row n of the gradient, a group of elements after the other: each is read before it is written, and no
// other is written before it is read, so that dst may be the logits.
func (j *entropyJob[T]) gradRow(n int, class int64, from device.Ptr, step int, memory *[]T, s *scratch) {
	to, toStep := j.rowOf(j.dst, n)
	columns := j.logits.Shape[1]
	g := scratchBuffer[T](s, 1, 1)
	j.wide.load(g, offset(j.loss.Ptr, n*j.loss.Strides[0], j.wide.size), 1)
	*memory = sized(*memory, 2*rowGroup)
	p, a := (*memory)[:rowGroup], (*memory)[rowGroup:2*rowGroup]
	uniform := j.smooth / float64(columns)
	hit := float64((1 - j.smooth) * j.weightOf(class))
	all := (hit + float64(uniform*j.total)) * math.Exp(-float64(j.logSum[n])) // of exponentials relative to the maximum
	for i := 0; i < columns; i += rowGroup {
		k := min(rowGroup, columns-i)
		if class == j.ignore {
			clear(p[:k])
		} else {
			j.access.load(a[:k], offset(from, i*step, j.access.size), step)
			expSumGroup(p[:k], a[:k], j.most[n])
			at, own := int(class)-i, T(0)
			if at >= 0 && at < k {
				own = p[at]
			}
			j.scaleGroup(p[:k], i, float64(g[0]), all, uniform)
			if at >= 0 && at < k {
				p[at] = T(float64(g[0]) * j.ownClass(at+i, float64(own), all, uniform, hit))
			}
		}
		j.access.store(offset(to, i*toStep, j.access.size), toStep, p[:k])
	}
}

// ownClass is the gradient of the logit of the row's own class, whose exponential is v. It is rounded after the difference, of which little
// may be left: of a row that is certain of its class the loss has almost no gradient, and of a single class none.
func (j *entropyJob[T]) ownClass(class int, v, all, uniform, hit float64) float64 {
	if j.weights != nil {
		uniform *= float64(j.weights[class])
	}
	return float64(all*v) - (hit + uniform)
}

// scaleGroup turns the exponentials of classes first.. into gradients, but not that of the row's own class, which ownClass does.
func (j *entropyJob[T]) scaleGroup(p []T, first int, g, all, uniform float64) {
	switch {
	case uniform == 0:
		g *= all
		for k, v := range p {
			p[k] = T(g * float64(v))
		}
	case j.weights == nil:
		for k, v := range p {
			p[k] = T(g * (float64(all*float64(v)) - uniform))
		}
	default:
		for k, v := range p {
			p[k] = T(g * (float64(all*float64(v)) - float64(uniform*float64(j.weights[first+k]))))
		}
	}
}
