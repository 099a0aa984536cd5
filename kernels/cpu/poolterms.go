package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Gradients of pooling whose windows are two columns apart: instead of clearing the image and adding windows to it, each element of the image is the sum
// of its terms, written once. A term is a result whose window has the element. The elements of a row's even columns have their terms at the same distances,
// and so have those of its odd columns. Terms are added in the order of their windows, which is that in which windows are added to an image.
//
// Results lie in rows with zeros on both sides, so that elements near the border have the same terms as all others.

// poolTerm is a term of the elements of a row: the first even, or odd, column has the result at offset, the next one that beside it, and so on. number is
// that of the element in the result's window. Before the terms of a row is one that has their counts, of even and odd columns, instead.
type poolTerm struct{ offset, number int32 }

// poolTerms are the terms of all rows of an image. There are none where windows are added in their place.
type poolTerms struct {
	list        []poolTerm
	left, pitch int // zeros at the left, and elements of a row with all zeros
}

// gathered is the least number of columns of images whose gradients are gathered.
const gathered = 16

// gather lists the terms of j's images.
func (p *poolTerms) gather(j *planeJob[float32]) {
	p.list = p.list[:0]
	if j.call.Op == op.MaxPool2DGrad && j.elements > len(j.table) { // numbers are compared as bytes
		return
	}
	if vector.poolNumbered == nil || j.call.I[0] == 0 || j.call.I[3] != 2 || j.image[1] < gathered || j.image[1]%2 != 0 || len(j.windows[0])*len(j.windows[1]) == 0 {
		return
	}
	w := &j.windows[1][0]
	half, padding, right := j.image[1]/2, int(j.call.I[5]), j.image[1]/2
	p.left = 0
	for column := range 2 {
		for v := range w.size {
			if d := column + padding - v*w.step; d%2 == 0 {
				p.left, right = max(p.left, -d/2), max(right, half+d/2)
			}
		}
	}
	p.pitch = p.left + max(right, j.result[1])
	for y := range j.image[0] {
		p.row(j, y, w)
	}
}

// row lists the terms of row y.
func (p *poolTerms) row(j *planeJob[float32], y int, w *window1) {
	counts := len(p.list)
	p.list = append(p.list, poolTerm{})
	h, stride, below := &j.windows[0][0], int(j.call.I[2]), y+int(j.call.I[4])
	for column := range 2 {
		before := len(p.list)
		for r := max(0, (below-(h.size-1)*h.step)/stride); r < j.result[0] && r*stride <= below; r++ {
			u := below - r*stride
			if u%h.step != 0 || u/h.step >= h.size {
				continue
			}
			for v := w.size - 1; v >= 0; v-- { // windows further to the left have the element further to the right
				if d := column + int(j.call.I[5]) - v*w.step; d%2 == 0 {
					p.list = append(p.list, poolTerm{int32(r*p.pitch + p.left + d/2), int32(u/h.step*w.size + v)})
				}
			}
		}
		if n := int32(len(p.list) - before); column == 0 {
			p.list[counts].offset = n
		} else {
			p.list[counts].number = n
		}
	}
}

// inPlace reports whether results serve as they lie, without zeros beside them.
func (p *poolTerms) inPlace(results int) bool { return p.pitch == results }

// paddedResults are a plane's results, and their numbers, with zeros beside them.
type paddedResults struct {
	values  []float32
	numbers []uint8
	call    int // which the zeros are of
}

// room makes the memory for rows of results, with numbers if there are some. It clears it once for each call: planes write between the zeros.
func (m *paddedResults) room(p *poolTerms, call, rows int, numbers bool) {
	if m.call == call {
		return
	}
	m.call = call
	m.values = sized(m.values, rows*p.pitch)
	clear(m.values)
	if numbers {
		m.numbers = sized(m.numbers, rows*p.pitch)
		clear(m.numbers)
	}
}

// put puts rows of n results and their numbers between the zeros.
func (m *paddedResults) put(p *poolTerms, rows, n int, src []float32, numbers []uint8) {
	if n >= 8 {
		vector.padResults(rows, n, &m.values[p.left], &m.numbers[p.left], p.pitch, &src[0], &numbers[0])
		return
	}
	for y := range rows {
		copy(m.values[y*p.pitch+p.left:], src[y*n:][:n])
		copy(m.numbers[y*p.pitch+p.left:], numbers[y*n:][:n])
	}
}

// gatherMax is the gradient of max pooling.
func gatherMax(j *planeJob[float32], dst, src []float32, m *planeMemory[float32]) {
	p, numbers, rows, n := &j.terms, m.bytes, j.result[0], j.result[1]
	if !p.inPlace(n) {
		m.padded.room(p, j.calls, rows, true)
		m.padded.put(p, rows, n, src, numbers)
		src, numbers = m.padded.values, m.padded.numbers
	}
	vector.poolNumbered(j.image[0], j.image[1]/2, &dst[0], &src[0], &numbers[0], &p.list[0])
}

// gatherAverage is the gradient of average pooling.
func gatherAverage(j *planeJob[float32], dst, src []float32, m *planeMemory[float32]) {
	p, rows, n := &j.terms, j.result[0], j.result[1]
	m.padded.room(p, j.calls, rows, false)
	lo, hi := j.whole()
	for y := range rows {
		divideRow(j, m.padded.values[y*p.pitch+p.left:][:n], src[y*n:][:n], &j.windows[0][y], lo, hi)
	}
	vector.poolShared(j.image[0], j.image[1]/2, &dst[0], &m.padded.values[0], &p.list[0])
}

// gathers computes a gradient from terms, and reports whether there are some.
func gathers[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) bool {
	k, ok := any(j).(*planeJob[float32])
	if !ok || len(k.terms.list) == 0 {
		return false
	}
	to, from, memory := any(dst).([]float32), any(src).([]float32), any(m).(*planeMemory[float32])
	switch {
	case j.call.Op == op.AvgPool2DGrad:
		gatherAverage(k, to, from, memory)
	case m.bytes != nil:
		gatherMax(k, to, from, memory)
	default:
		return false
	}
	return true
}
