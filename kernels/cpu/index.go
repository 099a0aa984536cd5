package cpu

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// IndexSelect and IndexAdd. A slice below is what is left of a tensor when the indexed dimension is fixed.

// sliceAt is slice i of v along dimension dim, with that dimension of one element.
func sliceAt(v *op.View, dim, i int) op.View {
	s := *v
	s.Ptr = offset(v.Ptr, i*v.Strides[dim], v.DType.Size())
	s.Shape[dim] = 1
	return s
}

// checkIndices refuses an index outside 0..size-1.
func checkIndices(c *op.Call, size int) error {
	for i := range c.In[1].Shape[0] {
		if x := int64At(&c.In[1], i); x < 0 || x >= int64(size) {
			return op.Errorf(c.Op, op.ErrIndex, "index %d at %d %s", x, i, op.Outside(int64(size), "the dimension is empty"))
		}
	}
	return nil
}

// selection is one IndexSelect in work. It is a job over indices.
type selection[T any] struct {
	call *op.Call
	dim  int
}

// indexSelect makes the IndexSelect of elements that have the size of T.
func indexSelect[T any]() op.Func {
	pool := &sync.Pool{New: func() any { return new(selection[T]) }}
	return func(c *op.Call) error {
		dim := int(c.I[0])
		if err := checkIndices(c, c.In[0].Shape[dim]); err != nil {
			return err
		}
		s := pool.Get().(*selection[T])
		s.call, s.dim = c, dim
		split(c.In[1].Shape[0], max(1, elementGrain*c.In[1].Shape[0]/max(1, c.Out[0].Len())), s)
		s.call = nil
		pool.Put(s)
		return nil
	}
}

func (s *selection[T]) run(lo, hi int) {
	tmp := takeScratch()
	defer scratches.Put(tmp)
	if lo < hi && s.whole(lo, &tmp.loop) {
		s.copySlices(lo, hi, &tmp.loop)
		return
	}
	for i := lo; i < hi; i++ {
		dst := sliceAt(&s.call.Out[0], s.dim, i)
		src := [1]op.View{sliceAt(&s.call.In[0], s.dim, int(int64At(&s.call.In[1], i)))}
		tmp.loop.set(&dst, src[:])
		moveRange[T](&tmp.loop, 0, tmp.loop.Total)
	}
}

// whole sets l to the loop over slice i of the output and its slice of the input, and reports whether the elements of both lie side by side.
func (s *selection[T]) whole(i int, l *loop) bool {
	dst := sliceAt(&s.call.Out[0], s.dim, i)
	src := [1]op.View{sliceAt(&s.call.In[0], s.dim, 0)}
	l.set(&dst, src[:])
	return l.Total > 0 && l.NDim == 1 && l.full[0] && l.full[1]
}

// copySlices copies slices lo..hi-1, where l is the loop over slice lo of the output and slice 0 of the input.
func (s *selection[T]) copySlices(lo, hi int, l *loop) {
	out, in := s.call.Out[0].Strides[s.dim], s.call.In[0].Strides[s.dim]
	for i := lo; i < hi; i++ {
		dst := offset(l.Ptr[0], (i-lo)*out, l.Size[0])
		src := offset(l.Ptr[1], int(int64At(&s.call.In[1], i))*in, l.Size[1])
		copy(slice[T](dst, l.Total), slice[T](src, l.Total))
	}
}

// accumulation is one IndexAdd in work. It is a job over places: an output slice, and the input slices that are added to it.
// Each output slice belongs to one worker, which adds in the order of the indices and, for half precision, rounds once.
type accumulation[T float] struct {
	access accessor[T]
	call   *op.Call
	dim    int
	places []int // of the indices, sorted by them
	groups []indexGroup

	from, to []packed // memory to sort in
}

// indexGroup is a run of equal indices.
type indexGroup struct {
	row   int // the index
	first int // where in places it begins
}

func indexAdd[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &accumulation[T]{access: l} }}
	return func(c *op.Call) error {
		dim := int(c.I[0])
		if err := checkIndices(c, c.Out[0].Shape[dim]); err != nil {
			return err
		}
		a := pool.Get().(*accumulation[T])
		a.call, a.dim = c, dim
		a.sortIndices(&c.In[1])
		if c.In[0].Len() > 0 {
			split(len(a.groups), max(1, elementGrain*len(a.groups)/c.In[0].Len()), a)
		}
		a.call = nil
		pool.Put(a)
		return nil
	}
}

// sortIndices groups the indices by their value, in the order in which they stand.
func (a *accumulation[T]) sortIndices(indices *op.View) {
	a.places, a.groups = a.places[:0], a.groups[:0]
	if n := indices.Shape[0]; a.call.Out[0].Shape[a.dim] > math.MaxUint32 {
		a.sortWide(indices)
	} else {
		a.from, a.to = slices.Grow(a.from[:0], n)[:n], slices.Grow(a.to[:0], n)[:n]
		for i := range n {
			a.from[i] = packed(int64At(indices, i))<<32 | packed(i)
		}
		for _, e := range orderPacked(a.from, a.to) {
			a.places = append(a.places, int(uint32(e)))
		}
	}
	row := -1
	for i, place := range a.places {
		if next := int(int64At(indices, place)); next != row {
			row = next
			a.groups = append(a.groups, indexGroup{row, i})
		}
	}
}

// group is an index, and where it stands among the indices.
func (a *accumulation[T]) group(k int) (row int, places []int) {
	end := len(a.places)
	if k+1 < len(a.groups) {
		end = a.groups[k+1].first
	}
	return a.groups[k].row, a.places[a.groups[k].first:end]
}

// sortWide sorts indices that do not fit an entry.
func (a *accumulation[T]) sortWide(indices *op.View) {
	for i := range indices.Shape[0] {
		a.places = append(a.places, i)
	}
	slices.SortStableFunc(a.places, func(i, j int) int { return cmp.Compare(int64At(indices, i), int64At(indices, j)) })
}

func (a *accumulation[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	straight := lo < hi && a.slices(0, &s.loop) && a.access.direct
	for ; lo < hi; lo++ {
		row, places := a.group(lo)
		if straight {
			a.addStraight(row, places, s)
			continue
		}
		a.slices(row, &s.loop)
		a.addGroup(&s.loop, places, s)
	}
}

// slices sets l to the loop over slice i of the output and input slice 0, and reports whether the elements of both lie side by side.
func (a *accumulation[T]) slices(i int, l *loop) bool {
	dst := sliceAt(&a.call.Out[0], a.dim, i)
	src := [1]op.View{sliceAt(&a.call.In[0], a.dim, 0)}
	l.set(&dst, src[:])
	return l.Total > 0 && l.NDim == 1 && l.full[0] && l.full[1]
}

// addGroup adds the input slices at places to the output slice; l is the loop over it and input slice 0.
func (a *accumulation[T]) addGroup(l *loop, places []int, s *scratch) {
	if l.Total == 0 {
		return
	}
	step := a.call.In[0].Strides[a.dim]
	var w walk
	w.seek(l, 0)
	for done := 0; done < l.Total; {
		n := min(w.inner()-w.col, chunk)
		out, to := w.at(0)
		in, from := w.at(1)
		sum, v := scratchBuffer[T](s, 0, n), scratchBuffer[T](s, 1, n)
		a.access.load(sum, out, to)
		for _, i := range places {
			p := offset(in, i*step, a.access.size)
			if a.access.direct && from == 1 {
				addSlices(sum, sum, slice[T](p, n))
				continue
			}
			a.access.load(v, p, from)
			addSlices(sum, sum, v)
		}
		a.access.store(out, to, sum)
		w.skip(n)
		done += n
	}
}

// addStraight adds to slice row of the output, where s.loop is over slices 0, whose elements lie side by side. Sums are added to where they are, a chunk
// at a time.
func (a *accumulation[T]) addStraight(row int, places []int, s *scratch) {
	l := &s.loop
	out, in := a.call.Out[0].Strides[a.dim], a.call.In[0].Strides[a.dim]
	for at := 0; at < l.Total; at += chunk {
		n := min(chunk, l.Total-at)
		sum := slice[T](offset(l.Ptr[0], row*out+at, l.Size[0]), n)
		for _, i := range places {
			addSlices(sum, sum, slice[T](offset(l.Ptr[1], i*in+at, l.Size[1]), n))
		}
	}
}
