// Quickstart learns which points of a square lie in a circle, and prints the loss and where the memory went.
package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func main() {
	if err := train(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func train(w io.Writer) error {
	dev := device.Default() // a GPU if there is one, else the host
	model := nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))
	if err := model.To(dev, nn.Seed(1)); err != nil {
		return err
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(1e-2))
	defer opt.Release()
	points, err := circle(2000)
	if err != nil {
		return err
	}
	batches := data.NewLoader(dev, points, 100, data.Shuffle(tensor.NewGenerator(1)))

	for epoch := range 10 {
		var loss float64
		for x, y := range batches.Batches() {
			if loss, err = step(model, opt, x, y); err != nil {
				return err
			}
		}
		if err := batches.Err(); err != nil { // why the batches ended early
			return err
		}
		fmt.Fprintf(w, "epoch %d: loss %.3f\n", epoch+1, loss)
	}
	fmt.Fprintln(w, memory.Summary(dev))
	return nil
}

// step trains on one batch. Every tensor that it makes belongs to g, and g.Release gives all of them back.
func step(model nn.Layer, opt optim.Optimizer, x, y *tensor.Tensor) (float64, error) {
	g := autograd.NewGraph(x.Device())
	defer g.Release()
	loss := model.Forward(g.Input(x)).CrossEntropy(g.Input(y))
	if err := loss.Backward(); err != nil { // the first error of the whole chain surfaces here
		return 0, err
	}
	if err := opt.Step(); err != nil {
		return 0, err
	}
	opt.ZeroGrad()
	return loss.Item()
}

// circle is n random points of a square, [2] each, of class 1 in the circle and 0 outside.
func circle(n int) (data.Dataset, error) {
	r := rand.New(rand.NewPCG(1, 2))
	points, classes := make([]float32, 0, 2*n), make([]int64, n)
	for i := range classes {
		x, y := 2*r.Float32()-1, 2*r.Float32()-1
		points = append(points, x, y)
		if x*x+y*y < 0.6 {
			classes[i] = 1
		}
	}
	return data.Slices(points, []int{2}, classes, nil)
}
