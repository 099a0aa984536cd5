package parallel_test

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// Two ranks of one process train a line, each on half of the points. With MPI or NCCL each is a process, which has its Comm from there.
func ExampleData() {
	devices := []device.Device{host.New(), host.New()}
	comms, err := comm.Loopback(devices...)
	if err != nil {
		fmt.Println(err)
		return
	}
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() {
			if err := trainLine(devices[rank], c); err != nil {
				c.Abort(err) // the other one must not wait
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	// Output: y = 3.0 x + 1.0
}

func trainLine(dev device.Device, c comm.Comm) error {
	model := nn.Linear(1, 1)
	if err := model.To(dev); err != nil {
		return err
	}
	defer model.Release()
	d, err := parallel.Data(model, c)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	opt := optim.SGD(d.Parameters(), optim.LR(0.2))
	for range 200 {
		g := autograd.NewGraph(dev)
		at := []float32{-1, 1}
		if c.Rank() == 1 {
			at = []float32{0, 2}
		}
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, at, 2, 1) })
		y := x.MulScalar(3).AddScalar(1)
		err := d.Forward(x).MSELoss(y, autograd.MeanReduction).Backward()
		g.Release()
		if err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
	}
	w, err := model.Weight.Tensor().Item()
	if err != nil || c.Rank() != 0 {
		return err
	}
	b, err := model.Bias.Tensor().Item()
	fmt.Printf("y = %.1f x + %.1f\n", w, b)
	return err
}

// Two ranks save what they train, and a program without a group goes on with it.
func ExampleCheckpoint() {
	folder, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	devices := []device.Device{host.New(), host.New()}
	comms, err := comm.Loopback(devices...)
	if err != nil {
		fmt.Println(err)
		return
	}
	save := func(dev device.Device, c comm.Comm) error {
		model := nn.Linear(64, 8)
		if err := model.To(dev, nn.Seed(1)); err != nil {
			return err
		}
		defer model.Release()
		d, err := parallel.Data(model, c, parallel.ZeRO(2))
		if err != nil {
			return err
		}
		defer func() { _ = d.Close() }()
		opt := optim.AdamW(d.Parameters(), optim.LR(0.2))
		defer opt.Release()
		return parallel.NewCheckpoint(d).Optimizer("optimizer", opt).Write(context.Background(), folder, 100)
	}
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() {
			if err := save(devices[rank], c); err != nil {
				c.Abort(err)
				fmt.Println(err)
			}
		})
	}
	wg.Wait()

	model := nn.Linear(64, 8)
	if err := model.To(host.Default(), nn.Seed(2)); err != nil {
		fmt.Println(err)
		return
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters())
	defer opt.Release()
	saved, err := parallel.PlainCheckpoint(model).Optimizer("optimizer", opt).Read(context.Background(), folder)
	fmt.Printf("step %d of %d ranks with ZeRO %d, learning rate %.1f, %v\n", saved.Step, saved.Ranks, saved.Stage, opt.LR(0), err)
	// Output: step 100 of 2 ranks with ZeRO 2, learning rate 0.2, <nil>
}

// What a rank of 64 will keep of a model whose layers have a billion parameters, before anybody has such a machine.
func ExamplePredict() {
	layers := make([]nn.Layer, 60)
	for i := range layers {
		layers[i] = nn.Linear(4096, 4096, nn.NoBias())
	}
	model := nn.Sequential(layers...)
	for stage := range 4 {
		h, err := parallel.Predict(model, tensor.Float32, 0, 64, 2, parallel.ZeRO(stage))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("ZeRO %d: %5.2f GB\n", stage, float64(h.Total())/1e9)
	}
	// Output:
	// ZeRO 0: 16.11 GB
	// ZeRO 1:  8.18 GB
	// ZeRO 2:  4.22 GB
	// ZeRO 3:  0.25 GB
}
