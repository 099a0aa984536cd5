package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Conversions by vectors of elements that lie side by side, through int32 where no loop does it at once.

// castKind is a type of elements. Those of castBool are uint8 when they are converted from.
type castKind int

const (
	castUint8 castKind = iota
	castInt32
	castInt64
	castFloat32
	castFloat64
	castBool
	castKinds
)

var (
	castSizes = [castKinds]int{1, 4, 8, 4, 8, 1}
	castOf    = map[dtype.DType]castKind{
		dtype.Uint8: castUint8, dtype.Int32: castInt32, dtype.Int64: castInt64, dtype.Float32: castFloat32, dtype.Float64: castFloat64, dtype.Bool: castBool,
	}
)

// casting is such a Cast. It is a job over elements.
type casting struct {
	loop
	from, to castKind
}

var castings = sync.Pool{New: func() any { return new(casting) }}

// castWords does such a Cast, and reports whether c is one.
func castWords(c *op.Call) bool {
	from, there := castOf[c.In[0].DType]
	to, known := castOf[c.Out[0].DType]
	if from == castBool {
		from = castUint8
	}
	if !there || !known || !castable(from, to) {
		return false
	}
	j := castings.Get().(*casting)
	defer castings.Put(j)
	j.set(&c.Out[0], c.In[:1])
	if j.Total < 8 || !j.full[0] || !j.full[1] {
		return false
	}
	j.from, j.to = from, to
	split(j.Total, elementGrain, j)
	return true
}

// castable reports whether there are loops from one type to the other. Of an int64, int32 has the lower bits, which is all of it for uint8.
func castable(from, to castKind) bool {
	second := vector.casts[castInt32][to] != nil
	switch {
	case vector.casts[from][to] != nil:
		return true
	case from == castUint8, from == castInt64 && to == castUint8:
		return second
	case from == castFloat32 && (to == castInt64 || to == castUint8):
		return second && vector.truncate != nil
	}
	return from == castFloat32 && to == castInt32 && vector.truncate != nil
}

func (j *casting) run(lo, hi int) {
	n := hi - lo
	if n == 0 {
		return
	}
	to := slice[byte](offset(j.Ptr[0], lo, j.Size[0]), n*j.Size[0])
	castElements(j.from, j.to, n, to, slice[byte](offset(j.Ptr[1], lo, j.Size[1]), n*j.Size[1]))
}

// castElements converts n elements, which castable allows. The last ones, fewer than a vector, are converted as a whole one.
func castElements(from, to castKind, n int, dst, a []byte) {
	s := takeScratch()
	defer scratches.Put(s)
	in, out := castSizes[from], castSizes[to]
	for done := 0; done < n; {
		m := min(n-done, chunk)
		src, r := a[done*in:][:m*in], dst[done*out:][:m*out]
		if whole := m &^ 7; whole > 0 {
			m = whole
			castChunk(from, to, m, r, src, s)
		} else {
			eight, results := scratchBuffer[byte](s, 1, 8*in), scratchBuffer[byte](s, 2, 8*out)
			clear(eight)
			copy(eight, src)
			castChunk(from, to, 8, results, eight, s)
			copy(r, results)
		}
		done += m
	}
}

// castChunk converts n elements, a multiple of 8 and chunk at most.
func castChunk(from, to castKind, n int, dst, a []byte, s *scratch) {
	if f := vector.casts[from][to]; f != nil {
		f(n, &dst[0], &a[0])
		return
	}
	middle := bytesOf(scratchBuffer[int32](s, 0, chunk))
	if to == castInt32 {
		middle = dst
	}
	if from != castFloat32 {
		vector.casts[from][castInt32](n, &middle[0], &a[0])
	} else if vector.truncate(n, &middle[0], &a[0]) != 0 { // some numbers have no int32
		truncateWide(to, n, dst, a)
		return
	}
	if to != castInt32 {
		vector.casts[castInt32][to](n, &dst[0], &middle[0])
	}
}

// truncateWide converts n elements of float32 to integers through int64.
func truncateWide(to castKind, n int, dst, a []byte) {
	v := elementsAs[float32](a, n)
	switch to {
	case castInt64:
		convertInt(elementsAs[int64](dst, n), v, nil)
	case castInt32:
		convertInt(elementsAs[int32](dst, n), v, nil)
	default:
		convertInt(elementsAs[uint8](dst, n), v, nil)
	}
}
