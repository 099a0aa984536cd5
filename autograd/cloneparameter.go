package autograd

import "github.com/cistern-ml/cistern/tensor"

// Clone makes a parameter of the same name, shape, initializer and RequiresGrad, with a copy of the value in memory of its own, on the same device,
// stream and allocator. Gradient and hooks stay with p. Of a parameter without a tensor the clone has none either,
// and what Await has noted of it. Of one whose value ranks share out (autograd/parallel), and that is not here whole, there is no clone: that is an error.
func (p *Parameter) Clone() (*Parameter, error) {
	switch {
	case p.behind() != "":
		return nil, &tensor.ValueError{Op: "Clone", Detail: p.behind()}
	case p == nil, p.away != "":
		return nil, p.missingFor("Clone")
	}
	q := &Parameter{name: p.name, shape: p.shape.Clone(), init: p.init, requiresGrad: p.requiresGrad, wrong: p.wrong, awaits: p.awaits, computed: p.computed}
	t := p.Tensor()
	if t == nil {
		return q, nil
	}
	var err error
	q.value, err = t.Clone()
	return q, err
}
