package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Activation is a function that LinearAct applies to each element as it is written.
type Activation uint8

// The activations, each as the method of that name.
const (
	ActIdentity Activation = op.ActNone
	ActReLU     Activation = op.ActReLU
	ActGELU     Activation = op.ActGELU
	ActGELUTanh Activation = op.ActGELUTanh
)

// apply is the activation alone.
func (f Activation) apply(t *Tensor) (*Tensor, error) {
	switch f {
	case ActReLU:
		return t.ReLU()
	case ActGELU:
		return t.GELU()
	case ActGELUTanh:
		return t.GELUTanh()
	}
	return t.convert("LinearAct", t.dtype, t.exec)
}

// LinearAct is f(x @ wᵀ + bias), Linear and an activation in one pass: what is between them is not stored. f may be applied
// before or after that is rounded to the type. Shapes and types are those of Linear. (torch._addmm_activation)
func LinearAct(x, w, bias *Tensor, f Activation) (*Tensor, error) {
	out, _, err := linearAct("LinearAct", x, w, bias, f, false)
	return out, err
}

// LinearActPre is LinearAct that also returns what the activation is applied to, which the gradient of GELU needs.
func (gradients) LinearActPre(x, w, bias *Tensor, f Activation) (out, pre *Tensor, err error) {
	return linearAct("LinearActPre", x, w, bias, f, true)
}

func linearAct(name string, x, w, bias *Tensor, f Activation, keep bool) (out, pre *Tensor, err error) {
	p, err := linearProduct(name, x, w, bias)
	if err != nil {
		return nil, nil, err
	}
	if f > ActGELUTanh {
		return nil, nil, valueErr(name, "activation %d", f)
	}
	whole := p.out
	p.fold()
	if p.out.ndim != 2 { // x is a batch whose rows do not lie in one sequence
		return linearThen(name, &p, x, f, keep)
	}
	if out, err = alloc(name, x.exec, x.dtype, &whole); err != nil {
		return nil, nil, err
	}
	if keep {
		if pre, err = alloc(name, x.exec, x.dtype, &whole); err != nil {
			out.Release()
			return nil, nil, err
		}
	}
	if out.Len() > 0 {
		if err := p.runAct(name, x.exec, f, out, pre); err != nil {
			out.Release()
			pre.Release()
			return nil, nil, err
		}
	}
	return unrow(x, out), unrow(x, pre), nil
}

// runAct computes the product, which is one of matrices, and the activation into out, and if there is pre, the product into it.
func (p *product) runAct(name string, e Exec, f Activation, out, pre *Tensor) error {
	c := begin(op.MatMulAct, e)
	c.scalars(scalars{f: [2]float64{p.alpha, p.beta}, i: [2]int64{int64(f)}})
	c.out(out, &p.out)
	if pre != nil {
		c.out(pre, &p.out)
	}
	c.in(p.a, &p.la)
	c.in(p.b, &p.lb)
	if p.beta != 0 {
		added, _ := p.lc.expanded(&p.out)
		c.in(p.c, &added)
	}
	return c.run(name)
}

// linearThen computes the product and then the activation.
func linearThen(name string, p *product, x *Tensor, f Activation, keep bool) (out, pre *Tensor, err error) {
	if pre, err = p.run(name, x.exec); err != nil {
		return nil, nil, err
	}
	if out, err = f.apply(pre); err != nil {
		err = wrap(name, err)
	}
	if err != nil || !keep {
		pre.Release()
		pre = nil
	}
	return out, pre, err
}
