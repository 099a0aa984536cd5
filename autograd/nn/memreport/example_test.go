package memreport_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A simulated device tells where the memory of a step will go, before there is a GPU.
func ExampleMeasure() {
	dev := sim.New(device.GiB)
	defer memory.Drop(dev)
	model := nn.Sequential(nn.Linear(784, 512), nn.GELU(), nn.Linear(512, 10))
	if err := model.To(dev); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters())
	defer opt.Release()

	step := func() error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		images := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 256, 784) })
		if err := model.Forward(images).Mean(nil, false).Backward(); err != nil {
			return err
		}
		defer opt.ZeroGrad()
		return opt.Step()
	}
	report, err := memreport.Measure(dev, step)
	if err != nil {
		log.Fatal(err)
	}
	at := report.AtPeak
	fmt.Println("allocated at the peak:", report.Peak)
	fmt.Println("parameters, gradients:", at.Parameters, at.Gradients)
	fmt.Println("optimizer state:      ", at.OptimizerState)
	fmt.Println("activations, inputs:  ", at.Activations, at.Inputs)
	fmt.Println("workspace, other:     ", at.Workspace, at.Other)
	fmt.Println("added up:             ", at.Total())
	for _, m := range report.Modules[:2] {
		fmt.Printf("module %s: %d, saved for backward %d\n", m.Name(), m.AtPeak.Total(), m.Saved)
	}
	// Output:
	// allocated at the peak: 7318016
	// parameters, gradients: 1628672 1628672
	// optimizer state:       3257344
	// activations, inputs:   512 802816
	// workspace, other:      0 0
	// added up:              7318016
	// module 0: 6430720, saved for backward 1327104
	// module (outside): 803328, saved for backward 0
}
