package cpu

// Packing: panels of width rows of a matrix, the rows' elements side by side: element l of row i goes to dst[l*width+i].
// Rows beyond the last are filled with zeros, so that micro-kernels need not know about ends. For the right operand of a
// product, "rows" are columns: it is packed transposed.

// maxPanel is the largest width of a panel, packSteps the number of steps packed together, of several panels or rows.
const (
	maxPanel  = 32
	packSteps = 16
)

// packJobs is how many jobs the packing of count rows and k steps makes: one for a panel, or, where the elements of a step
// lie side by side, one for some steps of all panels, so that memory is read in the order in which it lies.
func packJobs(a *matrix, direct bool, count, width, k int) int {
	if direct && a.row == 1 {
		return panels(k, packSteps)
	}
	return panels(count, width)
}

// pack does one of the jobs. The last panel of dst is as large as the others.
func pack[T float](l *lane[T], dst []T, a matrix, job, count, width, k int, rows func([]T, [][]T, int) int) {
	if l.direct && a.row == 1 {
		first := job * packSteps
		packStepsOf(l, dst, a, first, min(first+packSteps, k), count, width, k)
		return
	}
	i := job * width
	n := min(width, count-i)
	panel, from := dst[i*k:][:width*k], a.at(i, 0, l.size)
	if l.direct && a.step == 1 {
		packRows(panel, from, n, width, k, l.size, rows)
	} else {
		packConverted(l, panel, from, n, width, k)
	}
	if n < width {
		for s := range k {
			clear(panel[s*width+n : (s+1)*width])
		}
	}
}

// packStepsOf packs steps s..end-1 of all panels.
func packStepsOf[T float](l *lane[T], dst []T, a matrix, s, end, count, width, k int) {
	var step [packSteps][]T
	for x := s; x < end; x++ {
		step[x-s] = slice[T](offset(a.ptr, x*a.step, l.size), count)
	}
	for i := 0; i < count; i += width {
		n := min(width, count-i)
		for x, from := range step[:end-s] {
			to := dst[i*k+(s+x)*width:][:width]
			copy(to, from[i:i+n])
			clear(to[n:])
		}
	}
}

// packRows packs a panel of n rows whose elements lie side by side. The processor's function does as many as it can.
func packRows[T float](dst []T, a matrix, n, width, k, size int, vector func([]T, [][]T, int) int) {
	var rows [maxPanel][]T
	for s := 0; s < k; s += packSteps {
		steps := min(packSteps, k-s)
		for i := range n {
			rows[i] = slice[T](offset(a.ptr, i*a.row+s, size), steps)
		}
		to := dst[s*width:]
		for i := vector(to, rows[:n], width); i < n; i++ {
			placeRow(to[i:], rows[i], width)
		}
	}
}

// packNone is the function of processors without one: it leaves all rows to Go.
func packNone[T float]([]T, [][]T, int) int { return 0 }

// packConverted packs a panel of n rows that are strided or converted: each is gathered first.
func packConverted[T float](l *lane[T], dst []T, a matrix, n, width, k int) {
	var row [blockK]T
	for i := range n {
		l.load(row[:k], offset(a.ptr, i*a.row, l.size), a.step)
		placeRow(dst[i:], row[:k], width)
	}
}

// placeRow puts the elements of a row width apart.
func placeRow[T float](dst, row []T, width int) {
	at := 0
	for _, v := range row {
		dst[at] = v
		at += width
	}
}
