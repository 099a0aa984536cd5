package nn

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// packed says how kernels run over sequences of different lengths: the longest first, so that those that are under way at a step are the first of the batch. Between two lengths
// these are the same ones, which is a run of the kernel. What is behind the end of a sequence is never read.
type packed struct {
	order, back *autograd.Variable // of the batch, and what undoes it; nil if it is in order
	runs        []packedRun
	steps       int
	batch       int
}

// packedRun is the steps from..to-1, at which the first sequences are under way.
type packedRun struct{ from, to, active int }

// packedOf is how the kernels run over x, [T, B, features]; nil stands for one run over all.
func packedOf(g *autograd.Graph, x *autograd.Variable, lengths []int) *packed {
	steps, batch := x.Dim(0), len(lengths)
	if g.Err() != nil || !slices.ContainsFunc(lengths, func(n int) bool { return n < steps }) {
		return nil
	}
	order, back := make([]int64, batch), make([]int64, batch)
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(lengths[b], lengths[a]) })
	p := &packed{steps: steps, batch: batch}
	for i, k := range order {
		back[k] = int64(i)
	}
	for i := batch - 1; i >= 0; i-- {
		to, from := lengths[order[i]], 0
		if n := len(p.runs); n > 0 {
			from = p.runs[n-1].to
		}
		if to > from {
			p.runs = append(p.runs, packedRun{from, to, i + 1})
		}
	}
	if !slices.IsSorted(order) {
		p.order, p.back = indices(g, order), indices(g, back)
	}
	return p
}

func indices(g *autograd.Graph, list []int64) *autograd.Variable {
	return g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e.Owned(), list, len(list)) })
}

// picked is v with its dimension dim in another order, v itself for none.
func picked(v *autograd.Variable, dim int, order *autograd.Variable) *autograd.Variable {
	if v == nil || order == nil {
		return v
	}
	return v.IndexSelect(dim, order)
}

// runs runs one direction of one layer by the kernel of its units, once for each run of p. x is [T, B, features].
func (l *RNNLayer) runs(x, h, c *autograd.Variable, d *rnnDirection, p *packed) (out, last, lastCell *autograd.Variable) {
	g := x.Graph()
	w := d.weights(g, l)
	cast := g.CastFor(l.castAs(), x, h, c, w.IH, w.HH, w.BiasIH, w.BiasHH) // once, and not in each run
	x, h, c = picked(cast[0], 1, p.order), picked(cast[1], 0, p.order), picked(cast[2], 0, p.order)
	w = autograd.RecurrentWeights{IH: cast[3], HH: cast[4], BiasIH: cast[5], BiasHH: cast[6]}
	outs := make([]*autograd.Variable, len(p.runs))
	run := func(i int, h, c *autograd.Variable) (nextH, nextC *autograd.Variable) {
		r := p.runs[i]
		part := x.Narrow(0, r.from, r.to-r.from).Narrow(1, 0, r.active)
		if l.unit == gruUnits {
			outs[i], nextH = part.GRU(h, w, d.reverse)
		} else {
			outs[i], nextH, nextC = part.LSTM(h, c, w, d.reverse)
		}
		behind := 0
		if i == len(p.runs)-1 {
			behind = p.steps - r.to
		}
		outs[i] = outs[i].Pad([]int{0, 0, 0, p.batch - r.active, 0, behind}, tensor.PadConstant, 0)
		return nextH, nextC
	}
	if d.reverse {
		last, lastCell = p.backward(h, c, run)
	} else {
		last, lastCell = p.forward(h, c, run)
	}
	return picked(autograd.Cat(outs, 0), 1, p.back), picked(last, 0, p.back), picked(lastCell, 0, p.back)
}

// forward makes the runs from the first step on: the sequences that end with a run, which are the last of those under way, have their last states then.
func (p *packed) forward(h, c *autograd.Variable, run func(i int, h, c *autograd.Variable) (nextH, nextC *autograd.Variable)) (last, lastCell *autograd.Variable) {
	var hs, cs []*autograd.Variable
	for i, r := range p.runs {
		h, c = run(i, h, c)
		on := 0
		if i < len(p.runs)-1 {
			on = p.runs[i+1].active
		}
		hs, cs = append(hs, rows(h, on, r.active)), append(cs, rows(c, on, r.active))
		h, c = rows(h, 0, on), rows(c, 0, on)
	}
	slices.Reverse(hs) // the longest are first
	slices.Reverse(cs)
	return joined(hs), joined(cs)
}

// backward makes the runs from the last step on: the sequences that begin with a run join those under way, in their first states.
func (p *packed) backward(h, c *autograd.Variable, run func(i int, h, c *autograd.Variable) (nextH, nextC *autograd.Variable)) (last, lastCell *autograd.Variable) {
	on := 0
	for i := len(p.runs) - 1; i >= 0; i-- {
		r := p.runs[i]
		startH, startC := rows(h, on, r.active), rows(c, on, r.active)
		if on > 0 {
			startH, startC = joined([]*autograd.Variable{last, startH}), joined([]*autograd.Variable{lastCell, startC})
		}
		last, lastCell = run(i, startH, startC)
		on = r.active
	}
	return last, lastCell
}

// rows are the sequences from..to-1 of states, of which GRU has no cells.
func rows(v *autograd.Variable, from, to int) *autograd.Variable {
	if v == nil {
		return nil
	}
	return v.Narrow(0, from, to-from)
}

// joined are states of several sequences, one after the other.
func joined(parts []*autograd.Variable) *autograd.Variable {
	if parts[0] == nil || len(parts) == 1 {
		return parts[0]
	}
	return autograd.Cat(parts, 0)
}
