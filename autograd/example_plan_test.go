package autograd_test

import (
	"fmt"
	"log"
	"time"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Training steps repeat, so that a plan knows where each of their blocks goes. The graph is made first, and then the batch: what is made before the graph is of the step before.
func ExampleWithPlan() {
	dev := host.New()
	defer dev.Close()
	alloc, err := memory.For(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = memory.Drop(dev) }()
	plan, err := alloc.(*memory.Caching).NewPlan(memory.PlanWait(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer plan.Close()

	model := nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.Adam(model.Parameters())
	defer opt.Release()
	step := func() error {
		g := autograd.NewGraph(dev, autograd.WithPlan(plan))
		defer g.Release()
		out := model.Forward(g.RandN(tensor.Float32, 32, 64))
		if err := out.Mul(out).Mean(nil, false).Backward(); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
		return nil
	}
	for range 5 {
		before := plan.Stats()
		if err := step(); err != nil {
			log.Fatal(err)
		}
		now := plan.Stats()
		fmt.Printf("%d requests served, %d deviations\n", now.Served-before.Served, now.Deviations()-before.Deviations())
	}
	// Output:
	// 0 requests served, 0 deviations
	// 14 requests served, 0 deviations
	// 14 requests served, 0 deviations
	// 14 requests served, 0 deviations
	// 14 requests served, 0 deviations
}
