package autograd

import "github.com/cistern-ml/cistern/tensor"

// SaveOnCPU saves tensors in host memory and brings them back when backward needs them (torch.autograd.graph.save_on_cpu): the
// device holds the activations of one operation at a time, for the time that the copies take. With pinned memory the copies are
// enqueued on the graph's stream without anybody waiting for them; it is kept in a pool (package memory/pinned), and is memory that the
// operating system can use for nothing else. Values of inputs and parameters, which stay on the device anyway, are not copied.
//
//	g := autograd.NewGraph(dev, autograd.WithSavedTensorHooks(autograd.SaveOnCPU(true)))
//
// or, for a part of the model,
//
//	h := g.SavedTensors(autograd.SaveOnCPU(true), func() *autograd.Variable { return block.Forward(x) })
func SaveOnCPU(pinned bool) SavedTensorHooks { return onCPU{pinned} }

type onCPU struct{ pinned bool }

// Pack implements SavedTensorHooks.
func (o onCPU) Pack(t *tensor.Tensor, leaf bool) (Packed, error) {
	if leaf {
		return nil, nil
	}
	c, err := t.CopyToHost(o.pinned)
	if err != nil {
		return nil, err
	}
	return offloaded{c}, nil
}

type offloaded struct{ *tensor.HostCopy }

// Unpack implements Packed.
func (o offloaded) Unpack(e tensor.Exec) (*tensor.Tensor, error) { return o.Tensor(e) }
