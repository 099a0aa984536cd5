package autograd

import "github.com/cistern-ml/cistern/tensor"

// The gradient of EmbeddingBag is linear in the incoming one: what it does with a gradient of its own is what forward does with a table, but that of
// the greatest rows, which takes the rows that were the greatest then.

func init() {
	embeddingBag.double = func(r *rerun, gs []*Variable) []*Variable {
		in := []*Variable{gs[0], r.input(1), r.input(2)}
		if r.saved(stash) != nil {
			in = append(in, r.stash(0))
		}
		list := make([]*Variable, len(r.n.in))
		list[0] = bagBack.apply(&bagGradient{r.n.arg.(bagArg), r.n.in[0].Dim(0)}, in...)
		return list
	}
	bagBack.double = func(r *rerun, gs []*Variable) []*Variable {
		a := r.n.arg.(*bagGradient)
		list := make([]*Variable, len(r.n.in))
		if a.mode != tensor.BagMax {
			list[0] = embeddingBag.apply(a.bagArg, gs[0], r.input(1), r.input(2))
			return list
		}
		rows := r.input(3)
		none := rows.LtScalar(0)
		list[0] = gs[0].Gather(0, rows.MaskedFill(none, 0)).MaskedFill(none, 0)
		return list
	}
}

// bagGradient is the argument of bagBack: a table of rows rows.
type bagGradient struct {
	bagArg
	rows int
}

// bagBack is the gradient of EmbeddingBag, of the incoming one, index, offsets and what forward has stashed.
var bagBack = variadic(&op{name: "embedding_bag_backward", forward: bagBackForward, rules: []rule{{uses: inputs, grad: bagBackGrad}}})

func bagBackForward(n *node) (*tensor.Tensor, error) {
	a, extra := n.arg.(*bagGradient), (*tensor.Tensor)(nil)
	if len(n.in) > 3 {
		extra = n.tensor(3)
	}
	padding, err := a.row(a.rows)
	if err != nil {
		return nil, err
	}
	return gradients.EmbeddingBag(n.tensor(0), n.tensor(1), n.tensor(2), extra, a.rows, a.mode, padding)
}

func bagBackGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(*bagGradient)
	if a.mode != tensor.BagMax {
		padding, err := a.row(a.rows)
		if err != nil {
			return nil, err
		}
		out, extra, err := tensor.EmbeddingBag(g, n.savedInput(1), n.savedInput(2), a.mode, padding)
		extra.Release()
		return out, err
	}
	var w work
	rows := n.savedInput(3)
	none := w.do(rows.LtScalar(0))
	taken := w.do(g.Gather(0, w.do(rows.MaskedFill(none, 0))))
	return w.result(zeroWhere(none, taken))
}
