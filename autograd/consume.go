package autograd

import "github.com/cistern-ml/cistern/tensor"

// consume hands a rule what was saved of input i, to write the gradient over it: the caller owns the handle. It returns nil if
// anybody may read it yet, and then the rule makes a new tensor.
//
// A backward pass that keeps nothing releases the results of operations when it comes to the operations that made them. That
// will be soon for input i, and for what it is a view of, since they get a gradient in this pass; so their variables are
// released now. What is left are other nodes that saved the value and other views of it, for which the counts speak.
func (n *node) consume(i int) *tensor.Tensor {
	if n.g.retaining {
		return nil
	}
	for v := n.in[i]; v.node != nil && !v.keep; v = v.node.in[0] {
		v.release(BackwardDone)
		if !v.node.op.view {
			break
		}
	}
	for k := range n.saved {
		s := &n.saved[k]
		if s.what != input(i) {
			continue
		}
		if n.in[i].node == nil || s.val.holders > 1 || !writable(s.val.t) || !s.val.t.IsContiguous() {
			return nil
		}
		t := n.g.ledger.surrender(s.val)
		n.saved = append(n.saved[:k], n.saved[k+1:]...)
		return t
	}
	return nil
}

// viewing marks operations whose result shares the memory of their one input.
func viewing(ops ...*op) bool {
	for _, o := range ops {
		o.view = true
	}
	return true
}

var _ = viewing(reshape, view, flatten, squeeze, unsqueeze, transpose, matrixT, permute)
