package autograd

import "github.com/cistern-ml/cistern/tensor"

// DefaultIgnoreIndex is PyTorch's default for the class that losses leave out.
const DefaultIgnoreIndex = -100

// ClassLossOption changes CrossEntropy and NLLLoss.
type ClassLossOption func(*classLoss)

// IgnoreIndex is the class whose rows have no loss and no gradient, and are not counted in the mean.
func IgnoreIndex(class int64) ClassLossOption { return func(c *classLoss) { c.ignore = class } }

// Reduce chooses the reduction; the default is the mean over the rows that are not ignored.
func Reduce(r Reduction) ClassLossOption { return func(c *classLoss) { c.reduction = r } }

// classLoss is the argument of the losses whose targets are classes.
type classLoss struct {
	ignore    int64
	reduction Reduction
}

func newClassLoss(opts []ClassLossOption) classLoss {
	c := classLoss{ignore: DefaultIgnoreIndex}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// CrossEntropy is the loss of logits v, [N, C] or [C] or [N, C, d1, ...], against classes, of type int64 and shape [N] or
// [] or [N, d1, ...]: -log(softmax(v)) at each row's class, reduced. Forward and backward of softmax and loss are one
// operation, which saves the logarithms of the probabilities and the classes.
func (v *Variable) CrossEntropy(classes *Variable, opts ...ClassLossOption) *Variable {
	return byRows(crossEntropy, newClassLoss(opts), v, classes)
}

var crossEntropy = define("cross_entropy", crossEntropyForward,
	rule{uses: input(1) | stash, grad: crossEntropyGrad},
	notDifferentiable("classes are numbers, not quantities"))

func crossEntropyForward(n *node) (*tensor.Tensor, error) {
	logp, err := n.tensor(0).LogSoftmax(-1)
	if err != nil {
		return nil, err
	}
	n.stash(logp)
	return n.arg.(classLoss).forward(n, logp)
}

func crossEntropyGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	logp := n.stashed(0)
	d, err := n.arg.(classLoss).grad(n, n.stashed(1), g)
	if err != nil {
		return nil, err
	}
	return after(d, func(d *tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.LogSoftmaxGrad(d, logp, -1)
	})
}

// NLLLoss is CrossEntropy for v that already holds logarithms of probabilities. Saves the classes.
func (v *Variable) NLLLoss(classes *Variable, opts ...ClassLossOption) *Variable {
	return byRows(nll, newClassLoss(opts), v, classes)
}

var nll = define("nll_loss", nllForward,
	rule{uses: input(1) | stash, grad: nllGrad},
	notDifferentiable("classes are numbers, not quantities"))

func nllForward(n *node) (*tensor.Tensor, error) {
	return n.arg.(classLoss).forward(n, n.tensor(0))
}

func nllGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.arg.(classLoss).grad(n, n.stashed(0), g)
}

// forward is the loss of logp [N, C]. For the mean it stashes the number of rows that count, which stays on the device: the
// host does not wait for it.
func (c classLoss) forward(n *node, logp *tensor.Tensor) (*tensor.Tensor, error) {
	classes := n.tensor(1)
	rows, err := tensor.NLL(logp, classes, c.ignore)
	if err != nil {
		return nil, err
	}
	if c.reduction != MeanReduction {
		return c.reduction.reduce(rows)
	}
	var w work
	w.do(rows, nil)
	counted := w.do(classes.NeScalar(float64(c.ignore)))
	count := w.do(w.do(counted.Sum(nil, false)).To(logp.DType()))
	total := w.do(rows.Sum(nil, false))
	if w.err == nil {
		n.stash(count.Retain())
	}
	return w.result(total.Div(count))
}

// grad is the gradient of the log-probabilities, the node's input 0 or made of it. count is nil unless the loss is a mean.
func (c classLoss) grad(n *node, count, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	classes := n.savedInput(1)
	if c.reduction == MeanReduction {
		g = w.do(g.Div(count))
	}
	if w.err != nil {
		return w.result(nil, nil)
	}
	rows := w.do(g.Expand(classes.Shape()...))
	return w.result(tensor.NLLGrad(rows, classes, n.in[0].Dim(1), c.ignore))
}

// byRows brings logits and classes of any rank to [N, C] and [N], applies o, and gives the result of NoReduction the shape
// of the classes.
func byRows(o *op, c classLoss, v, classes *Variable) *Variable {
	if v == nil || classes == nil || v.NDim() == 2 || !v.Alive() {
		return o.apply(c, v, classes)
	}
	return v.g.Scope(func() *Variable {
		rows := v
		if v.NDim() > 2 {
			order := []int{0}
			for i := 2; i < v.NDim(); i++ {
				order = append(order, i)
			}
			rows = v.Permute(append(order, 1)...)
		}
		width := v.Dim(min(1, v.NDim()-1))
		loss := o.apply(c, rows.Reshape(v.Len()/max(width, 1), width), classes.Reshape(classes.Len()))
		if c.reduction == NoReduction {
			loss = loss.Reshape(classes.Shape()...)
		}
		return loss
	})
}
