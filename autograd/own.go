package autograd

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// The tensors of a graph are Owned: the ledger releases them, and no safety net watches them, which would cost an allocation each.
// So users never get them. What they get is lent, under the Exec with the safety net, which everything that they make of it
// inherits; and what they hand over comes under the graph's Exec here.

// lend is t for a user, to whom it does not belong.
func (g *Graph) lend(t *tensor.Tensor) *tensor.Tensor { return t.Lend(g.outer) }

// lendAll is lend for several; nil stays nil.
func (g *Graph) lendAll(ts []*tensor.Tensor) []*tensor.Tensor {
	lent := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		lent[i] = g.lend(t)
	}
	return lent
}

// own takes over a tensor that somebody else made, also if it fails: the result works under the graph's Exec. Of a handle that
// is lent, or a parameter's, it takes another one.
func (g *Graph) own(name string, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Exec() == g.exec && !tensor.Kept(training.Key{}, t) {
		return t, nil
	}
	defer given(t)
	return g.adopt(name, t)
}

// ownAll is own for several, among which the same handle may be twice.
func (g *Graph) ownAll(name string, ts []*tensor.Tensor) ([]*tensor.Tensor, error) {
	owned := make([]*tensor.Tensor, len(ts))
	var err error
	for i, t := range ts {
		if t != nil && err == nil {
			owned[i], err = g.adopt(name, t)
		}
	}
	given(ts...)
	if err != nil {
		releaseAll(owned)
		return nil, err
	}
	return owned, nil
}
