package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// What a pass over a sequence works on: parts of tensors, without handles of their own.

// operand is a tensor under a layout of its storage.
type operand struct {
	t *Tensor
	l layout
}

// step is part i of a contiguous tensor along its first dimension.
func (t *Tensor) step(i int) operand {
	l := t.rowMajor()
	l.offset += i * l.strides[0]
	l.drop(0)
	return operand{t, l}
}

// steps is the parts from..to-1 of a contiguous tensor, joined along the second dimension: a matrix.
func (t *Tensor) steps(from, to int) operand {
	whole := t.rowMajor()
	l := layout{ndim: 2}
	l.shape[0], l.shape[1] = (to-from)*whole.shape[1], whole.shape[2]
	l.pack()
	l.offset = whole.offset + from*whole.strides[0]
	return operand{t, l}
}

// rowMajor is the layout of a contiguous tensor with the strides that its shape says, also where a dimension has one element and
// its own stride leads nowhere.
func (t *Tensor) rowMajor() layout {
	l := t.layout.packed()
	l.offset = t.layout.offset
	return l
}

// transposed is a matrix with rows and columns exchanged.
func transposed(t *Tensor) operand { return operand{t, t.layout}.transposed() }

func (o operand) transposed() operand {
	o.l.swap(0, 1)
	return o
}

// cloneStep copies part i into storage of its own.
func (t *Tensor) cloneStep(i int) (*Tensor, error) {
	o := t.step(i)
	r, err := Empty(t.exec, t.dtype, o.l.dims()...)
	if err != nil {
		return nil, err
	}
	if err := r.write(recurrentName, &r.layout, t, &o.l); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// product2 is out = a @ b + beta*c for matrices; c broadcasts, and may be out.
func product2(out, a, b operand, c *operand, beta float64) error {
	if out.l.len() == 0 {
		return nil
	}
	l := begin(op.MatMul, out.t.exec)
	l.call.F[0], l.call.F[1] = 1, beta
	l.out(out.t, &out.l)
	l.in(a.t, &a.l)
	l.in(b.t, &b.l)
	if beta != 0 {
		added, _ := c.l.expanded(&out.l)
		l.in(c.t, &added)
	}
	return l.run(recurrentName)
}

func cellLaunch(id op.ID, outs, ins []operand) error {
	l := begin(id, outs[0].t.exec)
	for i := range outs {
		l.out(outs[i].t, &outs[i].l)
	}
	for i := range ins {
		l.in(ins[i].t, &ins[i].l)
	}
	return l.run(recurrentName)
}
