package dataset

import (
	"math/rand/v2"

	"github.com/cistern-ml/cistern/tensor"
)

// Mean and standard deviation of MNIST's pixels, as parts of 255.
const (
	pixelMean = 0.1307
	pixelStd  = 0.3081
)

// Digits makes batches of images: float32 of mean 0 and deviation 1, [N, Rows*Cols], and int64 classes, [N]. It is a
// data.Dataset.
type Digits struct {
	Set

	moves *rand.Rand // moves each image by up to a pixel; nil leaves them where they are
	table [256]float32
}

// NewDigits makes batches of a set. With moves, each image is moved by up to a pixel at random.
func NewDigits(set Set, moves *rand.Rand) *Digits {
	d := &Digits{Set: set, moves: moves}
	for i := range d.table {
		d.table[i] = (float32(i)/255 - pixelMean) / pixelStd
	}
	return d
}

// Batch implements data.Dataset.
func (d *Digits) Batch(e tensor.Exec, index []int64) (images, labels *tensor.Tensor, err error) {
	size := d.Rows * d.Cols
	pixels := make([]float32, 0, len(index)*size)
	classes := make([]int64, 0, len(index))
	for _, i := range index {
		pixels = d.append(pixels, int(i))
		classes = append(classes, int64(d.Labels[i]))
	}
	if images, err = tensor.FromSlice(e, pixels, len(index), size); err != nil {
		return nil, nil, err
	}
	if labels, err = tensor.FromSlice(e, classes, len(index)); err != nil {
		images.Release()
		return nil, nil, err
	}
	return images, labels, nil
}

// append adds the pixels of image i.
func (d *Digits) append(pixels []float32, i int) []float32 {
	dy, dx := 0, 0
	if d.moves != nil {
		dy, dx = d.moves.IntN(3)-1, d.moves.IntN(3)-1
	}
	image := d.Image(i)
	for y := range d.Rows {
		for x := range d.Cols {
			ink := uint8(0)
			if v, u := y+dy, x+dx; v >= 0 && v < d.Rows && u >= 0 && u < d.Cols {
				ink = image[v*d.Cols+u]
			}
			pixels = append(pixels, d.table[ink])
		}
	}
	return pixels
}
