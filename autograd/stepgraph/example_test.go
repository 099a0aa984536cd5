package stepgraph_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A line is fitted to points of it. On a GPU the fourth step is captured, and replayed from then on; on the host, as here, each step is an eager one. The
// learning rate is set between steps in either case.
func Example() {
	dev := host.New()
	defer dev.Close()
	defer func() { _ = memory.Drop(dev) }()
	model := nn.Linear(1, 1)
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.SGD(model.Parameters(), optim.LR(0.5))
	defer opt.Release()

	step, err := stepgraph.New(dev, func(_ *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
		loss := model.Forward(in[0]).MSELoss(in[1], autograd.MeanReduction)
		return []*autograd.Variable{loss}, errors.Join(loss.Backward(), opt.Step())
	}, stepgraph.Modules(model))
	if err != nil {
		log.Fatal(err)
	}
	defer step.Close()

	e := step.Exec()
	x, err := tensor.FromSlice(e, []float32{-1, 0, 1, 2}, 4, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := tensor.FromSlice(e, []float32{-1, 1, 3, 5}, 4, 1) // 2x + 1
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	for i := range 15 {
		opt.SetLR(0.1 / float64(1+i/5))
		out, err := step.Run(x, y)
		if err != nil {
			log.Fatal(err)
		}
		if i%5 == 4 {
			loss, err := out[0].Item()
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("step %d: loss %.3f\n", i+1, loss)
		}
	}
	fmt.Println("captured:", step.Captures())
	// Output:
	// step 5: loss 0.097
	// step 10: loss 0.008
	// step 15: loss 0.002
	// captured: false
}
