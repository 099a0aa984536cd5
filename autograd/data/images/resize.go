package images

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd/data"
)

// Filter is how a resized image is computed from the pixels of the one before.
type Filter uint8

// The filters. All are those of PyTorch's F.interpolate with align_corners=False.
const (
	Antialias Filter = iota // bilinear, over all pixels that a new one covers (antialias=True): the one to make images smaller with
	Bilinear                // bilinear between the four nearest pixels (mode="bilinear")
	Nearest                 // the nearest pixel (mode="nearest")
)

// String is the name in lower case.
func (f Filter) String() string {
	switch f {
	case Antialias:
		return "antialias"
	case Bilinear:
		return "bilinear"
	case Nearest:
		return "nearest"
	}
	return fmt.Sprintf("Filter(%d)", uint8(f))
}

// Resize makes an image of h by w pixels. Sums are in float32; of uint8 the result is rounded, half to even.
func Resize(h, w int, f Filter) Transform {
	if h < 1 || w < 1 || h > maxPixels/w || f > Nearest {
		return mistaken("Resize to %d x %d pixels, %v", h, w, f)
	}
	return certain(resizing("Resize", f, func(size) (int, int) { return h, w }))
}

// ResizeShorter makes the shorter side n pixels long, and the other so long that the image keeps its form (torchvision's Resize(n)).
func ResizeShorter(n int, f Filter) Transform {
	if n < 1 || n > 1<<14 || f > Nearest {
		return mistaken("ResizeShorter to %d pixels, %v", n, f)
	}
	return certain(resizing("ResizeShorter", f, func(s size) (int, int) {
		if s.h < s.w {
			return n, n * s.w / s.h
		}
		return n * s.h / s.w, n
	}))
}

func resizing(op string, f Filter, to func(size) (h, w int)) func(data.Array) (data.Array, error) {
	return each(op, func(p []uint8, s size) (data.Array, error) { return resized(p, s, to, f) },
		func(p []float32, s size) (data.Array, error) { return resized(p, s, to, f) })
}

// resized makes rows shorter or longer first, then columns.
func resized[T pixel](p []T, s size, to func(size) (h, w int), f Filter) (data.Array, error) {
	h, w := to(s)
	if int64(h)*int64(w) > maxPixels {
		return data.Array{}, &data.ArgumentError{Detail: fmt.Sprintf("resizing %d x %d pixels to %d x %d", s.h, s.w, h, w)}
	}
	rows, columns := taps(f, s.h, h), taps(f, s.w, w)
	out := make([]T, s.c*h*w)
	narrow := make([]float32, s.h*w)
	for c := range s.c {
		for y := range s.h {
			line := p[(c*s.h+y)*s.w:][:s.w]
			for x := range w {
				sum := float32(0)
				for k, v := range columns[x].weights {
					sum += v * float32(line[columns[x].from+k])
				}
				narrow[y*w+x] = sum
			}
		}
		for y := range h {
			t := rows[y]
			for x := range w {
				sum := float32(0)
				for k, v := range t.weights {
					sum += v * narrow[(t.from+k)*w+x]
				}
				out[(c*h+y)*w+x] = rounded[T](sum)
			}
		}
	}
	return data.NewArray(out, s.c, h, w)
}

// rounded is v as a pixel.
func rounded[T pixel](v float32) T {
	var zero T
	if _, ok := any(zero).(uint8); ok {
		return T(min(max(math.RoundToEven(float64(v)), 0), 255))
	}
	return T(v)
}

// tap is what a new pixel is the sum of, in one direction.
type tap struct {
	from    int
	weights []float32
}

// taps are those of n new pixels made of m.
func taps(f Filter, m, n int) []tap {
	list, scale := make([]tap, n), float32(m)/float32(n)
	for i := range list {
		switch f {
		case Nearest:
			list[i] = tap{min(int(float32(i)*scale), m-1), []float32{1}}
		case Bilinear:
			at := max(scale*(float32(i)+0.5)-0.5, 0)
			from := min(int(at), m-1)
			share := at - float32(from)
			if from == m-1 { // there is no next one
				list[i] = tap{from, []float32{1}}
			} else {
				list[i] = tap{from, []float32{1 - share, share}}
			}
		default:
			list[i] = covered(scale, i, m)
		}
	}
	return list
}

// covered weighs the pixels by their distance from the middle of pixel i, down to 0 where the next new pixel has its middle, or the next old one if
// those lie further apart.
func covered(scale float32, i, m int) tap {
	support := max(scale, 1)
	middle := scale * (float32(i) + 0.5)
	from := max(int(middle-support+0.5), 0)
	end := min(int(middle+support+0.5), m)
	t, sum := tap{from: from}, float32(0)
	for k := from; k < end; k++ {
		distance := (float32(k) - middle + 0.5) / support
		weight := max(1-float32(math.Abs(float64(distance))), 0)
		t.weights = append(t.weights, weight)
		sum += weight
	}
	for k := range t.weights {
		t.weights[k] /= sum
	}
	return t
}
