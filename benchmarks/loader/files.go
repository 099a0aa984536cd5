package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"testing/fstest"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/data/images"
)

// classes is the number of classes of images.
const classes = 10

// files are images in memory, and how they become examples.
type files struct {
	fs     fstest.MapFS
	names  []string
	change images.Transform
	bytes  int // of all files
}

// newFiles draws images: stripes whose direction depends on the class, with some noise, so that files have about the size of photographs'.
func newFiles(format string, n, size int) (*files, error) {
	half := size / 2
	f := &files{fs: fstest.MapFS{}, change: images.Compose(images.Resize(half, half, images.Antialias), images.ToFloat(),
		images.Normalize([]float32{0.5, 0.5, 0.5}, []float32{0.25, 0.25, 0.25}))}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var b bytes.Buffer
		picture, err := drawn(r, i%classes, size), error(nil)
		if format == "jpeg" {
			err = jpeg.Encode(&b, picture, nil)
		} else {
			err = png.Encode(&b, picture)
		}
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%06d.%s", i, format)
		f.fs[name] = &fstest.MapFile{Data: b.Bytes()}
		f.names = append(f.names, name)
		f.bytes += b.Len()
	}
	return f, nil
}

func drawn(r *rand.Rand, class, size int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, size, size))
	sin, cos := math.Sincos(math.Pi * float64(class) / classes)
	for y := range size {
		for x := range size {
			v := 128 + 80*math.Sin((sin*float64(x)+cos*float64(y))*0.6) + 16*r.Float64()
			m.SetRGBA(x, y, color.RGBA{uint8(v), uint8(255 - v), uint8(v / 2), 255})
		}
	}
	return m
}

// decode makes image i.
func (f *files) decode(i int) (data.Array, error) {
	a, err := images.Read(f.fs, f.names[i])
	if err != nil {
		return a, err
	}
	return f.change(a, nil)
}
