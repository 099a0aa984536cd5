package main

import (
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// gorgoniaMLP is a step of Gorgonia's tape machine. It has no AdamW: the solver is Adam.
func gorgoniaMLP() (func() error, error) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, pixels), gorgonia.WithName("x"))
	y := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, classes), gorgonia.WithName("y"))
	var learned gorgonia.Nodes
	h, widths := x, []int{pixels, hidden, hidden, classes}
	for i := range 3 {
		name := string(rune('1' + i))
		w := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(widths[i], widths[i+1]), gorgonia.WithName("w"+name), gorgonia.WithInit(gorgonia.GlorotU(1)))
		b := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(1, widths[i+1]), gorgonia.WithName("b"+name), gorgonia.WithInit(gorgonia.Zeroes()))
		learned = append(learned, w, b)
		product, err := gorgonia.Mul(h, w)
		if err != nil {
			return nil, err
		}
		if h, err = gorgonia.BroadcastAdd(product, b, nil, []byte{0}); err != nil {
			return nil, err
		}
		if i < 2 {
			if h, err = gorgonia.Rectify(h); err != nil {
				return nil, err
			}
		}
	}
	loss, err := crossEntropy(h, y)
	if err != nil {
		return nil, err
	}
	if _, err = gorgonia.Grad(loss, learned...); err != nil {
		return nil, err
	}
	var read gorgonia.Value
	gorgonia.Read(loss, &read)
	images, labels := batchOf()
	oneHot := make([]float32, batch*classes)
	for i, c := range labels {
		oneHot[i*classes+c] = 1
	}
	if err := gorgonia.Let(x, tensor.New(tensor.WithShape(batch, pixels), tensor.WithBacking(images))); err != nil {
		return nil, err
	}
	if err := gorgonia.Let(y, tensor.New(tensor.WithShape(batch, classes), tensor.WithBacking(oneHot))); err != nil {
		return nil, err
	}
	machine := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(learned...))
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(rate))
	return func() error {
		if err := machine.RunAll(); err != nil {
			return err
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(learned)); err != nil {
			return err
		}
		machine.Reset()
		return nil
	}, nil
}

// crossEntropy is the mean over rows of minus the logarithm of the softmax at the class, which y has as a one.
func crossEntropy(logits, y *gorgonia.Node) (*gorgonia.Node, error) {
	p, err := gorgonia.SoftMax(logits, 1)
	if err != nil {
		return nil, err
	}
	log, err := gorgonia.Log(p)
	if err != nil {
		return nil, err
	}
	chosen, err := gorgonia.HadamardProd(log, y)
	if err != nil {
		return nil, err
	}
	sum, err := gorgonia.Sum(chosen)
	if err != nil {
		return nil, err
	}
	return gorgonia.Mul(sum, gorgonia.NewConstant(float32(-1.0/batch)))
}
