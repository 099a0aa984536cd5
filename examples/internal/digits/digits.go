// Package digits has what programs share that learn to draw handwritten digits: the digits as numbers, a judge of what is drawn, and pictures.
package digits

import (
	"fmt"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/examples/mnist/dataset"
)

// Set is a set of square images, Side*Side numbers each, from -1 (background) to 1 (ink).
type Set struct {
	Pixels []float32
	Labels []int64
	Side   int
}

// Load reads the digits that examples/mnist reads, made smaller by a whole number: each pixel is the mean of a square of smaller*smaller.
func Load(dir string, smaller int) (train, test Set, err error) {
	a, b, err := dataset.Load(dir)
	if err != nil {
		return Set{}, Set{}, err
	}
	if a.Rows != a.Cols || a.Rows%(2*smaller) != 0 {
		return Set{}, Set{}, fmt.Errorf("images of %dx%d pixels; they must be square, with a side that %d divides", a.Rows, a.Cols, 2*smaller)
	}
	return scaled(a, smaller), scaled(b, smaller), nil
}

func scaled(from dataset.Set, smaller int) Set {
	s := Set{Side: from.Rows / smaller, Labels: make([]int64, from.Len())}
	s.Pixels = make([]float32, from.Len()*s.Side*s.Side)
	unit := 2 / (255 * float32(smaller*smaller))
	for i := range s.Labels {
		s.Labels[i] = int64(from.Labels[i])
		to, image := s.Image(i), from.Image(i)
		for k, ink := range image {
			to[k/from.Cols/smaller*s.Side+k%from.Cols/smaller] += unit * float32(ink)
		}
		for k := range to {
			to[k]--
		}
	}
	return s
}

// Len is the number of images.
func (s Set) Len() int { return len(s.Labels) }

// Image is the pixels of image i, not a copy.
func (s Set) Image(i int) []float32 {
	n := s.Side * s.Side
	return s.Pixels[i*n : (i+1)*n]
}

// Draw appends n images drawn at random, with replacement.
func (s Set) Draw(r *rand.Rand, n int) []float32 {
	pixels := make([]float32, 0, n*s.Side*s.Side)
	for range n {
		pixels = append(pixels, s.Image(r.IntN(s.Len()))...)
	}
	return pixels
}
