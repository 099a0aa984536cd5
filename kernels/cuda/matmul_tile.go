package cuda

// tiling is how a kernel cuts a result: a block computes rows by columns.
type tiling struct {
	rows, columns int
	speed         int // products of elements in a processor's cycle, estimated
	setUp         int // what begin and end of a block cost, as a depth of k, estimated
}

// blocks is how many a result takes, those at its edges included.
func (t *tiling) blocks(m, n int) int { return blocksOf(m, t.rows) * blocksOf(n, t.columns) }

// time is when the busiest of so many processors is done, in cycles, if its blocks share it.
func (t *tiling) time(w *work, processors int) int {
	each := blocksOf(t.blocks(w.m, w.n)*w.slices*w.batch.Total, max(processors, 1))
	return each * t.rows * t.columns / t.speed * (w.depth + t.setUp)
}
