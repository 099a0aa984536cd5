package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["gatscatter"] = gatScatter }

// scatterConv is gatConv with the operations that it is written with in PyTorch.
type scatterConv struct{ *gatConv }

func newScatterConv(inputs, outputs, heads int) *scatterConv {
	return nn.New(&scatterConv{newGATConv(inputs, outputs, heads)})
}

func (m *scatterConv) Forward(x, src, dst *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		nodes, edges := x.Dim(0), src.Len()
		h := m.Lin.Forward(x).View(-1, m.heads, m.outputs)
		fromSrc, fromDst := h.Mul(g.Param(m.AttSrc)).Sum([]int{-1}, false), h.Mul(g.Param(m.AttDst)).Sum([]int{-1}, false)
		e := fromSrc.Index(src).Add(fromDst.Index(dst)).LeakyReLU(0.2)
		zeros := g.Zeros(tensor.Float64, nodes, m.heads)
		most := zeros.ScatterReduce(0, dst.Unsqueeze(-1).ExpandAs(e), e, tensor.ScatterMax, false)
		ex := e.Sub(most.Index(dst)).Exp()
		alpha := ex.Div(zeros.IndexAdd(0, dst, ex).Index(dst)).Reshape(edges, m.heads, 1)
		out := g.Zeros(tensor.Float64, nodes, m.heads, m.outputs).IndexAdd(0, dst, alpha.Mul(h.Index(src)))
		return out.Reshape(nodes, -1).Add(g.Param(m.Bias))
	})
}

type scatterNet struct {
	nn.Base
	Conv1, Conv2 *scatterConv
}

func (m *scatterNet) Forward(x, src, dst *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		return m.Conv2.Forward(m.Conv1.Forward(x, src, dst).ELU(1), src, dst)
	})
}

// gatScatter is gat with lists of edges in place of a pattern.
func gatScatter(p *port) error {
	model := nn.New(&scatterNet{Conv1: newScatterConv(5, 4, 2), Conv2: newScatterConv(8, 3, 1)})
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	optimizer := optim.Adam(model.Parameters(), optim.LR(0.02), optim.WeightDecay(5e-4))
	p.train(optimizer)
	defer optimizer.Release()

	epoch := func() error {
		g := p.graph()
		defer g.Release()
		src := autograd.FromSlice(g, []int64{0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 1, 2, 3, 4, 7, 5, 6, 7, 7, 0, 0, 1, 2, 3, 4, 5, 6, 7})
		dst := autograd.FromSlice(g, []int64{1, 2, 3, 4, 7, 5, 6, 7, 0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 0, 1, 2, 3, 4, 5, 6, 7})
		x := p.data(g, 0.3, 1, 8, 5)
		y := autograd.FromSlice(g, []int64{0, 0, 1, 1, 2, 1, 2, 0})
		trainMask := autograd.FromSlice(g, []bool{true, true, true, false, true, true, false, false})
		optimizer.ZeroGrad()
		out := model.Forward(x, src, dst).Keep()
		loss := out.Index(trainMask).CrossEntropy(y.Index(trainMask))
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		validation := out.Index(trainMask.Not()).CrossEntropy(y.Index(trainMask.Not()))
		return p.losses(g, loss, validation, out.ArgMax(1, false).Eq(y).To(tensor.Float64).Mean(nil, false))
	}
	for range 8 {
		if err := epoch(); err != nil {
			return err
		}
	}
	return nil
}
