package cpu

// Packing: panels of width rows of a matrix, the rows' elements side by side: element l of row i goes to dst[l*width+i].
// Rows beyond the last are filled with zeros, so that micro-kernels need not know about ends. For the right operand of a
// product, "rows" are columns: it is packed transposed.

// packSteps is the number of steps packed together, of several panels or rows.
const packSteps = 16

// packJobs is how many jobs the packing of count rows and k steps makes: one for a panel, or, where the elements of a step
// lie side by side, one for some steps of all panels, so that memory is read in the order in which it lies.
func packJobs(a *matrix, count, width, k int) int {
	if a.row == 1 {
		return panels(k, packSteps)
	}
	return panels(count, width)
}

// pack does one of the jobs. The last panel of dst is as large as the others.
func pack[T float](l *accessor[T], dst []T, a matrix, job, count, width, k int, kernels *packKernels[T], s *scratch) {
	if a.row == 1 {
		first := job * packSteps
		packStepsOf(l, dst, a, first, min(first+packSteps, k), count, width, k, kernels.copier(width), s)
		return
	}
	i := job * width
	n := min(width, count-i)
	panel, from := dst[i*k:][:width*k], a.at(i, 0, l.size)
	if l.direct && a.step == 1 {
		packRows(panel, from, n, width, k, l.size, kernels.four)
	} else {
		packConverted(l, panel, from, n, width, k, s)
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
func packStepsOf[T float](l *accessor[T], dst []T, a matrix, first, end, count, width, k int, rows copyRows[T], s *scratch) {
	if !l.direct {
		for x := first; x < end; x++ {
			packStep(l, dst, a, x, count, width, k, s)
		}
		return
	}
	for i := 0; i < count; i += width {
		n := min(width, count-i)
		to, from := dst[i*k+first*width:], a.at(i, first, l.size)
		if n == width && rows != nil {
			rows(end-first, &to[0], &slice[T](from.ptr, 1)[0], a.step)
			continue
		}
		for x := range end - first {
			row := to[x*width:][:width]
			copy(row, slice[T](from.at(0, x, l.size).ptr, n))
			clear(row[n:])
		}
	}
}

// packStep packs one step of all panels, converting as many panels together as fit into a buffer.
func packStep[T float](l *accessor[T], dst []T, a matrix, x, count, width, k int, s *scratch) {
	for i := 0; i < count; {
		buf := scratchBuffer[T](s, 0, min(chunk/width*width, count-i))
		l.load(buf, offset(a.ptr, i+x*a.step, l.size), 1)
		for len(buf) > 0 {
			to := dst[i*k+x*width:][:width]
			n := copy(to, buf)
			clear(to[n:])
			buf = buf[n:]
			i += n
		}
	}
}

// packKernels are the loops of packing on this processor. Each is nil where it has no instructions for it.
type packKernels[T float] struct {
	four packFour[T]
	rows map[int]copyRows[T] // by their length
}

// copier is the loop for rows of a length.
func (k *packKernels[T]) copier(length int) copyRows[T] { return k.rows[length] }

// packFour packs steps elements, a multiple of 4, of four rows that begin at src and are ld apart: element l of row i goes to
// dst + l*width + i.
type packFour[T float] func(steps int, dst *T, width int, src *T, ld int)

// copyRows puts rows of some length, which begin at src and are ld apart, side by side.
type copyRows[T float] func(count int, dst, src *T, ld int)

// packRows packs a panel of n rows whose elements lie side by side, four rows and four elements at a time. The last four may be some of those
// before again, which is less work than to place them one by one.
func packRows[T float](dst []T, a matrix, n, width, k, size int, four packFour[T]) {
	done := 0
	if four != nil && n >= 4 && k >= 4 {
		done = k &^ 3
		for i := 0; i < n; i += 4 {
			first := min(i, n-4)
			from := offset(a.ptr, first*a.row, size)
			four(done, &dst[first], width, &slice[T](from, 1)[0], a.row)
			if done < k {
				four(4, &dst[(k-4)*width+first], width, &slice[T](offset(from, k-4, size), 1)[0], a.row)
			}
		}
		done = k
	}
	for i := 0; i < n && done < k; i++ {
		placeRow(dst[done*width+i:], slice[T](offset(a.ptr, i*a.row+done, size), k-done), width)
	}
}

// packConverted packs a panel of n rows that are strided or converted: each is gathered first.
func packConverted[T float](l *accessor[T], dst []T, a matrix, n, width, k int, s *scratch) {
	row := scratchBuffer[T](s, 0, k)
	for i := range n {
		l.load(row, offset(a.ptr, i*a.row, l.size), a.step)
		placeRow(dst[i:], row, width)
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
