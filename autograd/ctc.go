package autograd

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

var ctcLoss = composite{name: "ctc_loss", wide: true}

// CTC is how CTCLoss counts. The zero value is PyTorch's default.
type CTC struct {
	Blank        int  // the class that stands for no label
	ZeroInfinity bool // the loss of what no path can give is 0, not infinite
}

// CTCLoss is the connectionist temporal classification loss of the logarithms of probabilities v, [T, N, C] or [T, C], against labels: the negative
// logarithm of the sum of the probabilities of all paths that give the labels when repetitions and then blanks are taken out of them. targets, int64 or
// int32, is [N, S], or all labels one after the other, [sum]; inputs is how many of the T steps each of the N sequences has, at least 1, and lengths how many
// labels. The mean is over losses that are divided by their number of labels, or by 1.
//
// It is made of a few operations for each step, and saves about 6*T*N*(2S+1) numbers. The gradient is the loss's own, which PyTorch's is only after the
// gradient of LogSoftmax: it adds exp(v). That of an infinite loss is 0, where PyTorch's is NaN.
func (v *Variable) CTCLoss(targets *Variable, inputs, lengths []int, c CTC, r Reduction) *Variable {
	in := []*Variable{v, targets}
	var l *labelling
	return ctcLoss.run(in, func() (err error) {
		if r > NoReduction {
			return fmt.Errorf("%s is not a reduction of this loss", r)
		}
		l, err = labelled(v, targets, inputs, lengths, c.Blank)
		return firstError(ctcLoss.floats(v), err)
	}, func(in []*Variable) *Variable {
		x := in[0]
		if x.dtype.Size() == 2 {
			x = x.To(tensor.Float32)
		}
		if v.NDim() == 2 {
			x = x.Unsqueeze(1)
		}
		loss := l.likelihood(x, in[1]).Neg()
		if !loss.Alive() {
			return loss
		}
		without := math.Inf(1) // a path
		if c.ZeroInfinity {
			without = 0
		}
		loss = loss.MaskedFill(loss.GtScalar(-impossible/10), without)
		switch {
		case r == MeanReduction:
			return loss.Div(l.counts(loss)).Mean(nil, false)
		case v.NDim() == 2 && r == NoReduction:
			return loss.Reshape()
		}
		return loss.reduced(r)
	})
}

// impossible stands for the logarithm of 0, so that sums have gradients.
const impossible = -1e30

// labelling is the labels of a batch with blanks around each, of which a path is at one at each step: width of them for each sequence.
type labelling struct {
	blank, width    int
	inputs, lengths []int
	at              []int64 // [N, width]: the place of each among the blank and all targets
}

// labelled checks lengths and targets.
func labelled(v, targets *Variable, inputs, lengths []int, blank int) (*labelling, error) {
	batch := 1
	if v.NDim() == 3 {
		batch = v.Dim(1)
	}
	steps, classes := v.Dim(0), v.Dim(-1)
	switch {
	case v.NDim() != 2 && v.NDim() != 3 || steps == 0 || batch == 0:
		return nil, ctcLoss.shapes("logarithms of probabilities are [T, N, C] or [T, C]", v, targets)
	case targets.dtype != tensor.Int64 && targets.dtype != tensor.Int32:
		return nil, &tensor.DTypeError{Op: ctcLoss.name, DTypes: dtypesOf([]*Variable{v, targets}), Detail: "labels are int64 or int32"}
	case blank < 0 || blank >= classes:
		return nil, ctcLoss.values("the blank is %d of %d classes", blank, classes)
	case len(inputs) != batch || len(lengths) != batch:
		return nil, ctcLoss.values("%d and %d lengths for %d sequences", len(inputs), len(lengths), batch)
	}
	l := &labelling{blank: blank, inputs: inputs, lengths: lengths}
	sum, longest := 0, 0
	for i, n := range lengths {
		if n < 0 || n > targets.Len() || inputs[i] < 1 || inputs[i] > steps {
			return nil, ctcLoss.values("sequence %d has %d of %d steps, and %d labels", i, inputs[i], steps, n)
		}
		sum, longest = sum+n, max(longest, n)
	}
	apart := 0 // from one sequence to the next
	switch n := targets.NDim(); {
	case n == 2 && targets.Dim(0) == batch && targets.Dim(1) >= longest:
		apart = targets.Dim(1)
	case n == 1 && (targets.Len() == sum || batch == 1 && v.NDim() == 2):
	default:
		return nil, ctcLoss.shapes(fmt.Sprintf("targets are [N, S], S at least %d, or [%d]", longest, sum), v, targets)
	}
	l.width = 2*longest + 1
	l.at = make([]int64, batch*l.width)
	from := 0
	for i, n := range lengths {
		for s := range n {
			l.at[i*l.width+2*s+1] = int64(1 + from + s)
		}
		if apart > 0 {
			from += apart
		} else {
			from += n
		}
	}
	return l, nil
}

// likelihood is the logarithm of the probability of each sequence's labels, [N].
func (l *labelling) likelihood(x, targets *Variable) *Variable {
	g, steps, batch := x.g, x.Dim(0), x.Dim(1)
	all := Cat([]*Variable{g.Full(float64(l.blank), tensor.Int64, 1), targets.Reshape(targets.Len()).To(tensor.Int64)}, 0)
	labels := all.IndexSelect(0, FromSlice(g, l.at)).Reshape(batch, l.width)
	of := x.Gather(2, labels.Unsqueeze(0).Expand(steps, batch, l.width)).Clamp(impossible, math.Inf(1))
	begin := FromSlice(g, l.beyond(2), 1, l.width)
	stays := begin.Expand(batch, l.width) // whom a path does not reach from two places before
	if l.width > 2 {
		same := labels.Narrow(1, 2, l.width-2).Eq(labels.Narrow(1, 0, l.width-2))
		stays = Cat([]*Variable{g.Ones(tensor.Bool, batch, 2), same}, 1)
	}
	sum := of.Select(0, 0).MaskedFill(begin, impossible) // over the paths so far, by where they are
	for t := 1; t < steps && sum.Alive(); t++ {
		sum = l.step(sum, of.Select(0, t), stays, t)
	}
	return l.end(sum)
}

// beyond marks the places from n on.
func (l *labelling) beyond(n int) []bool {
	marks := make([]bool, l.width)
	for i := range marks {
		marks[i] = i >= n
	}
	return marks
}

// step goes to the next step: from the same place, from the one before, or over a blank between two labels that differ.
func (l *labelling) step(sum, of, stays *Variable, t int) *Variable {
	from := []*Variable{sum}
	if l.width > 1 {
		before := sum.Pad([]int{1, -1}, tensor.PadConstant, impossible)
		over := sum.Pad([]int{2, -2}, tensor.PadConstant, impossible).MaskedFill(stays, impossible)
		from = append(from, before, over)
	}
	next := Stack(from, 0).LogSumExp([]int{0}, false).Add(of)
	going, all := make([]bool, len(l.inputs)), true
	for i, n := range l.inputs {
		going[i] = t < n
		all = all && t < n
	}
	if all {
		return next
	}
	return Where(FromSlice(sum.g, going, len(going), 1), next, sum)
}

// end is what the paths come to that end with the last label, or the blank behind it.
func (l *labelling) end(sum *Variable) *Variable {
	n := len(l.lengths)
	last, before, none := make([]int64, n), make([]int64, n), make([]bool, n)
	for i, labels := range l.lengths {
		last[i], before[i], none[i] = int64(2*labels), int64(max(2*labels-1, 0)), labels == 0
	}
	g := sum.g
	at := func(places []int64) *Variable { return sum.Gather(1, FromSlice(g, places, n, 1)).Squeeze(1) }
	return at(last).LogAddExp(at(before).MaskedFill(FromSlice(g, none), impossible))
}

// counts is the numbers of labels, at least 1, in the type of the losses.
func (l *labelling) counts(loss *Variable) *Variable {
	numbers := make([]float64, len(l.lengths))
	for i, n := range l.lengths {
		numbers[i] = float64(max(n, 1))
	}
	return FromSlice(loss.g, numbers).To(loss.dtype)
}
