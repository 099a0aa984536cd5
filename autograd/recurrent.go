package autograd

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// RecurrentWeights are the weights of one direction of one layer of a recurrent network, for I inputs and H units: G is 4 for
// LSTM and 3 for GRU.
type RecurrentWeights struct {
	IH, HH         *Variable // [G*H, I] and [G*H, H]
	BiasIH, BiasHH *Variable // [G*H], or nil for none
}

// LSTM runs one direction of one layer over the whole sequence v, [T, B, I], from the state h and the cell c, [B, H]; with reverse
// from its end. It returns the output [T, B, H], the last state and the last cell. The formulas are PyTorch's (torch.nn.LSTM).
// Saves the gates and cells of all steps, and, for the gradients that are needed, v, its output, h, c and the weights. Without
// gradients a cell takes the memory of one step.
func (v *Variable) LSTM(h, c *Variable, w RecurrentWeights, reverse bool) (out, last, lastCell *Variable) {
	var rs []*Variable
	if w.BiasIH == nil {
		rs = lstm.applyAll(3, recurrentArg{reverse: reverse}, v, h, c, w.IH, w.HH)
	} else {
		rs = lstmBias.applyAll(3, recurrentArg{reverse: reverse}, v, h, c, w.IH, w.HH, w.BiasIH, w.BiasHH)
	}
	return rs[0], rs[1], rs[2]
}

// GRU is LSTM for gated recurrent units (torch.nn.GRU), which have no cell. Saves the gates of all steps and the state's share
// of the gate n, and as LSTM the rest.
func (v *Variable) GRU(h *Variable, w RecurrentWeights, reverse bool) (out, last *Variable) {
	var rs []*Variable
	if w.BiasIH == nil {
		rs = gru.applyAll(2, recurrentArg{gru: true, reverse: reverse}, v, h, w.IH, w.HH)
	} else {
		rs = gruBias.applyAll(2, recurrentArg{gru: true, reverse: reverse}, v, h, w.IH, w.HH, w.BiasIH, w.BiasHH)
	}
	return rs[0], rs[1]
}

type recurrentArg struct{ gru, reverse bool }

var (
	lstm     = defineRecurrent("lstm", false, false)
	lstmBias = defineRecurrent("lstm_bias", false, true)
	gru      = defineRecurrent("gru", true, false)
	gruBias  = defineRecurrent("gru_bias", true, true)
)

// defineRecurrent adds an operation whose inputs are the sequence, the state, the cell if there is one, the weights and the
// biases. Each rule says what of the forward pass its gradient needs: what flows back through the steps is always needed.
func defineRecurrent(name string, isGRU, bias bool) *op {
	const x, h, c = 0, 1, 2
	ih, hh := 3, 4
	if isGRU {
		ih, hh = 2, 3
	}
	steps := stash | input(hh)
	if isGRU {
		steps |= output | input(h)
	} else {
		steps |= input(c)
	}
	rules := make([]rule, hh+1)
	for i := range rules {
		rules[i].uses = steps
	}
	rules[x].uses |= input(ih)
	rules[ih].uses |= input(x)
	rules[hh].uses |= output | input(h)
	if bias {
		rules = append(rules, rule{uses: steps}, rule{uses: steps})
	}
	o := define(name, nil, rules...)
	o.several, o.joints = recurrentForward, recurrentGrad
	return o
}

// recurrent puts the tensors of a node's inputs in their places.
func (n *node) recurrent(tensorOf func(i int) *tensor.Tensor) *tensor.Recurrent {
	a := n.arg.(recurrentArg)
	r := &tensor.Recurrent{GRU: a.gru, Reverse: a.reverse, X: tensorOf(0), H0: tensorOf(1)}
	i := 2
	if !r.GRU {
		r.C0 = tensorOf(2)
		i = 3
	}
	r.WeightIH, r.WeightHH = tensorOf(i), tensorOf(i+1)
	if i+3 < len(n.in) {
		r.BiasIH, r.BiasHH = tensorOf(i+2), tensorOf(i+3)
	}
	return r
}

func recurrentForward(n *node) ([]*tensor.Tensor, error) {
	keep := n.differentiable()
	s, err := n.recurrent(n.tensor).Forward(keep)
	if err != nil {
		return nil, err
	}
	if keep {
		n.stash(s.Gates)
		n.stash(s.Inner)
	}
	if s.C == nil {
		return []*tensor.Tensor{s.Output, s.H}, nil
	}
	return []*tensor.Tensor{s.Output, s.H, s.C}, nil
}

// recurrentGrad computes all gradients in one pass over the steps. What was not saved is nil, and not needed.
func recurrentGrad(n *node, gs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r := n.recurrent(n.savedInput)
	s := &tensor.RecurrentState{Output: n.savedOutput(), Gates: n.stashed(0), Inner: n.stashed(1)}
	var dC *tensor.Tensor
	if !r.GRU {
		dC = gs[2]
	}
	i := 2
	if !r.GRU {
		i = 3
	}
	bias := i+3 < len(n.in)
	wants := training.Wants{
		X: n.flows(0), WeightIH: n.flows(i), WeightHH: n.flows(i + 1), Bias: bias && (n.flows(i+2) || n.flows(i+3)),
	}
	g, err := gradients.Recurrent(r, s, gs[0], gs[1], dC, wants, !n.g.retaining)
	if err != nil {
		return nil, err
	}
	all := []*tensor.Tensor{g.X, g.H0}
	if !r.GRU {
		all = append(all, g.C0)
	}
	all = append(all, g.WeightIH, g.WeightHH)
	if bias {
		all = append(all, g.BiasIH, g.BiasHH)
	}
	return all, nil
}
