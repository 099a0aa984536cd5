package cpu

import (
	"math"
)

// Pooling of whole rows of results. The columns of a plane are first sorted into phases: phase r has columns r, r+stride, r+2*stride and so
// on, of the image with its padding. So the elements at one place of all windows of a row lie side by side, and windows are taken place by
// place, all results of a row at once, in the order of the places.

// phases are the rows of a plane, in phases.
type phases[T float] struct {
	rows   []T
	stride int
	length int     // of a phase
	line   int     // of all phases of a row
	places []int32 // where the elements of a window lie, in the order of their numbers
	starts []int32 // the number of each window's first element in the image, of windows that lie in it in the other dimension
	call   int     // which all this, and what is outside of the image, is of
}

// shortResult is the number of results of a row from which on they are computed together.
const shortResult = 8

// inPhases reports whether j's windows are computed by rows: they slide, and each has elements.
func (j *planeJob[T]) inPhases() bool {
	if j.call.I[0] == 0 || j.result[1] < shortResult {
		return false
	}
	for d := range j.windows {
		for i := range j.windows[d] {
			if j.windows[d][i].count == 0 {
				return false
			}
		}
	}
	return true
}

// sort sorts a plane into phases, with pad outside of the image.
func (p *phases[T]) sort(j *planeJob[T], src []T, pad T) {
	if p.call != j.calls {
		p.set(j, pad)
	}
	if p.splitRows(j, src) {
		return
	}
	columns := j.image[1]
	for y := range j.image[0] {
		p.sortRow(p.rows[y*p.line:][:p.line], src[y*columns:][:columns], int(j.call.I[5]), pad)
	}
}

// set makes the memory of j's planes.
func (p *phases[T]) set(j *planeJob[T], pad T) {
	p.call, p.stride = j.calls, int(j.call.I[3])
	last, padding := &j.windows[1][j.result[1]-1], int(j.call.I[5])
	width := (j.result[1]-1)*p.stride + (last.size-1)*last.step + 1 // of the image with its padding, as far as windows reach
	if p.stride == 2 {
		width = max(width, j.image[1]+padding+1) // all of it, so that rows are split as a whole
	}
	p.length = (width + p.stride - 1) / p.stride
	p.line = p.stride * p.length
	p.rows = sized(p.rows, j.image[0]*p.line)
	fillSlice(p.rows, pad)
	p.places, p.starts = p.places[:0], p.starts[:0]
	for u := range j.windows[0][0].size {
		for v := range last.size {
			at := v * last.step
			p.places = append(p.places, int32(u*j.windows[0][0].step*p.line+at%p.stride*p.length+at/p.stride))
		}
	}
	for x := range j.windows[1] {
		p.starts = append(p.starts, int32(j.windows[1][x].skipped))
	}
}

// splitRows sorts a plane of float32 into two phases, if it can be done for all rows at once.
func (p *phases[T]) splitRows(j *planeJob[T], src []T) bool {
	f, ok := any(src).([]float32)
	columns, padding := j.image[1], int(j.call.I[5])
	if !ok || p.stride != 2 || columns%2 != 0 || columns < 16 || vector.evenOddRows == nil {
		return false
	}
	phases, r := any(p.rows).([]float32), padding%2
	vector.evenOddRows(j.image[0], columns/2, &phases[r*p.length+padding/2], &phases[(1-r)*p.length+(padding+1)/2], 4*p.line, &f[0], 4*columns)
	return true
}

func (p *phases[T]) sortRow(to, row []T, padding int, pad T) {
	done := p.split(to, row, padding)
	for r := range p.stride {
		phase := to[r*p.length:][:p.length]
		from := max(0, (padding-r+p.stride-1)/p.stride) // the first element that is in the image
		for i := range min(from, len(phase)) {
			phase[i] = pad
		}
		at, i := (from+done)*p.stride+r-padding, from+done
		for ; i < len(phase) && at < len(row); i++ {
			phase[i] = row[at]
			at += p.stride
		}
		for ; i < len(phase); i++ {
			phase[i] = pad
		}
	}
}

// split sorts a row into two phases as far as vectors reach: even columns go to one of them, odd ones to the other. It gives the number of
// elements of each.
func (p *phases[T]) split(to, row []T, padding int) int {
	f, ok := any(row).([]float32)
	n := min(len(row)/2, p.length-(padding+1)/2) &^ 7
	if !ok || p.stride != 2 || n <= 0 || vector.evenOdd == nil {
		return 0
	}
	phases, r := any(to).([]float32), padding%2
	vector.evenOdd(n, &phases[r*p.length+padding/2], &phases[(1-r)*p.length+(padding+1)/2], &f[0])
	return n
}

// along is what place v, in elements from the windows' first column, of all n windows of a row is.
func (p *phases[T]) along(y, v, n int) []T {
	return p.rows[y*p.line+v%p.stride*p.length+v/p.stride:][:n]
}

func maxPoolRows[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	m.phases.sort(j, src, T(math.Inf(-1)))
	n, size := j.result[1], j.windows[1][0].size
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		most, numbers := dst[y*n:][:n], m.numbers[y*n:][:n]
		if m.phases.most(most, numbers, h, size) {
			continue
		}
		for x := range most {
			most[x], numbers[x] = T(math.Inf(-1)), int32(h.skipped*size+j.windows[1][x].skipped)
		}
		for u := range h.count {
			for v := range size {
				values := m.phases.along(h.first+u*h.step, v*j.windows[1][0].step, n)
				keepMost(most, numbers, values, int32((h.skipped+u)*size+v))
			}
		}
	}
}

// most computes a row of results of float32 with vectors, and reports whether it did.
func (p *phases[T]) most(dst []T, numbers []int32, h *window1, size int) bool {
	to, ok := any(dst).([]float32)
	if !ok || vector.mostPlaces == nil {
		return false
	}
	from := any(p.rows).([]float32)[h.first*p.line:]
	vector.mostPlaces(len(to), &to[0], &numbers[0], &from[0], &p.places[0], h.count*size, &p.starts[0], int32(h.skipped*size))
	return true
}

// keepMost puts values that are larger than most, or the last NaN, into most, and their number into numbers.
func keepMost[T float](most []T, numbers []int32, values []T, number int32) {
	numbers, values = numbers[:len(most)], values[:len(most)]
	for x, value := range values {
		if !(value <= most[x]) && (most[x] == most[x] || value != value) {
			most[x], numbers[x] = value, number
		}
	}
}

// avgPoolRows adds zeros for padding, which changes no sum.
func avgPoolRows[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	m.phases.sort(j, src, 0)
	n := j.result[1]
	m.sums = sized(m.sums, n)
	lo, hi := j.whole()
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		if m.phases.average(j, dst[y*n:][:n], h, lo, hi) {
			continue
		}
		clear(m.sums)
		for u := range h.count {
			for v := range j.windows[1][0].size {
				mergeFloats(m.sums, m.phases.along(h.first+u, v, n))
			}
		}
		divideRow(j, dst[y*n:][:n], m.sums, h, lo, hi)
	}
}

// average computes a row of results of float32, of which those from lo to hi-1 have one divisor, with vectors, and reports whether it did.
func (p *phases[T]) average(j *planeJob[T], dst []T, h *window1, lo, hi int) bool {
	to, ok := any(dst).([]float32)
	if !ok || vector.averagePlaces == nil || hi-lo < 8 {
		return false
	}
	from, places := any(p.rows).([]float32)[h.first*p.line:], p.places[:h.count*j.windows[1][0].size]
	vector.averagePlaces(hi-lo, &to[lo], &from[lo], &places[0], len(places), j.divisor(h, &j.windows[1][lo]))
	for x := 0; x < len(to); x++ {
		if x == lo {
			if x = hi; x == len(to) {
				break
			}
		}
		var sum float64
		for _, at := range places {
			sum += float64(from[x+int(at)])
		}
		to[x] = share[float32](j, sum, h, &j.windows[1][x])
	}
	return true
}

// divideRow divides numbers of a row of windows, of which those from lo to hi-1 have the same divisor.
func divideRow[T, S float](j *planeJob[T], dst []T, numbers []S, h *window1, lo, hi int) {
	for x := range numbers {
		if x < lo || x >= hi {
			dst[x] = share[T](j, float64(numbers[x]), h, &j.windows[1][x])
		}
	}
	if lo < hi && h.count > 0 {
		divideSlice(dst[lo:hi], numbers[lo:hi], j.divisor(h, &j.windows[1][lo]))
	}
}

// share is a window's number divided, or 0 for a window without elements.
func share[T, U float](j *planeJob[U], number float64, h, w *window1) T {
	if h.count*w.count == 0 {
		return 0
	}
	return T(number / j.divisor(h, w))
}

func divideSlice[T, S float](dst []T, numbers []S, divisor float64) {
	dst = dst[:len(numbers)]
	for i, v := range numbers {
		dst[i] = T(float64(v) / divisor)
	}
}

// whole is the range of windows of a row that lie in the image as a whole.
func (j *planeJob[T]) whole() (lo, hi int) { return wholeWindows(j.windows[1]) }

// wholeWindows is the range of windows along a dimension that lie in the image as a whole.
func wholeWindows(w []window1) (lo, hi int) {
	for lo < len(w) && w[lo].count < w[lo].size {
		lo++
	}
	for hi = lo; hi < len(w) && w[hi].count == w[hi].size; {
		hi++
	}
	return lo, hi
}
