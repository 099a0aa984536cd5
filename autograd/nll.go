package autograd

import "github.com/cistern-ml/cistern/tensor"

// NLLLoss is CrossEntropy for v that already holds logarithms of probabilities. Saves the classes and, with ClassWeights, a
// weight for each row.
func (v *Variable) NLLLoss(classes *Variable, opts ...ClassLossOption) *Variable {
	return byRows(nll, newClassLoss(opts), v, classes)
}

var nll = variadic(define("nll_loss", nllForward, rule{uses: input(1) | stash, grad: nllGrad}))

// nllForward stashes the weight of each row if there are weights, and then for the mean the sum of those that count.
func nllForward(n *node) (*tensor.Tensor, error) {
	c := n.arg.(classLoss)
	var w work
	rows := w.do(tensor.NLL(n.tensor(0), n.tensor(1), c.ignore))
	if w.err == nil && len(n.in) < 3 && c.reduction != MeanReduction {
		return w.result(c.reduction.reduce(rows.Retain()))
	}
	weights := w.do(c.rowWeights(n))
	if w.err == nil && len(n.in) > 2 {
		rows = w.do(rows.Mul(weights))
		n.stash(weights.Retain())
	}
	if w.err != nil {
		return w.result(nil, nil)
	}
	if c.reduction == MeanReduction {
		return w.result(n.weightedMean(rows.Retain(), weights))
	}
	return w.result(c.reduction.reduce(rows.Retain()))
}

// rowWeights is the weight of each row's class, and 0 for rows to ignore.
func (c classLoss) rowWeights(n *node) (*tensor.Tensor, error) {
	logp, classes := n.tensor(0), n.tensor(1)
	if len(n.in) < 3 {
		return classes.NeScalar(float64(c.ignore))
	}
	var w work
	counted := w.do(classes.NeScalar(float64(c.ignore)))
	if w.err != nil {
		return w.result(nil, nil)
	}
	// The class to ignore is no index: its rows take the weight of class 0, and then lose it.
	index := w.do(keepWhere(counted, classes))
	picked := w.do(n.tensor(2).IndexSelect(0, index))
	if w.err == nil && picked.DType() != logp.DType() {
		w.fail(&tensor.DTypeError{Op: "NLLLoss", DTypes: []tensor.DType{logp.DType(), picked.DType()},
			Detail: "weights are of the type of the probabilities"})
	}
	return w.result(keepWhere(counted, picked))
}

func nllGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	c := n.arg.(classLoss)
	var w work
	classes, stashes := n.savedInput(1), 0
	var weights *tensor.Tensor
	if len(n.in) > 2 {
		weights, stashes = n.stashed(0), 1
	}
	rows := c.rowGrads(&w, g, n.stashed(stashes), classes.Shape())
	if w.err == nil && weights != nil {
		rows = w.do(rows.Mul(weights))
	}
	if w.err != nil {
		return w.result(nil, nil)
	}
	return w.result(gradients.NLL(rows, classes, n.in[0].Dim(1), c.ignore))
}
