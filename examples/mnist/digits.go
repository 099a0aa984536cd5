package main

import (
	"math/rand/v2"

	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/tensor"
)

// Mean and standard deviation of MNIST's pixels, as parts of 255.
const (
	pixelMean = 0.1307
	pixelStd  = 0.3081
)

// digits makes batches of images: float32 of mean 0 and deviation 1, [N, Rows*Cols], and int64 classes, [N].
type digits struct {
	set   dataset.Set
	moves *rand.Rand // moves each image by up to a pixel; nil leaves them where they are
	table [256]float32
}

func newDigits(set dataset.Set, moves *rand.Rand) *digits {
	d := &digits{set: set, moves: moves}
	for i := range d.table {
		d.table[i] = (float32(i)/255 - pixelMean) / pixelStd
	}
	return d
}

// Len implements data.Dataset.
func (d *digits) Len() int { return d.set.Len() }

// Batch implements data.Dataset.
func (d *digits) Batch(e tensor.Exec, index []int64) (images, labels *tensor.Tensor, err error) {
	size := d.set.Rows * d.set.Cols
	pixels := make([]float32, 0, len(index)*size)
	classes := make([]int64, 0, len(index))
	for _, i := range index {
		pixels = d.append(pixels, int(i))
		classes = append(classes, int64(d.set.Labels[i]))
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
func (d *digits) append(pixels []float32, i int) []float32 {
	dy, dx := 0, 0
	if d.moves != nil {
		dy, dx = d.moves.IntN(3)-1, d.moves.IntN(3)-1
	}
	image := d.set.Image(i)
	for y := range d.set.Rows {
		for x := range d.set.Cols {
			ink := uint8(0)
			if v, u := y+dy, x+dx; v >= 0 && v < d.set.Rows && u >= 0 && u < d.set.Cols {
				ink = image[v*d.set.Cols+u]
			}
			pixels = append(pixels, d.table[ink])
		}
	}
	return pixels
}
