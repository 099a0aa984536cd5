package cpu

// The gradient of max pooling: each result's gradient is added to the element that its number names.

func maxPoolGrad[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	if gathers(j, dst, src, m) {
		return
	}
	clear(dst)
	if m.bytes != nil {
		addWindows(j, dst, src, m.bytes)
		return
	}
	rows, columns := j.result[0], j.result[1]
	for y := range rows {
		addRow(j, dst, src[y*columns:][:columns], m.numbers[y*columns:][:columns], &j.windows[0][y], 0, columns)
	}
}

// addWindows is for numbers of a byte: those of windows that lie in the image as a whole go by a table of places.
func addWindows[T float](j *planeJob[T], dst, src []T, numbers []uint8) {
	rows, columns := j.result[0], j.result[1]
	top, bottom := wholeWindows(j.windows[0])
	left, right := wholeWindows(j.windows[1])
	if top == bottom || left == right || !j.sliding() {
		top, bottom, left, right = rows, rows, columns, columns
	}
	for y := range rows {
		h, row, numbers := &j.windows[0][y], src[y*columns:][:columns], numbers[y*columns:][:columns]
		switch {
		case y < top || y >= bottom:
			addRow(j, dst, row, numbers, h, 0, columns)
		case right-left < columns:
			addRow(j, dst, row, numbers, h, 0, left)
			addRow(j, dst, row, numbers, h, right, columns)
		}
	}
	if top < bottom {
		first := j.windows[0][top].first*j.image[1] + j.windows[1][left].first
		addPlaces(dst[first:], src[top*columns+left:bottom*columns], numbers[top*columns+left:], &j.table, right-left, columns, int(j.call.I[3]), int(j.call.I[2])*j.image[1])
	}
}

// addPlaces adds the gradients of n windows in each row, of which there are as many as src and numbers have, columns apart. The first window begins at dst[0],
// those beside it step apart and those below it down.
func addPlaces[T float](dst, src []T, numbers []uint8, places *[256]int, n, columns, step, down int) {
	for start := 0; len(src) >= n; start += down {
		at := start
		for x, number := range numbers[:n] {
			if place := at + places[number]; uint(place) < uint(len(dst)) {
				dst[place] += src[x]
			}
			at += step
		}
		rest := min(columns, len(src))
		src, numbers = src[rest:], numbers[rest:]
	}
}

// addRow adds the gradients of windows lo..hi-1 of a row.
func addRow[T float, N uint8 | int32](j *planeJob[T], dst, row []T, numbers []N, h *window1, lo, hi int) {
	for x := lo; x < hi; x++ {
		w, number := &j.windows[1][x], int(numbers[x])
		if u, v := number/w.size-h.skipped, number%w.size-w.skipped; u >= 0 && u < h.count && v >= 0 && v < w.count {
			dst[(h.first+u*h.step)*j.image[1]+w.first+v*w.step] += row[x]
		}
	}
}

// nowhere is the place of numbers that a window does not have.
const nowhere = -1 << 62

// sliding reports whether windows are sliding ones of no more elements than a byte can tell, and makes the table of where these lie, from a window's
// first one on.
func (j *planeJob[T]) sliding() bool { return j.call.I[0] != 0 && j.elements <= len(j.table) }

// tabulate makes the table of sliding windows.
func (j *planeJob[T]) tabulate() {
	h, w := &j.windows[0][0], &j.windows[1][0]
	if j.elements = h.size * w.size; j.elements > len(j.table) {
		return
	}
	for i := range j.table {
		j.table[i] = nowhere
		if i < j.elements {
			j.table[i] = i/w.size*h.step*j.image[1] + i%w.size*w.step
		}
	}
}
