package cpu

// Packing: panels of width rows of a matrix, the rows' elements side by side: element l of row i goes to dst[l*width+i].
// Rows beyond the last are filled with zeros, so that micro-kernels need not know about ends. For the right operand of a
// product, "rows" are columns: it is packed transposed.

// cut is how rows are cut into panels: all of width rows, the last one with zeros beyond those that there are, or of about the same number, no more than width.
type cut struct {
	count, width int
	each, more   int // rows of a panel, and how many have one row more; or 0 if all have width
	least        int // rows of a panel in memory, unless they are width
}

// cutEvenly cuts rows into panels of about the same number of rows, which have so many at least in memory.
func cutEvenly(count, width, least int) cut {
	n := max(1, panels(count, width))
	return cut{count: count, width: width, each: max(1, count/n), more: count % n, least: least}
}

func (c *cut) panels() int { return panels(c.count, c.width) }

// from is the first row of panel i.
func (c *cut) from(i int) int {
	if c.each == 0 {
		return min(i*c.width, c.count)
	}
	return i*c.each + min(i, c.more)
}

// at is how many rows lie before panel i in memory.
func (c *cut) at(i int) int {
	if c.each == 0 {
		return i * c.width
	}
	return c.from(i) // panels of fewer than least rows are alone
}

// wide is how many rows panel i has in memory.
func (c *cut) wide(i int) int {
	switch {
	case c.each == 0:
		return c.width
	case i < c.more:
		return max(c.least, c.each+1)
	}
	return max(c.least, c.each)
}

// rows is how many rows all panels have in memory.
func (c *cut) rows() int {
	if c.each == 0 {
		return c.panels() * c.width
	}
	return max(c.least, c.count)
}

// packSteps is the number of steps packed together, of several panels or rows.
const packSteps = 16

// packJobs is how many jobs the packing of rows and k steps makes: one for a panel, or, where the elements of a step
// lie side by side, one for some steps of all panels, so that memory is read in the order in which it lies.
func packJobs(a *matrix, rows *cut, k int) int {
	if a.row == 1 {
		return panels(k, packSteps)
	}
	return rows.panels()
}

// pack does one of the jobs.
func pack[T float](l *accessor[T], dst []T, a matrix, job int, rows *cut, k int, kernels *packKernels[T], s *scratch) {
	if a.row == 1 {
		first := job * packSteps
		packStepsOf(l, dst, a, first, min(first+packSteps, k), rows, k, kernels, s)
		return
	}
	i, width := rows.from(job), rows.wide(job)
	n := rows.from(job+1) - i
	panel, from := dst[rows.at(job)*k:][:width*k], a.at(i, 0, l.size)
	if l.direct && a.step == 1 {
		packPanel(panel, from, n, width, k, l.size, i, rows.count-i, kernels)
	} else if a.step != 1 || !packHalfRows(l, panel, from, n, width, k) {
		packConverted(l, panel, from, n, width, k, kernels.four, s)
	}
	clearBeyond(panel, n, width)
}

// clearBeyond fills the rows of a panel from n on with zeros.
func clearBeyond[T float](panel []T, n, width int) {
	for at := 0; n < width && at < len(panel); at += width {
		clear(panel[at+n : at+width])
	}
}

// packStepsOf packs steps first..end-1 of all panels.
func packStepsOf[T float](l *accessor[T], dst []T, a matrix, first, end int, rows *cut, k int, kernels *packKernels[T], s *scratch) {
	if !l.direct {
		count, width := rows.count, rows.width
		done := 0
		for done+width <= count && packHalfSteps(l, dst[done*k+first*width:], a.at(done, first, l.size), end-first, width) {
			done += width
		}
		packStepsConverted(l, dst[done*k:], a.at(done, 0, l.size), first, end, count-done, width, k, kernels.copiesOf(width), s)
		return
	}
	for p := range rows.panels() {
		i, width := rows.from(p), rows.wide(p)
		n := rows.from(p+1) - i
		to, from := dst[rows.at(p)*k+first*width:], a.at(i, first, l.size)
		if copies := kernels.copiesOf(n); n == width && copies != nil {
			copies(end-first, &to[0], width, &slice[T](from.ptr, 1)[0], a.step)
			continue
		}
		for x := range end - first {
			row := to[x*width:][:width]
			copy(row, slice[T](from.at(0, x, l.size).ptr, n))
			clear(row[n:])
		}
	}
}

// packStepsConverted is packStepsOf where elements are converted: some steps of some panels at a time, as many as fit into a buffer.
func packStepsConverted[T float](l *accessor[T], dst []T, a matrix, first, end, count, width, k int, rows copyRows[T], s *scratch) {
	if count == 0 {
		return
	}
	wide := min(convertedAtOnce/width*width, panels(count, width)*width) // of the panels
	steps := max(1, convertedAtOnce/wide)
	for i := 0; i < count; i += wide {
		n := min(wide, count-i)
		for x := first; x < end; x += steps {
			m := min(steps, end-x)
			buf := scratchBuffer[T](s, 0, m*wide)
			for t := range m {
				l.load(buf[t*wide:][:n], offset(a.ptr, i+(x+t)*a.step, l.size), 1)
				clear(buf[t*wide+n:][:wide-n])
			}
			for j := 0; j < n; j += width {
				copySteps(dst[(i+j)*k+x*width:], buf[j:], m, width, wide, rows)
			}
		}
	}
}

// convertedAtOnce is how many elements are converted before they are packed.
const convertedAtOnce = chunk

// copySteps puts count rows of width elements, which are ld apart, side by side.
func copySteps[T float](dst, src []T, count, width, ld int, rows copyRows[T]) {
	if rows != nil {
		rows(count, &dst[0], width, &src[0], ld)
		return
	}
	for t := range count {
		copy(dst[t*width:][:width], src[t*ld:])
	}
}

// packKernels are the loops of packing on this processor. Each is nil where it has no instructions for it.
type packKernels[T float] struct {
	four    packFour[T]
	sixteen packSixteen[T]
	rows    [widestCopied + 1]copyRows[T] // by their width
}

const widestCopied = 32

// copiesOf is the loop for rows of a width, or nil.
func (k *packKernels[T]) copiesOf(width int) copyRows[T] {
	if width > widestCopied {
		return nil
	}
	return k.rows[width]
}

// packFour packs steps elements, a multiple of 4, of four rows that begin at src and are ld apart: element l of row i goes to
// dst + l*width + i.
type packFour[T float] func(steps int, dst *T, width int, src *T, ld int)

// packSixteen packs steps elements, a multiple of 4, of sixteen rows that begin at src and are ld apart: of row i, if mask has bit i, element l goes to
// dst + l*width + i - skip.
type packSixteen[T float] func(steps int, dst *T, width int, src *T, ld, skip, mask int)

// copyRows puts rows of width elements, which begin at src and are ld apart, side by side.
type copyRows[T float] func(count int, dst *T, width int, src *T, ld int)

// packPanel packs a panel of n rows whose elements lie side by side, in a matrix that has some rows before them, and some from the first of them on: sixteen
// rows at a time, with others of the matrix if need be, if there is a loop for that.
func packPanel[T float](dst []T, a matrix, n, width, k, size, before, after int, kernels *packKernels[T]) {
	if kernels.sixteen == nil || k < 4 || before+after < 16 {
		packRows(dst, a, n, width, k, size, kernels.four)
		return
	}
	for i := 0; i < n; i += 16 {
		m := min(16, n-i)
		skip := max(0, 16-(after-i)) // rows before the first that are read instead of those behind the last
		src, mask := &slice[T](offset(a.ptr, (i-skip)*a.row, size), 1)[0], (1<<m-1)<<skip
		done := k &^ 3
		kernels.sixteen(done, &dst[i], width, src, a.row, skip, mask)
		if done < k { // with some of those before again
			kernels.sixteen(4, &dst[i+(k-4)*width], width, offsetElements(src, k-4), a.row, skip, mask)
		}
	}
}

// packRows packs a panel of n rows whose elements lie side by side, four rows at a time. The last four may be some of those before again, which
// is less work than to place them one by one.
func packRows[T float](dst []T, a matrix, n, width, k, size int, four packFour[T]) {
	if four != nil && n >= 4 && k >= 4 {
		for i := 0; i < n; i += 4 {
			first := min(i, n-4)
			packFourRows(four, dst[first:], width, k, &slice[T](offset(a.ptr, first*a.row, size), 1)[0], a.row)
		}
		return
	}
	for i := range n {
		placeRow(dst[i:], slice[T](offset(a.ptr, i*a.row, size), k), width)
	}
}

// packFourRows packs k elements, four at least, of four rows that are ld apart, four at a time: the last ones may be some of those before again.
func packFourRows[T float](four packFour[T], dst []T, width, k int, src *T, ld int) {
	done := k &^ 3
	four(done, &dst[0], width, src, ld)
	if done < k {
		four(4, &dst[(k-4)*width], width, offsetElements(src, k-4), ld)
	}
}

// packConverted packs a panel of n rows that are strided or converted: each is gathered first.
func packConverted[T float](l *accessor[T], dst []T, a matrix, n, width, k int, four packFour[T], s *scratch) {
	if four == nil || n < 4 || k < 4 || 4*k > chunk {
		row := scratchBuffer[T](s, 0, k)
		for i := range n {
			l.load(row, offset(a.ptr, i*a.row, l.size), a.step)
			placeRow(dst[i:], row, width)
		}
		return
	}
	rows := scratchBuffer[T](s, 0, 4*k)
	for i := 0; i < n; i += 4 {
		first := min(i, n-4)
		for r := range 4 {
			l.load(rows[r*k:][:k], offset(a.ptr, (first+r)*a.row, l.size), a.step)
		}
		packFourRows(four, dst[first:], width, k, &rows[0], k)
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
