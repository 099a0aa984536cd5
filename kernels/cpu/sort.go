package cpu

import (
	"runtime"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Sort and TopK. Each worker sorts rows; where there are fewer rows than workers, a long row is cut into tiles, which are sorted
// at the same time and then merged in pairs. The order of entries is total, so the cuts change nothing.

// sortTile is the least number of elements that is worth a tile of its own.
const sortTile = 32 << 10

// radixLength is the number of entries from which on they are sorted by radix.
const radixLength = 512

// sorting is one Sort or TopK in work. It is a job over rows, and over tiles of one row.
type sorting[T, E any] struct {
	ordering[T, E]
	loop    loop // over the first elements of the rows: values, indices, input
	access  accessor[T]
	columns int // of a row of the input
	keep    int // of a row of the outputs
	stride  [3]int
	flip    uint64
	memory  sync.Pool // *sortMemory[T, E]

	// Of the one row that is sorted in tiles:
	row  *sortMemory[T, E]
	tile int // elements of a tile
	span int // tiles merged so far; 0 while they are sorted
}

// sortMemory is what sorting a row takes.
type sortMemory[T, E any] struct {
	values   []T
	from, to []E
}

// sortRows makes the Func of Sort and TopK.
func sortRows[T, E any](l accessor[T], o ordering[T, E]) op.Func {
	pool := &sync.Pool{New: func() any { return &sorting[T, E]{ordering: o, access: l} }}
	return func(c *op.Call) error {
		if n := c.In[0].Shape[c.In[0].NDim-1]; n >= 1<<32 {
			return op.Errorf(c.Op, op.ErrCall, "rows of %d elements are too long", n)
		}
		s := pool.Get().(*sorting[T, E])
		s.prepare(c)
		switch {
		case s.keep == 0:
		case s.loop.Total < runtime.GOMAXPROCS(0) && s.columns >= 4*sortTile:
			s.inTiles()
		default:
			split(s.loop.Total, max(1, sortTile/4/s.columns), s)
		}
		pool.Put(s)
		return nil
	}
}

func (s *sorting[T, E]) prepare(c *op.Call) {
	views := [3]op.View{c.Out[0], c.Out[1], c.In[0]}
	last := views[0].NDim - 1
	s.columns, s.keep = views[2].Shape[last], views[0].Shape[last]
	for k := range views {
		s.stride[k] = views[k].Strides[last]
		views[k].Shape[last] = 1
	}
	s.loop.set(&views[0], views[1:])
	s.flip, s.row = 0, nil
	if c.I[0] != 0 {
		s.flip = 1<<64 - 1
	}
}

func (s *sorting[T, E]) take() *sortMemory[T, E] {
	m, _ := s.memory.Get().(*sortMemory[T, E])
	if m == nil {
		m = new(sortMemory[T, E])
	}
	if cap(m.from) < s.columns {
		m.values, m.from, m.to = make([]T, s.columns), make([]E, s.columns), make([]E, s.columns)
	}
	m.values, m.from, m.to = m.values[:s.columns], m.from[:s.columns], m.to[:s.columns]
	return m
}

func (s *sorting[T, E]) run(lo, hi int) {
	if s.row != nil {
		for ; lo < hi; lo++ {
			s.runTile(lo)
		}
		return
	}
	m := s.take()
	defer s.memory.Put(m)
	var w walk
	w.seek(&s.loop, lo)
	for ; lo < hi; lo++ {
		s.load(&w, m)
		sorted := s.sortPart(m, 0, s.columns)
		s.store(&w, m, sorted)
		w.skip(1)
	}
}

func (s *sorting[T, E]) load(w *walk, m *sortMemory[T, E]) {
	p, _ := w.at(2)
	s.access.load(m.values, p, s.stride[2])
}

// sortPart sorts elements lo..hi-1 of a row; as many of the result as the outputs keep are right.
func (s *sorting[T, E]) sortPart(m *sortMemory[T, E], lo, hi int) []E {
	from, to := m.from[lo:hi], m.to[lo:hi]
	if s.order != nil {
		return s.sortPacked(from, to, m.values[lo:hi], lo)
	}
	if keep := min(s.keep, hi-lo); keep < (hi-lo)/8 {
		s.choose(from[:keep], m.values[lo:hi], lo)
		s.sortFew(from[:keep])
		return from
	}
	for i := range from {
		from[i] = s.entry(m.values[lo+i], lo+i, s.flip)
	}
	switch {
	case hi-lo < radixLength:
		s.sortFew(from)
	default:
		if sorted := s.radix(from, to); &sorted[0] != &from[0] {
			copy(from, sorted)
		}
	}
	return from
}

// sortPacked is sortPart by the faster ways.
func (s *sorting[T, E]) sortPacked(from, to []E, values []T, lo int) []E {
	sorted := from
	if keep := min(s.keep, len(from)); keep < len(from)/8 {
		s.pack(to, values, lo, s.flip)
		s.least(from[:keep], to)
		sorted = s.order(from[:keep], to[:keep])
	} else {
		s.pack(from, values, lo, s.flip)
		sorted = s.order(from, to)
	}
	if &sorted[0] != &from[0] {
		copy(from, sorted)
	}
	return from
}

func (s *sorting[T, E]) sortFew(e []E) {
	slices.SortFunc(e, func(a, b E) int {
		if s.less(a, b) {
			return -1
		}
		return 1 // entries differ
	})
}

// radix sorts by the bytes of the keys, the least first, and leaves out those that all entries have in common. It returns the
// slice that has the result.
func (s *sorting[T, E]) radix(from, to []E) []E {
	for k := range s.digits {
		var count [256]int
		for _, e := range from {
			count[s.digit(e, k)]++
		}
		if count[s.digit(from[0], k)] == len(from) {
			continue
		}
		sum := 0
		for d, c := range count {
			count[d] = sum
			sum += c
		}
		for _, e := range from {
			d := s.digit(e, k)
			to[count[d]] = e
			count[d]++
		}
		from, to = to, from
	}
	return from
}

// choose fills heap with the least entries of the values, the first of which has place lo. The greatest of them is its root, with which
// most values are compared and that is all.
func (s *sorting[T, E]) choose(heap []E, values []T, lo int) {
	n := len(heap)
	for i := range heap {
		heap[i] = s.entry(values[i], lo+i, s.flip)
	}
	for i := n/2 - 1; i >= 0; i-- {
		s.sift(heap, i)
	}
	for i, v := range values[n:] {
		if x := s.entry(v, lo+n+i, s.flip); s.less(x, heap[0]) {
			heap[0] = x
			s.sift(heap, 0)
		}
	}
}

func (s *sorting[T, E]) sift(heap []E, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && s.less(heap[child], heap[child+1]) {
			child++
		}
		if !s.less(heap[i], heap[child]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// store writes the values and the places of the first entries.
func (s *sorting[T, E]) store(w *walk, m *sortMemory[T, E], sorted []E) {
	tmp := takeScratch()
	defer scratches.Put(tmp)
	values, _ := w.at(0)
	indices, _ := w.at(1)
	for i := 0; i < s.keep; i += chunk {
		n := min(chunk, s.keep-i)
		v, x := scratchBuffer[T](tmp, 0, n), scratchBuffer[int64](tmp, 1, n)
		for k, e := range sorted[i : i+n] {
			at := s.place(e)
			v[k], x[k] = m.values[at], int64(at)
		}
		s.access.store(s.element(values, i, 0), s.stride[0], v)
		storeStrided(offset(indices, i*s.stride[1], 8), s.stride[1], x)
	}
}

func (s *sorting[T, E]) element(p device.Ptr, i, k int) device.Ptr {
	return offset(p, i*s.stride[k], s.access.size)
}

func sortingRows() []op.Row {
	sorted := sortFuncs()
	return []op.Row{{Op: op.Sort, Funcs: sorted}, {Op: op.TopK, Funcs: sorted}}
}

// sortFuncs are the Funcs of Sort and TopK: Bool is sorted as Uint8.
func sortFuncs() (f funcs) {
	narrow := narrowOrdering(keyFloat32)
	narrow.pack = packFloats
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		f[d] = sortRows(accessorOf[float32](d), narrow)
	}
	f[dtype.Float64] = sortRows(accessorOf[float64](dtype.Float64), wideOrdering(keyFloat64))
	f[dtype.Int64] = sortRows(accessorOf[int64](dtype.Int64), wideOrdering(keyInt64))
	f[dtype.Int32] = sortRows(accessorOf[int32](dtype.Int32), narrowOrdering(keyInt32))
	f[dtype.Uint8] = sortRows(accessorOf[uint8](dtype.Uint8), narrowOrdering(keyUint8))
	f[dtype.Bool] = f[dtype.Uint8]
	return f
}
