package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The reduction driver. It splits the input's dimensions into kept and reduced ones, simplifies both, and then reduces
// either run by run (reduceinner.go: each output folds slices of neighbouring elements) or row by row (reduceouter.go: a
// tile of neighbouring outputs takes in one row after the other). In both the reduced elements are cut into blocks of a
// size that depends only on the call; block results are joined in order. So neither the number of workers nor their timing
// can change a result, and long sums are summed in two levels.

// reducer is an operation: T is the type of computation, A the accumulator, D the result.
type reducer[T, A, D any] struct {
	start A
	fold  func(acc A, v []T) A   // takes in a slice
	merge func(acc []A, row []T) // acc[i] takes in row[i]
	// merges is nil, or takes in rows[i], rows[ld+i] and so on of fours of rows: no more of them than foursTogether, unless it goes over them more than once
	merges func(acc []A, rows []T, ld, fours int)
	twice  bool
	// spoilt is nil, or reports whether rows that went in by merges must go in once more, one by one
	spoilt func(acc []A) bool
	// folds is nil, or sets acc[i] to what start and the n elements of v from i*ld on fold to, and reports whether it did
	folds  func(acc []A, v []T, ld, n int) bool
	join   func(a, b A) A           // a stands for earlier elements than b
	joins  func(acc, later []A)     // nil, or joins each
	finish func(acc A, count int) D // count is the number of elements reduced; nil if the result is the accumulator
	// finishes is nil, or sets all results in place of finish; acc may change
	finishes func(results []D, acc []A, count int)
}

// reduction is one call in work.
type reduction[T, A, D any] struct {
	reducer[T, A, D]
	in   accessor[T]
	out  accessor[D]
	kept loop // operands: output, input
	cut  loop // the reduced dimensions of the input; addresses are relative to the kept position

	byRows bool
	oneRun bool // the elements of an output lie side by side, as they are computed with
	block  int  // reduced elements of a block
	blocks int
	tile   int // outputs of a tile, by rows
	part   []A // results of blocks, where several workers share an output
}

// reduce makes the Func of a reduction.
func reduce[T, A, D any](in accessor[T], out accessor[D], r reducer[T, A, D]) op.Func {
	pool := &sync.Pool{New: func() any { return &reduction[T, A, D]{reducer: r, in: in, out: out} }}
	return func(c *op.Call) error {
		r := pool.Get().(*reduction[T, A, D])
		r.set(&c.Out[0], &c.In[0])
		if r.kept.Total > 0 {
			if r.byRows {
				r.runRows()
			} else {
				r.runRuns()
			}
		}
		pool.Put(r)
		return nil
	}
}

func (r *reduction[T, A, D]) set(dst, a *op.View) {
	separate(&r.kept, &r.cut, dst, a)
	columns := r.kept.inner()
	near := r.kept.Stride[1][r.kept.NDim-1]
	step := r.cut.Stride[0][r.cut.NDim-1]
	r.byRows = columns >= 8 && r.cut.Total > 0 && (r.cut.inner() < 16 || absInt(near) <= absInt(step))
	if r.byRows {
		r.tile = min(columns, chunk*8/max(8, sizeOf(r.start))) // whose results fit scratch memory
		r.block = max(64, (128<<10)/r.tile)
	} else {
		r.block = 8 << 10
	}
	r.oneRun = r.in.direct && r.cut.NDim == 1 && step == 1
	r.blocks = max(1, (r.cut.Total+r.block-1)/r.block)
}

// separate sets kept to the loop over dst and the elements of a with all reduced indices 0, and cut to the loop over the
// reduced dimensions alone.
func separate(kept, cut *loop, dst, a *op.View) {
	k := op.View{Ptr: dst.Ptr, DType: dst.DType}
	in := [1]op.View{{Ptr: a.Ptr, DType: a.DType}}
	x := op.View{DType: a.DType}
	for d := range a.NDim {
		if dst.Shape[d] == 1 && a.Shape[d] != 1 {
			x.Shape[x.NDim], x.Strides[x.NDim] = a.Shape[d], a.Strides[d]
			x.NDim++
			continue
		}
		k.Shape[k.NDim], k.Strides[k.NDim] = dst.Shape[d], dst.Strides[d]
		in[0].Shape[k.NDim], in[0].Strides[k.NDim] = dst.Shape[d], a.Strides[d]
		k.NDim++
	}
	in[0].NDim = k.NDim
	kept.set(&k, in[:])
	cut.set(&x, nil)
}

func absInt(n int) int { return max(n, -n) }

// blockRange is the range of reduced elements of block b.
func (r *reduction[T, A, D]) blockRange(b int) (lo, hi int) {
	return b * r.block, min((b+1)*r.block, r.cut.Total)
}

// partials gives memory for n block results. It is kept for later calls, within reason.
func (r *reduction[T, A, D]) partials(n int) []A {
	if cap(r.part) < n {
		r.part = make([]A, n)
	}
	return r.part[:n]
}

// put writes the results of outputs that lie side by side in the kept dimensions.
func (r *reduction[T, A, D]) put(p device.Ptr, stride int, acc []A, s *scratch) {
	results, same := any(acc).([]D)
	switch {
	case r.finishes != nil:
		results = scratchBuffer[D](s, 0, len(acc))
		r.finishes(results, acc, r.cut.Total)
	case !same || r.finish != nil:
		results = scratchBuffer[D](s, 0, len(acc))
		for i, a := range acc {
			results[i] = r.finish(a, r.cut.Total)
		}
	}
	r.out.store(p, stride, results)
}

func reduceRows() []op.Row {
	return []op.Row{
		row(op.Sum,
			floats(same(sumReducer[float32]()), same(sumReducer[float64]())),
			integers(wide(intSumReducer[int64]()), wide(intSumReducer[int32]()), wide(intSumReducer[uint8]())),
			boolean(wide(intSumReducer[uint8]()))),
		row(op.Mean, floats(same(meanReducer[float32]()), same(meanReducer[float64]()))),
		row(op.Prod,
			floats(same(floatProdReducer[float32]()), same(floatProdReducer[float64]())),
			integers(wide(prodReducer[int64, int64, int64]()), wide(prodReducer[int32, int64, int64]()),
				wide(prodReducer[uint8, int64, int64]()))),
		row(op.Max,
			floats(same(maxReducer[float32]()), same(maxReducer[float64]())),
			integers(same(maxReducer[int64]()), same(maxReducer[int32]()), same(maxReducer[uint8]()))),
		row(op.Min,
			floats(same(minReducer[float32]()), same(minReducer[float64]())),
			integers(same(minReducer[int64]()), same(minReducer[int32]()), same(minReducer[uint8]()))),
		row(op.ArgMax,
			floats(arg[float32](false), arg[float64](false)),
			integers(arg[int64](false), arg[int32](false), arg[uint8](false))),
		row(op.ArgMin,
			floats(arg[float32](true), arg[float64](true)),
			integers(arg[int64](true), arg[int32](true), arg[uint8](true))),
		row(op.Any, boolean(same(anyReducer()))),
		row(op.All, boolean(same(allReducer()))),
	}
}
