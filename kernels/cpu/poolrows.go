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
	length int // of a phase
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
	columns, padding := j.image[1], int(j.call.I[5])
	last := &j.windows[1][j.result[1]-1]
	p.stride = int(j.call.I[3])
	width := (j.result[1]-1)*p.stride + (last.size-1)*last.step + 1 // of the image with its padding, as far as windows reach
	p.length = (width + p.stride - 1) / p.stride
	line := p.stride * p.length
	p.rows = sized(p.rows, j.image[0]*line)
	for y := range j.image[0] {
		p.sortRow(p.rows[y*line:][:line], src[y*columns:][:columns], padding, pad)
	}
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
	return p.rows[y*p.stride*p.length+v%p.stride*p.length+v/p.stride:][:n]
}

func maxPoolRows[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	m.phases.sort(j, src, T(math.Inf(-1)))
	n, size := j.result[1], j.windows[1][0].size
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		most, numbers := dst[y*n:][:n], m.numbers[y*n:][:n]
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

// keepMost puts values that are larger than most, or the last NaN, into most, and their number into numbers.
func keepMost[T float](most []T, numbers []int32, values []T, number int32) {
	if f, ok := any(most).([]float32); ok && vector.keepMost != nil && len(f) >= 8 {
		n := len(f) &^ 7
		vector.keepMost(n, &f[0], &numbers[0], &any(values).([]float32)[0], number)
		most, numbers, values = most[n:], numbers[n:], values[n:]
	}
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
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		clear(m.sums)
		for u := range h.count {
			for v := range j.windows[1][0].size {
				mergeFloats(m.sums, m.phases.along(h.first+u, v, n))
			}
		}
		j.divide(dst[y*n:][:n], m.sums, h)
	}
}

// divide divides the sums of a row of windows, most of which have the same divisor.
func (j *planeJob[T]) divide(dst []T, sums []float64, h *window1) {
	lo, hi := j.whole()
	for x := 0; x < len(sums); x++ {
		divisor := j.divisor(h, &j.windows[1][x])
		for x == lo && x+1 < hi {
			dst[x] = T(sums[x] / divisor)
			x, lo = x+1, lo+1
		}
		dst[x] = T(sums[x] / divisor)
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
