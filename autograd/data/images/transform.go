package images

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/tensor"
)

// Transform makes a new image of one, which it does not change. r is needed by those that are random.
type Transform func(a data.Array, r *rand.Rand) (data.Array, error)

// Compose is the transforms in turn; nil ones are left out.
func Compose(ts ...Transform) Transform {
	return func(a data.Array, r *rand.Rand) (data.Array, error) {
		for _, t := range ts {
			if t == nil {
				continue
			}
			var err error
			if a, err = t(a, r); err != nil {
				return data.Array{}, err
			}
		}
		return a, nil
	}
}

// pixel are the types of images.
type pixel interface{ uint8 | float32 }

// each makes a transform of two functions, which are one for both types.
func each(op string, u func([]uint8, size) (data.Array, error), f func([]float32, size) (data.Array, error)) func(a data.Array) (data.Array, error) {
	return func(a data.Array) (data.Array, error) {
		s, err := sizeOf(op, a)
		if err != nil {
			return data.Array{}, err
		}
		switch a.DType() {
		case tensor.Uint8:
			p, err := data.Elements[uint8](a)
			if err != nil {
				return data.Array{}, err
			}
			return u(p, s)
		case tensor.Float32:
			p, err := data.Elements[float32](a)
			if err != nil {
				return data.Array{}, err
			}
			return f(p, s)
		}
		return data.Array{}, &tensor.DTypeError{Op: op, DTypes: []tensor.DType{a.DType()}, Detail: "images are uint8 or float32"}
	}
}

// size is that of an image.
type size struct{ c, h, w int }

func sizeOf(op string, a data.Array) (size, error) {
	s := a.Shape()
	if len(s) != 3 || s.Len() == 0 {
		return size{}, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{s}, Detail: "images are [C, H, W], and not empty"}
	}
	return size{s[0], s[1], s[2]}, nil
}

// mistaken is a transform that cannot be.
func mistaken(format string, args ...any) Transform {
	err := &data.ArgumentError{Detail: fmt.Sprintf(format, args...)}
	return func(data.Array, *rand.Rand) (data.Array, error) { return data.Array{}, err }
}

// errNoNumbers is what is wrong with a random transform that is given no random numbers.
func errNoNumbers(op string) error {
	return &data.ArgumentError{Detail: op + " needs random numbers: r is nil"}
}

// certain is a transform that draws nothing.
func certain(f func(data.Array) (data.Array, error)) Transform {
	return func(a data.Array, _ *rand.Rand) (data.Array, error) { return f(a) }
}

// cut copies the part of h by w pixels at (top, left).
func cut[T pixel](p []T, s size, top, left, h, w int) (data.Array, error) {
	out := make([]T, 0, s.c*h*w)
	for c := range s.c {
		for y := range h {
			from := (c*s.h+top+y)*s.w + left
			out = append(out, p[from:from+w]...)
		}
	}
	return data.NewArray(out, s.c, h, w)
}

// cropping is a transform that takes h by w pixels from where place says, given how many rows and columns there are too many.
func cropping(op string, h, w int, place func(rows, columns int, r *rand.Rand) (top, left int)) Transform {
	if h < 1 || w < 1 {
		return mistaken("%s to %d x %d pixels", op, h, w)
	}
	return func(a data.Array, r *rand.Rand) (data.Array, error) {
		s, err := sizeOf(op, a)
		if err != nil {
			return data.Array{}, err
		}
		if s.h < h || s.w < w {
			return data.Array{}, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{a.Shape()}, Detail: fmt.Sprintf("the image is smaller than %d x %d", h, w)}
		}
		if place == nil && r == nil {
			return data.Array{}, errNoNumbers(op)
		}
		top, left := 0, 0
		if place != nil {
			top, left = place(s.h-h, s.w-w, r)
		} else {
			top, left = r.IntN(s.h-h+1), r.IntN(s.w-w+1)
		}
		return each(op, func(p []uint8, s size) (data.Array, error) { return cut(p, s, top, left, h, w) },
			func(p []float32, s size) (data.Array, error) { return cut(p, s, top, left, h, w) })(a)
	}
}

// CenterCrop takes the middle h by w pixels. An image that is smaller is an error, where torchvision pads.
func CenterCrop(h, w int) Transform {
	return cropping("CenterCrop", h, w, func(rows, columns int, _ *rand.Rand) (int, int) {
		half := func(n int) int { return int(math.RoundToEven(float64(n) / 2)) } // as Python rounds
		return half(rows), half(columns)
	})
}

// RandomCrop takes h by w pixels at random. Pad before it makes parts that reach over the edge.
func RandomCrop(h, w int) Transform { return cropping("RandomCrop", h, w, nil) }

// Pad puts n black pixels on each side.
func Pad(n int) Transform {
	if n < 0 || n > 1<<14 {
		return mistaken("Pad by %d pixels", n)
	}
	return certain(each("Pad", padded[uint8](n), padded[float32](n)))
}

func padded[T pixel](n int) func([]T, size) (data.Array, error) {
	return func(p []T, s size) (data.Array, error) {
		h, w := s.h+2*n, s.w+2*n
		out := make([]T, s.c*h*w)
		for c := range s.c {
			for y := range s.h {
				copy(out[(c*h+y+n)*w+n:][:s.w], p[(c*s.h+y)*s.w:])
			}
		}
		return data.NewArray(out, s.c, h, w)
	}
}

// HorizontalFlip makes the mirror image.
func HorizontalFlip() Transform {
	return certain(each("HorizontalFlip", mirrored[uint8], mirrored[float32]))
}

func mirrored[T pixel](p []T, s size) (data.Array, error) {
	out := slices.Clone(p)
	for from := 0; from < len(out); from += s.w {
		slices.Reverse(out[from : from+s.w])
	}
	return data.NewArray(out, s.c, s.h, s.w)
}

// RandomHorizontalFlip is HorizontalFlip with probability p.
func RandomHorizontalFlip(p float64) Transform {
	const op = "RandomHorizontalFlip"
	if !(p >= 0 && p <= 1) {
		return mistaken("%s with probability %v", op, p)
	}
	flip := HorizontalFlip()
	return func(a data.Array, r *rand.Rand) (data.Array, error) {
		if r == nil {
			return data.Array{}, errNoNumbers(op)
		}
		if _, err := sizeOf(op, a); err != nil || r.Float64() >= p {
			return a, err
		}
		return flip(a, r)
	}
}

// ToFloat makes float32 in 0..1 of uint8 in 0..255 (torchvision's ToTensor). Float32 is left as it is.
func ToFloat() Transform {
	return certain(func(a data.Array) (data.Array, error) {
		return each("ToFloat", func(p []uint8, s size) (data.Array, error) {
			out := make([]float32, len(p))
			for i, v := range p {
				out[i] = float32(v) / 255
			}
			return data.NewArray(out, s.c, s.h, s.w)
		}, func([]float32, size) (data.Array, error) { return a, nil })(a)
	})
}

// Normalize subtracts from each channel its mean and divides by its std. It takes float32, and a mean and a std for each channel.
func Normalize(mean, std []float32) Transform {
	const op = "Normalize"
	mean, std = slices.Clone(mean), slices.Clone(std)
	if len(mean) != len(std) || slices.Contains(std, 0) {
		return mistaken("%s with %d means and standard deviations %v", op, len(mean), std)
	}
	return certain(func(a data.Array) (data.Array, error) {
		s, err := sizeOf(op, a)
		if err != nil {
			return data.Array{}, err
		}
		p, err := data.Elements[float32](a)
		if err != nil {
			return data.Array{}, &tensor.DTypeError{Op: op, DTypes: []tensor.DType{a.DType()}, Detail: "it takes float32: ToFloat comes before it"}
		}
		if s.c != len(mean) {
			return data.Array{}, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{a.Shape()}, Detail: fmt.Sprintf("%d means for %d channels", len(mean), s.c)}
		}
		out, n := make([]float32, len(p)), s.h*s.w
		for i, v := range p {
			out[i] = (v - mean[i/n]) / std[i/n]
		}
		return data.NewArray(out, s.c, s.h, s.w)
	})
}

// Gray makes a grey image of one of three channels, 0.2989 red + 0.587 green + 0.114 blue, with channels channels that are equal: 1 or 3. Of
// uint8 the fraction is cut off, as torchvision does for tensors. An image of one channel is grey already.
func Gray(channels int) Transform {
	if channels != 1 && channels != 3 {
		return mistaken("Gray with %d channels; there can be 1 or 3", channels)
	}
	return certain(each("Gray", grey[uint8](channels), grey[float32](channels)))
}

func grey[T pixel](channels int) func([]T, size) (data.Array, error) {
	return func(p []T, s size) (data.Array, error) {
		n := s.h * s.w
		out := make([]T, n, channels*n)
		switch s.c {
		case 1:
			copy(out, p)
		case 3:
			for i := range out {
				out[i] = T(0.2989*float32(p[i]) + 0.587*float32(p[n+i]) + 0.114*float32(p[2*n+i]))
			}
		default:
			return data.Array{}, &tensor.ShapeError{Op: "Gray", Shapes: []tensor.Shape{{s.c, s.h, s.w}}, Detail: "there must be 1 channel or 3"}
		}
		for range channels - 1 {
			out = append(out, out[:n]...)
		}
		return data.NewArray(out, channels, s.h, s.w)
	}
}
