package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// work is what is trained, and on what. All ranks of a process share it: it only reads.
type work struct {
	model func() (nn.Layer, error)
	// batch is rows examples from number at on, of those of a step.
	batch func(e tensor.Exec, step, at, rows int) (x, y *tensor.Tensor, err error)
	loss  func(y, labels *autograd.Variable) *autograd.Variable
}

func (o *options) work() (*work, error) {
	if o.Model == "digits" {
		return o.digits()
	}
	corpus, err := text.Load(o.text)
	if err != nil {
		return nil, err
	}
	vocab := max(o.Vocab, len(corpus.Alphabet))
	if len(corpus.Train) <= o.Seq {
		return nil, fmt.Errorf("-seq is %d, but the text has only %d characters to train on", o.Seq, len(corpus.Train))
	}
	return &work{
		model: func() (nn.Layer, error) {
			return models.NewGPT(models.GPTConfig{Vocab: vocab, Context: o.Seq, Layers: o.Layers, Width: o.Width, Heads: o.Heads})
		},
		batch: func(e tensor.Exec, step, at, rows int) (x, y *tensor.Tensor, err error) {
			starts := make([]int, rows)
			for i := range starts { // far from each other, and never the same order
				starts[i] = (step*o.Batch + at + i) * 7919 % (len(corpus.Train) - o.Seq)
			}
			return text.Windows(e, corpus.Train, starts, o.Seq)
		},
		loss: func(y, labels *autograd.Variable) *autograd.Variable {
			return y.Reshape(-1, y.Dim(-1)).CrossEntropy(labels.Reshape(-1))
		},
	}, nil
}

// digits is a network of three layers for images of 14 by 14 pixels.
func (o *options) digits() (*work, error) {
	set, _, err := digits.Load("", 2)
	if err != nil {
		return nil, err
	}
	pixels := set.Side * set.Side
	return &work{
		model: func() (nn.Layer, error) {
			return nn.Sequential(nn.Linear(pixels, o.Width), nn.BatchNorm1d(o.Width), nn.ReLU(), nn.Linear(o.Width, o.Width), nn.ReLU(), nn.Linear(o.Width, 10)), nil
		},
		batch: func(e tensor.Exec, step, at, rows int) (x, y *tensor.Tensor, err error) {
			images, labels := make([]float32, 0, rows*pixels), make([]int64, rows)
			for i := range labels {
				k := (step*o.Batch + at + i) % set.Len()
				images, labels[i] = append(images, set.Image(k)...), set.Labels[k]
			}
			if x, err = tensor.FromSlice(e, images, rows, pixels); err != nil {
				return nil, nil, err
			}
			if y, err = tensor.FromSlice(e, labels, rows); err != nil {
				x.Release()
			}
			return x, y, err
		},
		loss: func(y, labels *autograd.Variable) *autograd.Variable { return y.CrossEntropy(labels) },
	}, nil
}
