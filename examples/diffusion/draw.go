package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/tensor"
)

// together is how many digits are drawn at a time.
const together = 100

// judged draws digits and lets a judge look at them.
func (t *trainer) judged(judge *digits.Judge) (distance float64, pixels []float32, err error) {
	noise := t.first()
	for left := t.compared; left > 0; left -= together {
		drawn, err := t.draw(min(together, left), noise, t.Interruption)
		if err != nil {
			return 0, nil, err
		}
		pixels = append(pixels, drawn...)
	}
	distance, err = judge.Distance(pixels)
	return distance, pixels, err
}

// first draws the same noise each time.
func (t *trainer) first() *tensor.Generator { return tensor.NewGenerator(t.seed + 2) }

// draw makes n digits of noise. It asks check before each step, and ends with its error.
func (t *trainer) draw(n int, noise *tensor.Generator, check func() error) ([]float32, error) {
	e, err := tensor.On(t.Device)
	if err != nil {
		return nil, err
	}
	x, err := tensor.RandN(e, noise, tensor.Float32, n, 1, t.Side, t.Side)
	if err != nil {
		return nil, err
	}
	for at := t.times - 1; at >= 0; at-- {
		if err := check(); err != nil {
			x.Release()
			return nil, err
		}
		before, err := t.back(x, at, noise)
		x.Release()
		if err != nil {
			return nil, err
		}
		x = before
	}
	defer x.Release()
	return tensor.ToSlice[float32](x)
}

// back is what images were before the step of diffusion at a time, if the network has found the noise in them.
func (t *trainer) back(x *tensor.Tensor, at int, noise *tensor.Generator) (*tensor.Tensor, error) {
	g := autograd.NewGraph(t.Device, autograd.NoGrad(), autograd.WithGenerator(noise))
	defer g.Release()
	v := g.Input(x)
	found := t.mean.Module.noise(v, g.Full(float64(at), tensor.Float32, v.Dim(0)))
	clean := v.Sub(found.MulScalar(math.Sqrt(1-t.kept[at]))).DivScalar(math.Sqrt(t.kept[at])).Clamp(-1, 1)
	image, of, deviation := t.schedule.back(at)
	return v.MulScalar(image).Add(clean.MulScalar(of)).Add(v.RandNLike().MulScalar(deviation)).Take()
}
