package cpu

import "github.com/cistern-ml/cistern/device"

// Reduction row by row: neighbouring outputs have neighbouring inputs, as in column sums. A tile of outputs takes in the
// rows one after the other, so that memory is read in the order in which it lies.

// tiles is the number of tiles in a kept row, and in all.
func (r *reduction[T, A, D]) tiles() (perRow, total int) {
	perRow = (r.kept.inner() + r.tile - 1) / r.tile
	return perRow, perRow * (r.kept.Total / r.kept.inner())
}

func (r *reduction[T, A, D]) runRows() {
	_, tiles := r.tiles()
	if r.blocks == 1 || tiles >= 256 {
		r.part = r.partials(0)
		split(tiles, max(1, elementGrain/(r.tile*r.cut.Total)), (*tileRows[T, A, D])(r))
		return
	}
	r.part = r.partials(tiles * r.blocks * r.tile)
	split(tiles*r.blocks, 1, (*blockRows[T, A, D])(r))
	s := takeScratch()
	defer scratches.Put(s)
	for t := range tiles {
		acc := r.part[t*r.blocks*r.tile:]
		for b := 1; b < r.blocks; b++ {
			r.joinRow(acc[:r.tile], acc[b*r.tile:])
		}
		r.putTile(t, acc, s)
	}
}

func (r *reduction[T, A, D]) joinRow(acc, later []A) {
	if r.joins != nil {
		r.joins(acc, later)
		return
	}
	for i := range acc {
		acc[i] = r.join(acc[i], later[i])
	}
}

// tileRows is the job over tiles.
type tileRows[T, A, D any] reduction[T, A, D]

func (j *tileRows[T, A, D]) run(lo, hi int) {
	r := (*reduction[T, A, D])(j)
	s := takeScratch()
	defer scratches.Put(s)
	acc, later := scratchBuffer[A](s, 2, r.tile), scratchBuffer[A](s, 3, r.tile)
	for ; lo < hi; lo++ {
		r.mergeBlock(acc, lo, 0, s)
		for b := 1; b < r.blocks; b++ {
			r.mergeBlock(later, lo, b, s)
			r.joinRow(acc, later)
		}
		r.putTile(lo, acc, s)
	}
}

// blockRows is the job over blocks: those of tile 0, then those of tile 1 and so on.
type blockRows[T, A, D any] reduction[T, A, D]

func (j *blockRows[T, A, D]) run(lo, hi int) {
	r := (*reduction[T, A, D])(j)
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		r.mergeBlock(r.part[lo*r.tile:(lo+1)*r.tile], lo/r.blocks, lo%r.blocks, s)
	}
}

// place is where tile t starts, and how many outputs it has.
func (r *reduction[T, A, D]) place(t int) (w walk, n int) {
	perRow, _ := r.tiles()
	first := t % perRow * r.tile
	w.seek(&r.kept, t/perRow*r.kept.inner()+first)
	return w, min(r.tile, r.kept.inner()-first)
}

// mergedRows is the number of rows that are merged one by one; groups are joined, so that long sums have three levels.
const mergedRows = 128

// mergeBlock sets acc to the result of block b of tile t.
func (r *reduction[T, A, D]) mergeBlock(acc []A, t, b int, s *scratch) {
	at, n := r.place(t)
	in, stride := at.at(1)
	acc, partial := acc[:n], scratchBuffer[A](s, 1, n)
	lo, hi := r.blockRange(b)
	var w walk
	w.seek(&r.cut, lo)
	r.mergeGroup(acc, &w, in, stride, min(hi-lo, mergedRows), s)
	for lo += mergedRows; lo < hi; lo += mergedRows {
		r.mergeGroup(partial, &w, in, stride, min(hi-lo, mergedRows), s)
		r.joinRow(acc, partial)
	}
}

// mergeGroup sets acc to the result of the next rows.
func (r *reduction[T, A, D]) mergeGroup(acc []A, w *walk, in device.Ptr, stride, rows int, s *scratch) {
	fours, begin := r.merges != nil && r.in.direct && stride == 1, *w
	fillSlice(acc, r.start)
	r.mergeRows(acc, w, in, stride, rows, fours, s)
	if fours && r.spoilt != nil && r.spoilt(acc) {
		fillSlice(acc, r.start)
		r.mergeRows(acc, &begin, in, stride, rows, false, s)
	}
}

// mergeRows takes in the next rows, fours of them together if it may.
func (r *reduction[T, A, D]) mergeRows(acc []A, w *walk, in device.Ptr, stride, rows int, fours bool, s *scratch) {
	for rows > 0 {
		p, step := w.at(0)
		n := min(rows, w.inner()-w.col) / 4
		if !r.twice {
			n = min(n, foursTogether(step*r.in.size))
		}
		if fours && n > 0 && step >= 0 {
			r.merges(acc, slice[T](in+p, (4*n-1)*step+len(acc)), step, n)
			w.skip(4 * n)
			rows -= 4 * n
			continue
		}
		r.merge(acc, r.row(in+p, stride, len(acc), s))
		w.skip(1)
		rows--
	}
}

// row is the n elements at p as a slice.
func (r *reduction[T, A, D]) row(p device.Ptr, stride, n int, s *scratch) []T {
	if r.in.direct && stride == 1 {
		return slice[T](p, n)
	}
	buf := scratchBuffer[T](s, 0, n)
	r.in.load(buf, p, stride)
	return buf
}

func (r *reduction[T, A, D]) putTile(t int, acc []A, s *scratch) {
	at, n := r.place(t)
	p, stride := at.at(0)
	r.put(p, stride, acc[:n], s)
}
