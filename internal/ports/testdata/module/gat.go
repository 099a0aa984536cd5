package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/sparse"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["gat"] = gat }

// gatConv lets each node attend to those from which edges come.
type gatConv struct {
	nn.Base
	Lin                  *nn.LinearLayer
	AttSrc, AttDst, Bias *autograd.Parameter

	heads, outputs int
}

func newGATConv(inputs, outputs, heads int) *gatConv {
	return nn.New(&gatConv{
		Lin:    nn.Linear(inputs, heads*outputs, nn.NoBias()),
		AttSrc: autograd.DeclareParameter("att_src", nn.XavierUniform(1), 1, heads, outputs),
		AttDst: autograd.DeclareParameter("att_dst", nn.XavierUniform(1), 1, heads, outputs),
		Bias:   autograd.DeclareParameter("bias", nn.Zeros, heads*outputs),
		heads:  heads, outputs: outputs,
	})
}

func (m *gatConv) Forward(x *autograd.Variable, edges *sparse.Pattern) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		h := m.Lin.Forward(x).View(-1, m.heads, m.outputs)
		src, dst := h.Mul(g.Param(m.AttSrc)).Sum([]int{-1}, false), h.Mul(g.Param(m.AttDst)).Sum([]int{-1}, false)
		e := edges.OfCols(src).Add(edges.OfRows(dst)).LeakyReLU(0.2)
		return edges.MatMul(edges.Softmax(e), h).Reshape(x.Dim(0), -1).Add(g.Param(m.Bias))
	})
}

type gatNet struct {
	nn.Base
	Conv1, Conv2 *gatConv
}

func (m *gatNet) Forward(x *autograd.Variable, edges *sparse.Pattern) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		return m.Conv2.Forward(m.Conv1.Forward(x, edges).ELU(1), edges)
	})
}

// gat is a graph attention network, which learns the classes of some nodes.
func gat(p *port) error {
	src := []int64{0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 1, 2, 3, 4, 7, 5, 6, 7, 7, 0, 0, 1, 2, 3, 4, 5, 6, 7}
	dst := []int64{1, 2, 3, 4, 7, 5, 6, 7, 0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 0, 1, 2, 3, 4, 5, 6, 7}
	exec, err := tensor.On(p.dev)
	if err != nil {
		return err
	}
	edges, err := sparse.COO(exec, 8, 8, dst, src)
	if err != nil {
		return err
	}
	defer edges.Release()
	p.hold(edges.Row(), edges.Col())
	model := nn.New(&gatNet{Conv1: newGATConv(5, 4, 2), Conv2: newGATConv(8, 3, 1)})
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
		x := p.data(g, 0.3, 1, 8, 5)
		y := autograd.FromSlice(g, []int64{0, 0, 1, 1, 2, 1, 2, 0})
		trainMask := autograd.FromSlice(g, []bool{true, true, true, false, true, true, false, false})
		optimizer.ZeroGrad()
		out := model.Forward(x, edges).Keep()
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
