package fit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// wide makes four wide layers behind each other.
func wide(checkpoint bool) nn.Layer {
	layers := []nn.Layer{nn.Linear(1024, 4096)}
	for range 4 {
		var l nn.Layer = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.LayerNorm([]int{4096}))
		if checkpoint {
			l = nn.Checkpointed(l)
		}
		layers = append(layers, l)
	}
	return nn.Sequential(append(layers, nn.Linear(4096, 10))...)
}

// The largest batch of a network on a GPU with 24 GB, plain and with its layers checkpointed. For half precision a program also makes its graphs with amp.Autocast,
// as examples/fit does.
func ExampleLargest() {
	train := func(ctx context.Context, t fit.Trial) error {
		model := wide(t.Checkpoint)
		defer model.Release()
		if err := model.To(t.Device); err != nil {
			return err
		}
		opt := optim.AdamW(model.Parameters())
		defer opt.Release()
		step := func() error {
			g := autograd.NewGraph(t.Device)
			defer g.Release()
			x, y := g.Zeros(tensor.Float32, t.Batch, 1024), g.Zeros(tensor.Int64, t.Batch)
			return model.Forward(x).CrossEntropy(y).Backward()
		}
		for range t.Steps() {
			if err := step(); err != nil {
				return err
			}
			if err := opt.Step(); err != nil {
				return err
			}
			opt.ZeroGrad()
		}
		return ctx.Err()
	}

	capacity, err := fit.Capacity("RTX 4090")
	if err != nil {
		log.Fatal(err)
	}
	report, err := fit.Largest(context.Background(), capacity, train, fit.Checkpointing())
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range report.Results {
		fmt.Printf("checkpoints %-5t expandable segments %-5t %d samples, %s first\n", r.Checkpoint, r.Expandable, r.LargestBatch, r.AtPeak[0].What)
	}
	// Output:
	// checkpoints false expandable segments false 99712 samples, activations first
	// checkpoints false expandable segments true  104286 samples, activations first
	// checkpoints true  expandable segments false 148608 samples, activations first
	// checkpoints true  expandable segments true  160822 samples, activations first
}
