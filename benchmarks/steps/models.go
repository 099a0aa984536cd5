package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// program is a model with what it is trained on, as the recorded one.
type program struct {
	name        string
	trace       string // the recording
	batch       int
	seq         int // of language models
	vocab       int
	evalAt      int  // evaluate at batch 200 each so many steps; 0 for never
	checkpoints bool // its layers are checkpointed
	named       bool // it is not among all, but must be asked for by name: for the host it is too large
	model       func(p *program) (nn.Layer, error)
	optim       func(params []*autograd.Parameter) *optim.Grouped
}

var programs = []*program{
	{name: "mlp", trace: "mlp_adam", batch: 256, model: mlp,
		optim: func(p []*autograd.Parameter) *optim.Grouped { return optim.Adam(p) }},
	{name: "resnet", trace: "resnet_sgd", batch: 64, evalAt: 5, model: resnet,
		optim: func(p []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9))
		}},
	{name: "gpt", trace: "gpt_fixed", batch: 8, seq: 256, vocab: 8192, model: gpt(false), optim: adamW},
	{name: "gpt_ckpt", trace: "gpt_ckpt", batch: 8, seq: 256, vocab: 8192, checkpoints: true, model: gpt(true), optim: adamW},
	{name: "gpt2", batch: 4, seq: 1024, vocab: 50257, named: true, model: gpt2, optim: adamW},
}

func adamW(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p) }

func mlp(*program) (nn.Layer, error) {
	return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), nil
}

func resnet(*program) (nn.Layer, error) {
	return models.NewResNet(models.ResNetConfig{Channels: 3, Classes: 10, Widths: []int{64, 128, 256, 512}, Blocks: 2})
}

func gpt(checkpoint bool) func(p *program) (nn.Layer, error) {
	return func(p *program) (nn.Layer, error) {
		return models.NewGPT(models.GPTConfig{Vocab: p.vocab, Context: p.seq, Layers: 6, Width: 384, Heads: 6, Dropout: 0.1, Checkpoint: checkpoint})
	}
}

// gpt2 is the smallest model of the GPT-2 family, as examples/gpt2 has it.
func gpt2(p *program) (nn.Layer, error) {
	return models.NewGPT(models.GPTConfig{Vocab: p.vocab, Context: p.seq, Layers: 12, Width: 768, Heads: 12, Tied: true, GELUTanh: true})
}

// noise makes images of random numbers, 3 by 32 by 32, with their channels last or first.
func noise(e tensor.Exec, gen *tensor.Generator, batch int, last bool) (*tensor.Tensor, error) {
	if !last {
		return tensor.RandN(e, gen, tensor.Float32, batch, 3, 32, 32)
	}
	x, err := tensor.RandN(e, gen, tensor.Float32, batch, 32, 32, 3)
	if err != nil {
		return nil, err
	}
	defer x.Release()
	return x.Permute(0, 3, 1, 2)
}

// inputs makes a batch: images or tokens, and classes, at random. Values matter only in that gradients should not overflow: a step
// that a scaler leaves out takes no memory for the optimizer.
func (p *program) inputs(e tensor.Exec, gen *tensor.Generator, batch, seq int, last bool) (x, y *tensor.Tensor, err error) {
	classes, most := batch, 10
	switch p.name {
	case "mlp":
		x, err = tensor.RandN(e, gen, tensor.Float32, batch, 784)
	case "resnet":
		x, err = noise(e, gen, batch, last)
	default:
		classes, most = batch*seq, p.vocab
		x, err = tensor.FromSlice(e, numbers(gen, classes, most), batch, seq)
	}
	if err != nil {
		return nil, nil, err
	}
	if y, err = tensor.FromSlice(e, numbers(gen, classes, most)); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}

// numbers are n random numbers below most.
func numbers(gen *tensor.Generator, n, most int) []int64 {
	list, err := tensor.RandPerm(gen, n)
	if err != nil {
		return nil // no number of classes or of examples here is so large
	}
	for i := range list {
		list[i] %= int64(most)
	}
	return list
}

func names() (list []string) {
	for _, p := range programs {
		list = append(list, p.name)
	}
	return list
}

func find(name string) *program {
	for _, p := range programs {
		if p.name == name {
			return p
		}
	}
	return nil
}
