package cpu

import "github.com/cistern-ml/cistern/device"

// Reduction run by run: the reduced dimensions hold neighbouring elements, or there are few outputs.

// runRuns reduces each output by folding slices. With few outputs of many blocks, workers share an output.
func (r *reduction[T, A, D]) runRuns() {
	outputs := r.kept.Total
	if r.blocks == 1 || outputs >= 256 {
		grain := max(1, elementGrain/max(1, r.cut.Total))
		split(outputs, grain, (*wholeRuns[T, A, D])(r))
		return
	}
	part := r.partials(outputs * r.blocks)
	r.part = part
	split(len(part), elementGrain/r.block, (*blockRuns[T, A, D])(r))
	s := takeScratch()
	defer scratches.Put(s)
	acc := scratchBuffer[A](s, 1, 1)
	var w walk
	w.seek(&r.kept, 0)
	for i := range outputs {
		acc[0] = part[i*r.blocks]
		for _, p := range part[i*r.blocks+1 : (i+1)*r.blocks] {
			acc[0] = r.join(acc[0], p)
		}
		p, _ := w.at(0)
		r.put(p, 1, acc, s)
		w.skip(1)
	}
}

// wholeRuns is the job over outputs.
type wholeRuns[T, A, D any] reduction[T, A, D]

func (j *wholeRuns[T, A, D]) run(lo, hi int) {
	r := (*reduction[T, A, D])(j)
	s := takeScratch()
	defer scratches.Put(s)
	var w walk
	w.seek(&r.kept, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col, chunk)
		acc := scratchBuffer[A](s, 1, n)
		in, step := w.at(1)
		if !r.foldRows(acc, in, step) {
			for i := range acc {
				acc[i] = r.foldBlock(in, 0, s)
				for b := 1; b < r.blocks; b++ {
					acc[i] = r.join(acc[i], r.foldBlock(in, b, s))
				}
				in = offset(in, step, r.in.size)
			}
		}
		out, stride := w.at(0)
		r.put(out, stride, acc, s)
		w.skip(n)
		lo += n
	}
}

// foldRows folds the runs of neighbouring outputs, step elements apart, together, and reports whether it did.
func (r *reduction[T, A, D]) foldRows(acc []A, in device.Ptr, step int) bool {
	n := r.cut.Total
	if r.folds == nil || !r.oneRun || r.blocks > 1 || n == 0 || step < 0 {
		return false
	}
	return r.folds(acc, slice[T](r.cut.Ptr[0]+in, (len(acc)-1)*step+n), step, n)
}

// blockRuns is the job over blocks: those of output 0, then those of output 1 and so on.
type blockRuns[T, A, D any] reduction[T, A, D]

func (j *blockRuns[T, A, D]) run(lo, hi int) {
	r := (*reduction[T, A, D])(j)
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		var w walk
		w.seek(&r.kept, lo/r.blocks)
		in, _ := w.at(1)
		r.part[lo] = r.foldBlock(in, lo%r.blocks, s)
	}
}

// foldBlock folds block b of the output whose input elements start at in.
func (r *reduction[T, A, D]) foldBlock(in device.Ptr, b int, s *scratch) A {
	lo, hi := r.blockRange(b)
	acc := r.start
	if lo >= hi {
		return acc
	}
	if r.oneRun {
		return r.fold(acc, slice[T](offset(r.cut.Ptr[0]+in, lo, r.in.size), hi-lo))
	}
	var w walk
	w.seek(&r.cut, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col)
		p, stride := w.at(0)
		p += in
		if r.in.direct && stride == 1 {
			acc = r.fold(acc, slice[T](p, n))
		} else {
			n = min(n, chunk)
			buf := scratchBuffer[T](s, 0, n)
			r.in.load(buf, p, stride)
			acc = r.fold(acc, buf)
		}
		w.skip(n)
		lo += n
	}
	return acc
}
