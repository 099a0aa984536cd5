package nn

import (
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// steps runs one direction of one layer step by step, for what has no kernel: plain units and projections. x is [T, B, features].
func (l *RNNLayer) steps(x, h, c *autograd.Variable, d *rnnDirection, p *padding) (out, last, lastCell *autograd.Variable) {
	g := x.Graph()
	w, hr := d.weights(g, l), optional(g, l, "weight_hr", d.hr)
	n := x.Dim(0)
	if n == 0 && g.Err() == nil {
		failed := g.Refuse(strings.ToLower(l.kind()), shapeError(l.String(), x, "the sequence has no steps"), x)
		return failed, failed, c
	}
	cast := g.CastFor(l.castAs(), x, h, c, w.IH, w.HH, w.BiasIH, w.BiasHH, hr)
	x, h, c, hr = cast[0], cast[1], cast[2], cast[7]
	w = autograd.RecurrentWeights{IH: cast[3], HH: cast[4], BiasIH: cast[5], BiasHH: cast[6]}
	fromInputs := x.Linear(w.IH, w.BiasIH) // of all steps at once
	outs := make([]*autograd.Variable, n)
	for i := range outs {
		t := i
		if d.reverse {
			t = n - 1 - i
		}
		nextH, nextC := l.unitStep(fromInputs.Select(0, t), h, c, w)
		if hr != nil {
			nextH = nextH.Linear(hr, nil)
		}
		h, c, outs[t] = p.after(t, h, nextH), p.after(t, c, nextC), p.output(t, nextH)
		if g.Err() != nil {
			return h, h, c
		}
	}
	return autograd.Stack(outs, 0), h, c
}

// unitStep is one step, of the inputs times their weights.
func (l *RNNLayer) unitStep(x, h, c *autograd.Variable, w autograd.RecurrentWeights) (nextH, nextC *autograd.Variable) {
	state := h.Linear(w.HH, w.BiasHH)
	gate := func(v *autograd.Variable, i int) *autograd.Variable { return v.Narrow(-1, i*l.Units, l.Units) }
	switch l.unit {
	case gruUnits:
		reset := gate(x, 0).Add(gate(state, 0)).Sigmoid()
		update := gate(x, 1).Add(gate(state, 1)).Sigmoid()
		fresh := gate(x, 2).Add(reset.Mul(gate(state, 2))).Tanh()
		return fresh.Add(update.Mul(h.Sub(fresh))), nil
	case lstmUnits:
		all := x.Add(state)
		kept := gate(all, 1).Sigmoid().Mul(c)
		nextC = kept.Add(gate(all, 0).Sigmoid().Mul(gate(all, 2).Tanh()))
		return gate(all, 3).Sigmoid().Mul(nextC.Tanh()), nextC
	}
	if l.config.relu {
		return x.Add(state).ReLU(), nil
	}
	return x.Add(state).Tanh(), nil
}

// padding says which steps of a batch are behind the end of their sequence. A nil one has none.
type padding struct {
	inside *autograd.Variable // [T, B, 1], of type bool, true for the steps of a sequence
	zero   *autograd.Variable // of x's type
}

// paddingOf is the padding of x, [T, B, features].
func paddingOf(g *autograd.Graph, x *autograd.Variable, lengths []int) *padding {
	steps, some := x.Dim(0), false
	for _, n := range lengths {
		some = some || n < steps
	}
	if !some || g.Err() != nil {
		return nil
	}
	inside := make([]bool, steps*len(lengths))
	for i := range inside {
		inside[i] = i/len(lengths) < lengths[i%len(lengths)]
	}
	return &padding{inside: g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.FromSlice(e.Owned(), inside, steps, len(lengths), 1)
	})}
}

// cleared is x with zeros in its padding: what is there, a NaN among others, reaches nothing.
func (p *padding) cleared(x *autograd.Variable) *autograd.Variable {
	if p == nil {
		return x
	}
	return autograd.Where(p.inside, x, p.zero)
}

// after is the state after step t.
func (p *padding) after(t int, before, next *autograd.Variable) *autograd.Variable {
	if p == nil || next == nil {
		return next
	}
	return autograd.Where(p.inside.Select(0, t), next, before)
}

// output is that of step t.
func (p *padding) output(t int, next *autograd.Variable) *autograd.Variable {
	if p == nil {
		return next
	}
	return autograd.Where(p.inside.Select(0, t), next, p.zero)
}

// wrongLengths refuses lengths that are not those of x's sequences.
func (l *RNNLayer) wrongLengths(x *autograd.Variable, lengths []int) error {
	steps, batch := x.Dim(0), x.Dim(1)
	switch {
	case x.NDim() != 3:
		return shapeError(l.String(), x, "lengths are for batches, %s", l.inputShape())
	case l.config.batchFirst:
		steps, batch = batch, steps
	}
	if len(lengths) != batch {
		return argumentErr(l.String(), "%d lengths for a batch of %d sequences", len(lengths), batch)
	}
	if steps == 0 {
		return shapeError(l.String(), x, "the sequences have no steps")
	}
	for i, n := range lengths {
		if n < 1 || n > steps {
			return argumentErr(l.String(), "the length of sequence %d is %d; it must be in 1..%d", i, n, steps)
		}
	}
	return nil
}
