package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// DefaultIgnoreIndex is PyTorch's default for the class that losses leave out.
const DefaultIgnoreIndex = -100

// ClassLossOption changes CrossEntropy and NLLLoss.
type ClassLossOption func(*classLoss)

// IgnoreIndex is the class whose rows have no loss and no gradient, and are not counted in the mean.
func IgnoreIndex(class int64) ClassLossOption { return func(c *classLoss) { c.ignore = class } }

// Reduce chooses the reduction; the default is the mean over the rows that are not ignored, weighted by ClassWeights.
func Reduce(r Reduction) ClassLossOption { return func(c *classLoss) { c.reduction = r } }

// ClassWeights says what a row of each class counts: [C], of the type of the logits. A gradient flows to it
// where the target is probabilities, as in PyTorch, and not where it is classes.
func ClassWeights(w *Variable) ClassLossOption { return func(c *classLoss) { c.weights = w } }

// LabelSmoothing spreads this share of each row's target over all classes. NLLLoss has none.
func LabelSmoothing(share float64) ClassLossOption { return func(c *classLoss) { c.smoothing = share } }

// classLoss is the argument of the losses whose targets are classes.
type classLoss struct {
	ignore    int64
	reduction Reduction
	smoothing float64
	weights   *Variable // nil for 1
}

func newClassLoss(opts []ClassLossOption) classLoss {
	c := classLoss{ignore: DefaultIgnoreIndex}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// inputs are the operands of the operations: the weights are the last, if there are any.
func (c classLoss) inputs(v, classes *Variable) []*Variable {
	if c.weights == nil {
		return []*Variable{v, classes}
	}
	return []*Variable{v, classes, c.weights.Detach()}
}

// CrossEntropy is the loss of logits v, [N, C] or [C] or [N, C, d1, ...], against target: -log(softmax(v)) at each row's class,
// reduced, where target is of type int64 and shape [N] or [] or [N, d1, ...]; or -sum(target * log(softmax(v))) where
// target is of a floating-point type and v's shape, with a probability for each class.
//
// Against classes, softmax and loss are one operation. It saves v, the classes, and two numbers for each row. Backward writes
// the gradient over v if v is the result of an operation and nobody else holds it: then no second tensor of its size is
// ever made. Half precision is computed in float32, and rounded at the end, unless the graph's caster wants it otherwise
// (Widener).
func (v *Variable) CrossEntropy(target *Variable, opts ...ClassLossOption) *Variable {
	c := newClassLoss(opts)
	if target != nil && target.dtype.IsFloat() {
		return v.crossEntropyOfProbabilities(target, c)
	}
	return byRows(crossEntropy, c, v, target)
}

var crossEntropy = variadic(define("cross_entropy", crossEntropyForward,
	rule{uses: input(0) | input(1) | input(2) | stash, grad: crossEntropyGrad}))

// tensors is what package tensor wants to know of the loss.
func (c classLoss) tensors(weight *tensor.Tensor) tensor.ClassLoss {
	return tensor.ClassLoss{Weight: weight, LabelSmoothing: c.smoothing, IgnoreIndex: c.ignore}
}

// crossEntropyForward stashes lse and, for the mean, the sum of the weights of the rows, which stays on the device: the host
// does not wait for it.
func crossEntropyForward(n *node) (*tensor.Tensor, error) {
	c := n.arg.(classLoss)
	var weight *tensor.Tensor
	if len(n.in) > 2 {
		weight = n.tensor(2)
	}
	loss, lse, counts, err := tensor.CrossEntropy(n.tensor(0), n.tensor(1), c.tensors(weight))
	if err != nil {
		return nil, err
	}
	n.stash(lse)
	defer counts.Release()
	if c.reduction == MeanReduction {
		loss, err = n.weightedMean(loss, counts)
	} else {
		loss, err = c.reduction.reduce(loss)
	}
	if err != nil || n.wide {
		return loss, err
	}
	return after(loss, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.To(n.tensor(0).DType()) })
}

// weightedMean is the sum of the rows' losses, which it takes over, by that of their weights, which it stashes.
func (n *node) weightedMean(loss, weights *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	w.do(loss, nil)
	count := w.do(weights.Sum(nil, false))
	mean := w.do(w.do(loss.Sum(nil, false)).Div(count))
	if w.err != nil {
		return w.result(nil, nil)
	}
	n.stash(count.Retain())
	return w.result(mean.To(loss.DType()))
}

// rowGrads is the gradient of each row's loss from that of the reduced loss, which is a mean if there is a count.
func (c classLoss) rowGrads(w *work, g, count *tensor.Tensor, rows tensor.Shape) *tensor.Tensor {
	if c.reduction == MeanReduction {
		dt := g.DType()
		g = w.do(w.do(g.Div(count)).To(dt))
	}
	if w.err != nil {
		return nil
	}
	return w.do(g.Expand(rows...))
}

func crossEntropyGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	c := n.arg.(classLoss)
	var w work
	classes, lse := n.savedInput(1), n.stashed(0)
	use := c.tensors(n.savedInput(2))
	rows := c.rowGrads(&w, w.do(g.To(lse.DType())), n.stashed(1), classes.Shape())
	if w.err != nil {
		return w.result(nil, nil)
	}
	if own := n.consume(0); own != nil {
		if err := gradients.CrossEntropyInPlace(own, rows, classes, lse, use); err != nil {
			own.Release()
			return w.result(nil, err)
		}
		return w.result(own, nil)
	}
	return w.result(gradients.CrossEntropy(rows, n.savedInput(0), classes, lse, use))
}

// crossEntropyOfProbabilities is made of operations, as in PyTorch. They save log(softmax(v)) and the smoothed target.
func (v *Variable) crossEntropyOfProbabilities(target *Variable, c classLoss) *Variable {
	if v == nil || !v.Alive() || !target.Alive() {
		return crossEntropy.apply(c, v, target) // says what is wrong
	}
	if !v.Shape().Equal(target.Shape()) || v.NDim() == 0 || c.ignore >= 0 {
		return v.g.Refuse("cross_entropy", c.refusesProbabilities(v, target), v, target)
	}
	in := []*Variable{v, target}
	return v.g.namedOne(crossEntropy.name, in, func() *Variable {
		dim := min(1, v.NDim()-1)
		classes := v.Dim(dim)
		if c.smoothing > 0 {
			target = target.MulScalar(1 - c.smoothing).AddScalar(c.smoothing / float64(max(classes, 1)))
		}
		if c.weights != nil {
			shape := []int{classes}
			for range v.NDim() - 1 - dim {
				shape = append(shape, 1)
			}
			target = target.Mul(c.weights.Reshape(shape...))
		}
		loss := v.LogSoftmax(dim).Mul(target).Sum([]int{dim}, false).Neg()
		switch c.reduction {
		case MeanReduction:
			return loss.Mean(nil, false)
		case SumReduction:
			return loss.Sum(nil, false)
		}
		return loss
	})
}

// byRows brings logits and classes of any rank to [N, C] and [N], applies o, and gives the result of NoReduction the shape
// of the classes.
func byRows(o *op, c classLoss, v, classes *Variable) *Variable {
	if v.Alive() && classes.Alive() && v.g == classes.g && !fitsClasses(v, classes) {
		return v.g.Refuse(o.name, misfitClasses(o, v, classes), v, classes)
	}
	if v == nil || classes == nil || v.NDim() == 2 && c.weights == nil || !v.Alive() {
		return o.apply(c, v, classes)
	}
	in := []*Variable{v, classes}
	return v.g.namedOne(o.name, in, func() *Variable {
		rows := v
		if v.NDim() > 2 {
			order := []int{0}
			for i := 2; i < v.NDim(); i++ {
				order = append(order, i)
			}
			rows = v.Permute(append(order, 1)...)
		}
		width := v.Dim(min(1, v.NDim()-1))
		shape := classes.Shape().Clone()
		if v.NDim() != 2 {
			rows, classes = rows.Reshape(v.Len()/max(width, 1), width), classes.Reshape(classes.Len())
		}
		loss := o.apply(c, c.inputs(rows, classes)...)
		if c.reduction == NoReduction {
			loss = loss.Reshape(shape...)
		}
		return loss
	})
}

// refusesProbabilities says why a target of a floating-point type is not one of probabilities.
func (c classLoss) refusesProbabilities(v, target *Variable) error {
	shapes := []tensor.Shape{v.Shape().Clone(), target.Shape().Clone()}
	if c.ignore >= 0 && v.Shape().Equal(target.Shape()) && v.NDim() > 0 {
		return &tensor.ValueError{Op: "CrossEntropy", Detail: fmt.Sprintf("IgnoreIndex(%d): probabilities have no class to ignore", c.ignore)}
	}
	return &tensor.ShapeError{Op: "CrossEntropy", Shapes: shapes, Detail: fmt.Sprintf(
		"a %s target holds probabilities and has the shape of the logits; a target of classes is int64 (Variable.To) of shape %v",
		target.dtype, classShape(v))}
}

// classShape is the shape that classes have for logits v.
func classShape(v *Variable) tensor.Shape {
	switch s := v.Shape(); len(s) {
	case 0, 1:
		return tensor.Shape{}
	default:
		return append(tensor.Shape{s[0]}, s[2:]...)
	}
}

// fitsClasses reports whether classes have the shape of classShape.
func fitsClasses(v, classes *Variable) bool {
	n := v.NDim()
	if n == 0 || classes.NDim() != n-1 {
		return false
	}
	for i := range classes.NDim() {
		if classes.Dim(i) != v.Dim(i+min(i, 1)) {
			return false
		}
	}
	return true
}

// misfitClasses says which classes fit.
func misfitClasses(o *op, v, classes *Variable) error {
	name := map[*op]string{crossEntropy: "CrossEntropy", nll: "NLLLoss"}[o]
	e := &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{v.Shape().Clone(), classes.Shape().Clone()}}
	if v.NDim() == 0 {
		e.Detail = "logits have no dimension of classes; want [N, C], [C] or [N, C, d1, ...]"
		return e
	}
	e.Detail = fmt.Sprintf("the classes have shape %v, want %v: dimension %d of the logits holds the %d classes of each",
		classes.Shape(), classShape(v), min(v.NDim()-1, 1), v.Dim(min(v.NDim()-1, 1)))
	return e
}
