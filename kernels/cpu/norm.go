package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What the normalisations share: the shape of a call, its vectors, and access to its elements by pieces.
//
// The kernels work on pieces of at most chunk elements, which stay in the first-level cache while several passes of slice
// arithmetic go over them. Sums accumulate in float64; variances are sums of squared distances from the mean, in a second
// pass, so that no digits are lost where the mean is large.

// normShape is the shape of a call on [N, C, L], and what it has besides the elements.
type normShape[T float] struct {
	access  accessor[T] // of a, and what has its shape
	call    *op.Call
	n, c, l int
	groups  int // of channels; 0 for operations on channels
	per     int // channels of a group
	columns int // elements of a row
	weight  []T // of each channel; nil if there is none
	bias    []T
	mean    []T // of each row or channel; zeros if there is none
	rstd    []T
	vectors []T // memory of the four
	flags   int64
}

// begin reads shape and flags of a call on a; set reads its vectors. release forgets the call.
func (s *normShape[T]) begin(c *op.Call, a *op.View) {
	s.call, s.flags = c, c.I[1]
	s.n, s.c, s.l = a.Shape[0], a.Shape[1], a.Shape[2]
	s.groups = int(c.I[0])
	s.per = s.c
	if s.groups > 0 {
		s.per = s.c / s.groups
	}
	s.columns = s.per * s.l
	s.weight, s.bias, s.mean, s.rstd = nil, nil, nil, nil
	s.vectors = s.vectors[:0]
}

func (s *normShape[T]) release() { s.call = nil }

func (s *normShape[T]) total() int { return s.n * s.c * s.l }

func (s *normShape[T]) has(flag int64) bool { return s.flags&flag != 0 }

// vector is the content of a view: the memory itself, or a copy if it has another type.
func (s *normShape[T]) vector(v *op.View) []T {
	n := v.Len()
	if op.ComputeType(v.DType) == v.DType {
		return slice[T](v.Ptr, n)
	}
	buf := s.room(n)
	loadVia(any(buf).([]float32), v.Ptr, 1, v.DType)
	return buf
}

// short reports whether runs of neighbours are so short that L columns for each channel are better than runs.
func (s *normShape[T]) short() bool { return s.l < 64 && s.n >= 4 || s.l == 1 }

// repeated is v, a number for each channel, with L copies of each; nil for nil.
func (s *normShape[T]) repeated(v []T) []T {
	if v == nil || s.l == 1 {
		return v
	}
	r := s.room(len(v) * s.l)
	for c, x := range v {
		fillSlice(r[c*s.l:(c+1)*s.l], x)
	}
	return r
}

// folded adds up the L columns of each channel.
func folded(columns []float64, l int) []float64 {
	if l == 1 {
		return columns
	}
	for c := range len(columns) / l {
		sum := 0.0
		for _, v := range columns[c*l : (c+1)*l] {
			sum += v
		}
		columns[c] = sum
	}
	return columns[:len(columns)/l]
}

// room is memory for n elements, which belongs to s until its next call.
func (s *normShape[T]) room(n int) []T {
	at := len(s.vectors)
	if cap(s.vectors) < at+n {
		s.vectors = make([]T, at, 2*(at+n)) // what was handed out stays with its users
	}
	s.vectors = s.vectors[:at+n]
	return s.vectors[at : at+n : at+n]
}

// affine takes weight and bias from the views, which begin with the weight if the flags say that there is one.
func (s *normShape[T]) affine(views []op.View) {
	if s.has(op.NormWeight) {
		s.weight = s.vector(&views[0])
		views = views[1:]
	}
	if s.has(op.NormBias) && len(views) > 0 {
		s.bias = s.vector(&views[0])
	}
}

// statistics takes mean and rstd from the views.
func (s *normShape[T]) statistics(views []op.View) {
	if s.has(op.NormRMS) {
		s.rstd = s.vector(&views[0])
		s.mean = s.room(len(s.rstd))
		clear(s.mean)
		return
	}
	s.mean, s.rstd = s.vector(&views[0]), s.vector(&views[1])
	if s.has(op.NormVariance) {
		variance := s.rstd
		s.rstd = s.room(len(variance))
		for i, v := range variance {
			s.rstd[i] = T(1 / math.Sqrt(float64(v)+s.call.F[0]))
		}
	}
}

// open is elements at..at+n-1 of a view of a's shape: the memory itself, or buf, which is filled.
func (s *normShape[T]) open(p device.Ptr, at, n int, buf []T) []T {
	p = offset(p, at, s.access.size)
	if s.access.direct {
		return slice[T](p, n)
	}
	s.access.load(buf[:n], p, 1)
	return buf[:n]
}

// target is where elements at..at+n-1 of an output are computed: its memory, or buf. close writes buf there.
func (s *normShape[T]) target(p device.Ptr, at, n int, buf []T) []T {
	if s.access.direct {
		return slice[T](offset(p, at, s.access.size), n)
	}
	return buf[:n]
}

func (s *normShape[T]) close(p device.Ptr, at int, v []T) {
	if !s.access.direct {
		s.access.store(offset(p, at, s.access.size), 1, v)
	}
}

// along is v, one number for each channel, for n elements from column col of a group on whose first channel is first: a part
// of v if channels are single elements, else buf, which is filled.
func (s *normShape[T]) along(v []T, first, col, n int, buf []T) []T {
	if s.l == 1 {
		return v[first+col : first+col+n]
	}
	buf = buf[:n]
	channel, left := first+col/s.l, s.l-col%s.l
	for rest := buf; len(rest) > 0; channel++ {
		k := min(left, len(rest))
		fillSlice(rest[:k], v[channel])
		rest, left = rest[k:], s.l
	}
	return buf
}

// storeVector writes numbers as elements of a view of any float type.
func storeVector[T float](v *op.View, numbers []T) {
	if op.ComputeType(v.DType) == v.DType {
		copy(slice[T](v.Ptr, len(numbers)), numbers)
	} else {
		storeVia(v.Ptr, 1, any(numbers).([]float32), v.DType)
	}
}

func normRows() []op.Row {
	return []op.Row{
		row(op.RowNorm, floats(rowNormalizer[float32](false), rowNormalizer[float64](false))),
		row(op.RowNormGrad, floats(rowNormalizer[float32](true), rowNormalizer[float64](true))),
		row(op.NormSums, floats(normSums[float32], normSums[float64])),
		row(op.ChannelStats, floats(channelStats[float32], channelStats[float64])),
		row(op.ChannelNorm, floats(channelNormalizer[float32](false), channelNormalizer[float64](false))),
		row(op.ChannelNormGrad, floats(channelNormalizer[float32](true), channelNormalizer[float64](true))),
	}
}
