package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A run is saved, and goes on in new objects.
func Example() {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run.safetensors")
	ctx := context.Background()

	save := func(step int) error {
		model := nn.Linear(2, 1)
		if err := model.To(host.Default(), nn.Seed(1)); err != nil {
			return err
		}
		defer model.Release()
		opt := optim.AdamW(model.Parameters(), optim.LR(0.1))
		defer opt.Release()
		schedule := optim.CosineAnnealingLR(opt, 10, 0)
		gen := tensor.NewGenerator(7)
		for range step {
			if _, err := tensor.RandPerm(gen, 100); err != nil { // an epoch of training
				return err
			}
			if err := schedule.Step(); err != nil {
				return err
			}
		}
		return checkpoint.New().Add("model", checkpoint.Module(model)).Add("optimizer", checkpoint.Optimizer(opt)).
			Add("schedule", checkpoint.State(schedule)).Add("generator", checkpoint.Generator(gen)).
			Add("step", checkpoint.Value(&step)).WriteFile(ctx, path)
	}
	if err := save(5); err != nil {
		log.Fatal(err)
	}

	model := nn.Linear(2, 1)
	if err := model.To(host.Default(), nn.Seed(2)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(0.1))
	defer opt.Release()
	schedule := optim.CosineAnnealingLR(opt, 10, 0)
	gen, step := tensor.NewGenerator(0), 0
	err = checkpoint.New().Add("model", checkpoint.Module(model)).Add("optimizer", checkpoint.Optimizer(opt)).
		Add("schedule", checkpoint.State(schedule)).Add("generator", checkpoint.Generator(gen)).
		Add("step", checkpoint.Value(&step)).ReadFile(ctx, path)
	fmt.Printf("step %d, learning rate %.2f, generator %+v, %v\n", step, opt.LR(0), gen.State(), err)
	// Output: step 5, learning rate 0.05, generator {Seed:7 Offset:250}, <nil>
}
