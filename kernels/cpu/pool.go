package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Pooling. Gradients are added window by window: a plane belongs to one worker, so the order of additions is fixed.

// window1 is the part of a window along one dimension: count elements from first on, step apart, and before them skipped ones
// that lie outside of the image. size is the number of elements with those outside, and padded that without what lies
// beyond the padding.
type window1 struct{ first, count, step, skipped, size, padded int }

// poolRows are the rows of pooling.
func poolRows() []op.Row {
	rows := func(id op.ID, backward bool, f planeKernel[float32], g planeKernel[float64]) op.Row {
		return row(id, floats(
			func(l accessor[float32]) op.Func { return planewise(l, backward, prepareWindows[float32], f) },
			func(l accessor[float64]) op.Func { return planewise(l, backward, prepareWindows[float64], g) }))
	}
	return []op.Row{
		rows(op.MaxPool2D, false, maxPool[float32], maxPool[float64]),
		rows(op.MaxPool2DGrad, true, maxPoolGrad[float32], maxPoolGrad[float64]),
		rows(op.AvgPool2D, false, avgPool[float32], avgPool[float64]),
		rows(op.AvgPool2DGrad, true, avgPoolGrad[float32], avgPoolGrad[float64]),
	}
}

// prepareWindows computes the windows of both dimensions.
func prepareWindows[T float](j *planeJob[T]) {
	for d := range 2 {
		j.windows[d] = sized(j.windows[d], j.result[d])
		for i := range j.windows[d] {
			if j.call.I[0] == 0 {
				j.windows[d][i] = adaptiveWindow(i, j.image[d], j.result[d])
				continue
			}
			dilation := 1
			if j.call.Op == op.MaxPool2D || j.call.Op == op.MaxPool2DGrad {
				dilation = int(j.call.I[6+d])
			}
			j.windows[d][i] = slidingWindow(i, j.image[d], int(j.call.I[d]), int(j.call.I[2+d]), int(j.call.I[4+d]), dilation)
		}
	}
	if j.call.Op == op.MaxPool2DGrad && j.call.I[0] != 0 && len(j.windows[0])*len(j.windows[1]) > 0 {
		j.tabulate()
	}
	j.calls++
	if k, ok := any(j).(*planeJob[float32]); ok && (j.call.Op == op.MaxPool2DGrad || j.call.Op == op.AvgPool2DGrad) {
		j.terms.gather(k)
	}
}

func adaptiveWindow(i, size, results int) window1 {
	first := i * size / results
	n := ((i+1)*size+results-1)/results - first
	return window1{first: first, count: n, step: 1, size: n, padded: n}
}

func slidingWindow(i, image, size, stride, padding, dilation int) window1 {
	w := window1{first: i*stride - padding, step: dilation, size: size}
	w.padded = min(size, image+padding-w.first)
	if w.first < 0 {
		w.skipped = min(size, (-w.first+dilation-1)/dilation)
		w.first += w.skipped * dilation
	}
	if w.first < image {
		w.count = min(size-w.skipped, (image-1-w.first)/dilation+1)
	}
	return w
}

func maxPool[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	if j.inPhases() {
		maxPoolRows(j, dst, src, m)
		return
	}
	at := 0
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		for x := range j.windows[1] {
			dst[at], m.numbers[at] = maxOfWindow(src, j.image[1], h, &j.windows[1][x])
			at++
		}
	}
}

// maxOfWindow is the largest element of a window of a plane, and its number.
func maxOfWindow[T float](src []T, columns int, h, w *window1) (T, int32) {
	if h.count*w.count == 0 {
		return T(math.Inf(-1)), 0
	}
	most, u0, v0 := src[h.first*columns+w.first], 0, 0
	for u := range h.count {
		line := src[(h.first+u*h.step)*columns+w.first:]
		if w.step > 1 {
			line = line[:(w.count-1)*w.step+1]
		} else {
			line = line[:w.count]
		}
		for v := 0; v < len(line); v += w.step {
			// Larger or NaN; once there is a NaN, only another one.
			if value := line[v]; !(value <= most) && (most == most || value != value) {
				most, u0, v0 = value, u, v
			}
		}
	}
	return most, int32((h.skipped+u0)*w.size + w.skipped + v0/w.step)
}

// divisor is what the sum of a window is divided by.
func (j *planeJob[T]) divisor(h, w *window1) float64 {
	switch {
	case j.call.I[0] == 0:
	case j.call.I[7] != 0:
		return float64(j.call.I[7])
	case j.call.I[6] != 0:
		return float64(h.padded * w.padded)
	}
	return float64(h.count * w.count)
}

func avgPool[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	if j.inPhases() {
		avgPoolRows(j, dst, src, m)
		return
	}
	columns, at := j.image[1], 0
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		for x := range j.windows[1] {
			w := &j.windows[1][x]
			var sum float64
			for u := range h.count {
				if w.count == columns { // all rows are one line
					sum = foldSum(0, src[h.first*columns:][:h.count*columns])
					break
				}
				line := src[(h.first+u)*columns+w.first:][:w.count]
				if len(line) >= 16 {
					sum = foldSum(sum, line)
					continue
				}
				for _, v := range line {
					sum += float64(v)
				}
			}
			dst[at] = 0
			if h.count*w.count > 0 {
				dst[at] = T(sum / j.divisor(h, w))
			}
			at++
		}
	}
}

// averages computes planes whose one window is all of them, those of an image together, and reports whether it did.
func (j *planeJob[T]) averages(lo, hi int, m *planeMemory[T]) bool {
	v, to, size := j.from, j.to, j.image[0]*j.image[1]
	if j.result != [2]int{1, 1} || j.windows[0][0].count != j.image[0] || j.windows[1][0].count != j.image[1] || v.Strides[1] < size {
		return false
	}
	if _, ok := j.plane(v, 0, 0, &m.from); !ok {
		return false
	}
	channels, divisor := v.Shape[1], j.divisor(&j.windows[0][0], &j.windows[1][0])
	for lo < hi {
		n, c := lo/channels, lo%channels
		m.sums = sized(m.sums, min(hi-lo, channels-c))
		planes := slice[T](offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1], j.access.size), (len(m.sums)-1)*v.Strides[1]+size)
		if !foldSums(m.sums, planes, v.Strides[1], size) {
			return false
		}
		for i, sum := range m.sums {
			slice[T](offset(to.Ptr, n*to.Strides[0]+(c+i)*to.Strides[1], j.access.size), 1)[0] = T(sum / divisor)
		}
		lo += len(m.sums)
	}
	return true
}

func avgPoolGrad[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	if gathers(j, dst, src, m) {
		return
	}
	clear(dst)
	columns, at := j.image[1], 0
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		for x := range j.windows[1] {
			w := &j.windows[1][x]
			if h.count*w.count > 0 {
				share := T(float64(src[at]) / j.divisor(h, w))
				for u := range h.count {
					line := dst[(h.first+u)*columns+w.first:][:w.count]
					for v := range line {
						line[v] += share
					}
				}
			}
			at++
		}
	}
}
