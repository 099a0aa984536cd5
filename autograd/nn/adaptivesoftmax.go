package nn

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// AdaptiveLogSoftmaxLayer is a softmax over so many classes that most of them are seldom met (Grave et al., 2017): the most frequent ones, with the
// lowest numbers, are in its head, the others in clusters of the tail, each of which has one place in the head, and is computed only for rows that are in it.
type AdaptiveLogSoftmaxLayer struct {
	Base
	Head *LinearLayer
	Tail []*SequentialModule

	cutoffs []int // where clusters begin, and the number of classes
}

// AdaptiveOption changes how an AdaptiveLogSoftmaxLayer is made.
type AdaptiveOption func(*adaptive)

type adaptive struct {
	div  float64
	bias bool
}

// DivValue divides the width of each cluster of the tail by so much more than that before it; the default is 4.
func DivValue(v float64) AdaptiveOption { return func(a *adaptive) { a.div = v } }

// HeadBias gives the head a bias.
func HeadBias() AdaptiveOption { return func(a *adaptive) { a.bias = true } }

// AdaptiveLogSoftmaxWithLoss makes the layer for inputs [N, in] and so many classes. The head has the classes below the first of cutoffs, which increase
// and are below the number of classes, and a cluster begins at each.
func AdaptiveLogSoftmaxWithLoss(in, classes int, cutoffs []int, opts ...AdaptiveOption) *AdaptiveLogSoftmaxLayer {
	const name = "AdaptiveLogSoftmaxWithLoss"
	a := adaptive{div: 4}
	for _, o := range opts {
		if o != nil {
			o(&a)
		}
	}
	l := &AdaptiveLogSoftmaxLayer{cutoffs: append(slices.Clone(cutoffs), classes)}
	for i, c := range l.cutoffs {
		if c < 1 || i > 0 && c <= l.cutoffs[i-1] || len(cutoffs) == 0 {
			l.mistaken(argumentErr(name, "cutoffs %v of %d classes; they must increase from 1 on, and be below the number of classes", cutoffs, classes))
			l.Head = Linear(in, 1)
			return New(l)
		}
	}
	if !(a.div > 0) || math.IsInf(a.div, 0) {
		l.mistaken(argumentErr(name, "the divisor is %v; it must be above 0", a.div))
		a.div = 1
	}
	var bias []LayerOption
	if !a.bias {
		bias = []LayerOption{NoBias()}
	}
	l.Head = Linear(in, cutoffs[0]+len(cutoffs), bias...)
	for i := range cutoffs {
		width := int(math.Floor(float64(in) / math.Pow(a.div, float64(i+1))))
		l.Tail = append(l.Tail, Sequential(Linear(in, width, NoBias()), Linear(width, l.cutoffs[i+1]-l.cutoffs[i], NoBias())))
	}
	return New(l)
}

// LogProb are the logarithms of the probabilities of all classes, [N, classes], of inputs [N, in].
func (l *AdaptiveLogSoftmaxLayer) LogProb(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := l.refusal(x, nil); err != nil {
			return g.Refuse("log_prob", err, x)
		}
		head := l.Head.Forward(x).LogSoftmax(1)
		first := l.cutoffs[0]
		parts := []*autograd.Variable{head.Narrow(1, 0, first)}
		for i, t := range l.Tail {
			parts = append(parts, t.Forward(x).LogSoftmax(1).Add(head.Narrow(1, first+i, 1)))
		}
		return autograd.Cat(parts, 1)
	})
}

// Predict are the most probable classes, [N] of int64, of inputs [N, in].
func (l *AdaptiveLogSoftmaxLayer) Predict(x *autograd.Variable) *autograd.Variable {
	return l.LogProb(x).ArgMax(1, false)
}

// Forward is, for inputs [N, in] and classes [N] of int64, the logarithm of the probability of each row's class, [N], and the mean of that, negative, as
// the loss. An input [in] with a class without dimensions is one row. It reads the classes, for which it waits for the device; on a simulated one, which
// has none, it fails with a *tensor.ValuesError.
func (l *AdaptiveLogSoftmaxLayer) Forward(x, target *autograd.Variable) (output, loss *autograd.Variable) {
	if l == nil {
		failed := x.Graph().Refuse("forward", nilLayer[AdaptiveLogSoftmaxLayer](), x)
		return failed, failed
	}
	l.Scopes(x, func(g *autograd.Graph) []*autograd.Variable {
		if err := l.refusal(x, target); err != nil {
			output = g.Refuse("adaptive_log_softmax", err, x, target)
		} else if x.NDim() == 1 {
			output = l.rows(x.Unsqueeze(0), target.Unsqueeze(0)).Squeeze(0)
		} else {
			output = l.rows(x, target)
		}
		loss = output.Neg().Mean(nil, false)
		return []*autograd.Variable{output, loss}
	})
	return output, loss
}

// rows is Forward's output: places of the head for all rows, and beside it what the clusters add to those that are in them.
func (l *AdaptiveLogSoftmaxLayer) rows(x, target *autograd.Variable) *autograd.Variable {
	g := x.Graph()
	if !g.Exec().Computes() && target.Len() > 0 { // how many rows are in a cluster
		return g.Refuse("adaptive_log_softmax", &tensor.ValuesError{Op: "AdaptiveLogSoftmaxWithLoss", Device: g.Device().ID()}, x, target)
	}
	classes, err := autograd.Values[int64](target)
	if err != nil {
		return g.Refuse("adaptive_log_softmax", err, x, target)
	}
	places := make([]int64, len(classes))
	members, within := make([][]int64, len(l.Tail)), make([][]int64, len(l.Tail))
	for row, c := range classes {
		if c < 0 || c >= int64(l.cutoffs[len(l.Tail)]) {
			return g.Refuse("adaptive_log_softmax", argumentErr("AdaptiveLogSoftmaxWithLoss", "row %d has class %d of %d", row, c, l.cutoffs[len(l.Tail)]), x, target)
		}
		places[row] = c
		if i := l.cluster(c); i >= 0 {
			places[row] = int64(l.cutoffs[0] + i)
			members[i], within[i] = append(members[i], int64(row)), append(within[i], c-int64(l.cutoffs[i]))
		}
	}
	column := func(list []int64) *autograd.Variable { return autograd.FromSlice(g, list, len(list), 1) }
	out := l.Head.Forward(x).LogSoftmax(1).Gather(1, column(places)).Squeeze(1)
	for i, t := range l.Tail {
		if len(members[i]) > 0 {
			rows := column(members[i]).Squeeze(1)
			out = out.IndexAdd(0, rows, t.Forward(x.IndexSelect(0, rows)).LogSoftmax(1).Gather(1, column(within[i])).Squeeze(1))
		}
	}
	return out
}

// cluster is the number of the cluster of a class, -1 for the head.
func (l *AdaptiveLogSoftmaxLayer) cluster(class int64) int {
	i := -1
	for i+1 < len(l.Tail) && class >= int64(l.cutoffs[i+1]) {
		i++
	}
	return i
}

// refusal says what is wrong with the layer or its inputs. target is nil where there is none.
func (l *AdaptiveLogSoftmaxLayer) refusal(x, target *autograd.Variable) error {
	const name = "AdaptiveLogSoftmaxWithLoss"
	if len(l.cutoffs) != len(l.Tail)+1 || l.Head == nil || slices.Contains(l.Tail, nil) {
		return argumentErr(name, "the head or a cluster of the tail is missing")
	}
	if !x.Alive() {
		return nil // an error already
	}
	want := size(l.Head.Weight, 1)
	switch n := x.NDim(); {
	case n != 2 && (n != 1 || target == nil) || x.Dim(-1) != want:
		return shapeError(name, x, "want [N, %d]", want)
	case !target.Alive():
		return nil
	case !target.Shape().Equal(x.Shape()[:n-1]):
		return &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{x.Shape().Clone(), target.Shape().Clone()}, Detail: "want one class for each row"}
	case target.DType() != tensor.Int64:
		return argumentErr(name, "classes of %s; want int64", target.DType())
	}
	return nil
}

// String is PyTorch's description.
func (l *AdaptiveLogSoftmaxLayer) String() string {
	if l == nil {
		return "nil"
	}
	return Describe("AdaptiveLogSoftmaxWithLoss", l)
}
