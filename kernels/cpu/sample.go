package cpu

import (
	"github.com/chewxy/math32"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Resampling. Gradients are added result by result: a plane belongs to one worker, so the order of additions is fixed.

// source is where a result comes from along one dimension: near*(1-part) + far*part.
type source[T float] struct {
	near, far int
	part      T
}

// sampleRows are the rows of resampling.
func sampleRows() []op.Row {
	rows := func(id op.ID, backward bool, p func(*planeJob[float32]), q func(*planeJob[float64]),
		f planeKernel[float32], g planeKernel[float64]) op.Row {
		return row(id, floats(
			func(l accessor[float32]) op.Func { return planewise(l, backward, p, f) },
			func(l accessor[float64]) op.Func { return planewise(l, backward, q, g) }))
	}
	near32, near64 := prepareNearest[float32], prepareNearest[float64]
	linear32, linear64 := prepareLinear[float32], prepareLinear[float64]
	return []op.Row{
		rows(op.UpsampleNearest2D, false, near32, near64, nearest[float32], nearest[float64]),
		rows(op.UpsampleNearest2DGrad, true, near32, near64, nearestGrad[float32], nearestGrad[float64]),
		rows(op.UpsampleBilinear2D, false, linear32, linear64, bilinear[float32], bilinear[float64]),
		rows(op.UpsampleBilinear2DGrad, true, linear32, linear64, bilinearGrad[float32], bilinearGrad[float64]),
	}
}

func prepareNearest[T float](j *planeJob[T]) {
	for d := range 2 {
		j.sources[d] = sized(j.sources[d], j.result[d])
		step := float32(j.call.F[d])
		for i := range j.sources[d] {
			j.sources[d][i] = source[T]{near: min(int(math32.Floor(float32(i)*step)), j.image[d]-1)}
		}
	}
}

func prepareLinear[T float](j *planeJob[T]) {
	for d := range 2 {
		j.sources[d] = sized(j.sources[d], j.result[d])
		step := T(j.call.F[d])
		for i := range j.sources[d] {
			at := T(T(i) * step)
			if j.call.I[0] == 0 {
				at = max(T((T(i)+0.5)*step)-0.5, 0)
			}
			near := min(int(at), j.image[d]-1)
			j.sources[d][i] = source[T]{near: near, far: near}
			if near < j.image[d]-1 {
				j.sources[d][i] = source[T]{near, near + 1, at - T(near)}
			}
		}
	}
}

func nearest[T float](j *planeJob[T], dst, src []T, _ *planeMemory[T]) {
	for _, h := range j.sources[0] {
		line := src[h.near*j.image[1]:][:j.image[1]]
		out := dst[:j.result[1]]
		for x := range out {
			out[x] = line[j.sources[1][x].near]
		}
		dst = dst[j.result[1]:]
	}
}

func nearestGrad[T float](j *planeJob[T], dst, src []T, _ *planeMemory[T]) {
	clear(dst)
	for _, h := range j.sources[0] {
		line := dst[h.near*j.image[1]:][:j.image[1]]
		for x, g := range src[:j.result[1]] {
			line[j.sources[1][x].near] += g
		}
		src = src[j.result[1]:]
	}
}

// bilinear interpolates between rows first: a line of the image's width, and from that the results.
func bilinear[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	columns := j.image[1]
	m.line = sized(m.line, columns)
	for _, h := range j.sources[0] {
		line, near, far := m.line, src[h.near*columns:][:columns], src[h.far*columns:][:columns]
		left := 1 - h.part
		for c := range line {
			line[c] = T(near[c]*left) + T(far[c]*h.part)
		}
		out := dst[:j.result[1]]
		for x := range out {
			w := &j.sources[1][x]
			out[x] = T(line[w.near]*(1-w.part)) + T(line[w.far]*w.part)
		}
		dst = dst[j.result[1]:]
	}
}

// bilinearGrad adds up a line of the image's width first, and then adds it to the rows.
func bilinearGrad[T float](j *planeJob[T], dst, src []T, m *planeMemory[T]) {
	clear(dst)
	columns := j.image[1]
	m.line = sized(m.line, columns)
	for _, h := range j.sources[0] {
		line := m.line
		clear(line)
		for x, g := range src[:j.result[1]] {
			w := &j.sources[1][x]
			line[w.near] += T(g * (1 - w.part))
			line[w.far] += T(g * w.part)
		}
		near, left := dst[h.near*columns:][:columns], 1-h.part
		for c, v := range line {
			near[c] += T(v * left)
		}
		if h.part != 0 {
			far := dst[h.far*columns:][:columns]
			for c, v := range line {
				far[c] += T(v * h.part)
			}
		}
		src = src[j.result[1]:]
	}
}
