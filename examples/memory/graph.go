package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// graph trains for a step, for which the device need not compute anything.
func (t *tour) graph() {
	t.chapter("6. A graph gives all of its memory back", "In a training step the operations allocate, and the graph owns what they make: no garbage collector has to find it.")
	model := nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512))
	defer model.Release()
	t.step("model := nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512))\nerr := model.To(dev, nn.Seed(1))", "The parameters.", func() error {
		return model.To(t.Device, nn.Seed(1))
	})
	if t.err != nil {
		return
	}
	g := autograd.NewGraph(t.Device)
	defer g.Release()
	var loss *autograd.Variable
	t.step("g := autograd.NewGraph(dev)\nloss := model.Forward(g.RandN(tensor.Float32, 1024, 1024)).Mean(nil, false)", "The input, and what backward will need of what was computed.", func() error {
		loss = model.Forward(g.RandN(tensor.Float32, 1024, 1024)).Mean(nil, false)
		return g.Err()
	})
	t.step("err = loss.Backward()", "Each saved tensor goes when it was used. Gradients are there now, one for each parameter.", func() error { return loss.Backward() })
	t.step("g.Release()", "What is left are parameters and gradients.", func() error {
		g.Release()
		return nil
	})
	t.account(model.Parameters())
	t.step("model.Release()\nerr = alloc.EmptyCache()", "", func() error {
		model.Release()
		return t.alloc.EmptyCache()
	})
}

// account compares what parameters and gradients hold by their own account with what the allocator says.
func (t *tour) account(params []*autograd.Parameter) {
	if t.err != nil {
		return
	}
	var own uint64
	for _, p := range params {
		own += p.Tensor().StorageBytes()
		if grad := p.Grad(); grad != nil {
			own += grad.StorageBytes()
		}
	}
	if now := t.Allocated(); now != own {
		t.err = fmt.Errorf("parameters and gradients hold %d bytes, and the allocator says %d", own, now)
		return
	}
	t.print("\n%s\n", wrapped(fmt.Sprintf("Parameters and gradients hold %d bytes (%s) by their own account, and that is what the allocator says, to the byte.", own, device.FormatBytes(own)), "  "))
}
