package cpu

// How gradients of attention leave the transposed panels that they are computed in.

// storeMask writes the gradients of a block of scores.
func (j *attentionBackward[T]) storeMask(b *block, ds []T, w *attentionMemory[T]) {
	for i := range b.m {
		line := w.line[:b.n]
		for key := range line {
			line[key] = ds[key*b.k+i]
		}
		to := j.dmask.at(b.batch, b.head, b.query+i, j.access.size).at(0, b.key, j.access.size)
		j.access.store(to.ptr, to.step, line)
	}
}

// storeQueries writes the gradients of a head of q from transposed panels.
func (j *attentionBackward[T]) storeQueries(batch, head int, sums []T, w *attentionMemory[T]) {
	nr, height := j.kernel.nr, padded(j.depth, j.kernel.mr)
	line := w.line[:j.depth]
	for t := range j.queries {
		panel := sums[t/nr*nr*height:]
		for d := range line {
			line[d] = panel[d*nr+t%nr]
		}
		to := j.dq.at(batch, head, t, j.access.size)
		j.access.store(to.ptr, to.step, line)
	}
}

// storeKeys writes the gradients of keys first..end-1 of a head of k or v.
func (j *attentionBackward[T]) storeKeys(to *strip, batch, head, first, end, width int, sums []T, w *attentionMemory[T]) {
	ld := padded(width, j.kernel.nr)
	for i := range end - first {
		row := to.at(batch, head, first+i, j.access.size)
		j.access.store(row.ptr, row.step, sums[i*ld:][:width])
	}
}

// attentionSum adds up what the tasks of a head have of the gradients of q. It is a job over heads of q.
type attentionSum[T float] attentionBackward[T]

func (j *attentionSum[T]) run(lo, hi int) {
	b := (*attentionBackward[T])(j)
	pool := attentionPool[T]()
	w := pool.Get().(*attentionMemory[T])
	w.line = sized(w.line, max(1, b.depth))
	n := b.querySums()
	for ; lo < hi; lo++ {
		strip, h := lo/b.group, lo%b.group
		total := b.partial[(strip*b.parts*b.group+h)*n:][:n]
		for part := 1; part < b.parts; part++ {
			for i, v := range b.partial[((strip*b.parts+part)*b.group+h)*n:][:n] {
				total[i] += v
			}
		}
		b.storeQueries(lo/b.heads, lo%b.heads, total, w)
	}
	pool.Put(w)
}
