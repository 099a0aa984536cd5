package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Moments are what a normalisation knows of each row or channel: float32 for half-precision tensors, else of their type. The
// gradients of normalisations take them.
type Moments struct {
	Mean *Tensor // nil for RMSNorm
	Rstd *Tensor // 1/sqrt(variance + eps)
	Var  *Tensor // instead of Rstd: variances, of which normalisations compute 1/sqrt(Var + Eps) themselves
	Eps  float64
}

// Release releases all tensors of m.
func (m Moments) Release() {
	m.Mean.Release()
	m.Rstd.Release()
	m.Var.Release()
}

// spread is Rstd or Var.
func (m *Moments) spread() *Tensor {
	if m.Var != nil {
		return m.Var
	}
	return m.Rstd
}

// normalisation is a call of one of the kernels in the making: the tensor's shape as [N, C, L], and its operands, contiguous and
// of the types that the kernels take, with the temporaries that this needed.
type normalisation struct {
	name  string
	exec  Exec
	dtype DType
	full  layout       // [N, C, L]; of images with their channels last, of which statistics belong to channels, [N*L, C, 1]
	order MemoryFormat // of tensors of that shape
	call  *launch
	temps []*Tensor
	err   error
}

// begin starts a call. The caller has checked all operands. Without groups statistics belong to channels.
func (n *normalisation) begin(id op.ID, t *Tensor, shape [3]int, groups int) {
	n.exec, n.dtype = t.exec, t.dtype
	n.full = layout{ndim: 3}
	copy(n.full.shape[:], shape[:])
	if groups == 0 {
		if n.order = t.layout.format(); n.order != ContiguousFormat {
			n.full.shape = [op.MaxDims]int{shape[0] * shape[2], shape[1], 1}
		}
	}
	n.full.pack()
	n.call = begin(id, t.exec)
	n.call.call.I[0] = int64(groups)
}

func (n *normalisation) flag(f int64) { n.call.call.I[1] |= f }

// in adds an operand of the tensor's shape.
func (n *normalisation) in(t *Tensor) { n.add(t, t.dtype, n.order, &n.full) }

// stat adds an operand that holds statistics; nil is left out.
func (n *normalisation) stat(t *Tensor) { n.vector(t, op.ComputeType(n.dtype), 0) }

// moments adds mean and spread.
func (n *normalisation) moments(m *Moments) {
	n.stat(m.Mean)
	n.stat(m.spread())
	if m.Mean == nil {
		n.flag(op.NormRMS)
	}
	if m.Var != nil {
		n.flag(op.NormVariance)
		n.call.call.F[0] = m.Eps
	}
}

// affine adds weight and bias, where they are there.
func (n *normalisation) affine(weight, bias *Tensor) {
	if weight != nil {
		n.vector(weight, weight.dtype, op.NormWeight)
	}
	if bias != nil {
		n.vector(bias, bias.dtype, op.NormBias)
	}
}

// vector adds an operand of one dimension, and its flag.
func (n *normalisation) vector(t *Tensor, dt DType, flag int64) {
	if t != nil {
		n.add(t, dt, ContiguousFormat, flat(t.Len()))
		n.flag(flag)
	}
}

// flat is the layout of n elements.
func flat(n int) *layout {
	l := &layout{ndim: 1}
	l.shape[0], l.strides[0] = n, 1
	return l
}

func (n *normalisation) add(t *Tensor, dt DType, order MemoryFormat, as *layout) {
	if n.err != nil {
		return
	}
	x, err := t.formattedAs(n.name, order, dt, n.exec)
	if err != nil {
		n.err = err
		return
	}
	if x != t {
		n.temps = append(n.temps, x)
	}
	l := *as
	l.offset = x.layout.offset
	n.call.in(x, &l)
}

// like makes a result of t's shape. It is nil after an error.
func (n *normalisation) like(dt DType, t *Tensor) *Tensor {
	l := t.layout.packed()
	l.packIn(n.order)
	return n.out(dt, &l, &n.full)
}

// out makes a result of layout l, without gaps, which kernels see as they see operands. It is nil after an error.
func (n *normalisation) out(dt DType, l, as *layout) *Tensor {
	if n.err != nil {
		return nil
	}
	r, err := allocAs(n.name, n.exec, dt, l)
	if err != nil {
		n.err = err
		return nil
	}
	n.call.out(r, as)
	return r
}

// at is full where t lies in its storage.
func (n *normalisation) at(t *Tensor) *layout {
	l := n.full
	l.offset = t.layout.offset
	return &l
}

// stats makes a result that holds statistics, with count elements.
func (n *normalisation) stats(count int) *Tensor {
	l := flat(count)
	return n.out(op.ComputeType(n.dtype), l, l)
}

// run launches the call and gives temporaries back. If anything failed, the results too. Nothing is launched for a tensor
// without elements; its statistics are then 0.
func (n *normalisation) run(results ...*Tensor) error {
	defer func() {
		for _, t := range n.temps {
			t.Release()
		}
	}()
	switch {
	case n.err != nil:
		n.call.recycle()
	case n.full.len() > 0:
		n.err = n.call.run(n.name)
	default:
		n.call.recycle()
		for _, r := range results {
			if n.err == nil {
				n.err = r.fill(n.name, 0, &r.layout)
			}
		}
	}
	if n.err != nil {
		for _, r := range results {
			r.Release()
		}
	}
	return n.err
}

// checkAffine refuses weights and biases that do not go with t: each is nil, or has the given shape and t's type or, if that is
// half precision, float32, and both have the same.
func checkAffine(name string, t *Tensor, shape Shape, weight, bias *Tensor) error {
	for _, w := range []*Tensor{weight, bias} {
		if w == nil {
			continue
		}
		if err := together(name, t, w); err != nil {
			return err
		}
		if w.dtype != t.dtype && w.dtype != op.ComputeType(t.dtype) {
			return dtypeErr(name, "weight and bias have the input's type, or float32 for half precision; To converts", t.dtype, w.dtype)
		}
		if !w.Shape().Equal(shape) {
			return shapeErr(name, []Shape{t.Shape(), w.Shape()}, "weight and bias need the shape %v", shape)
		}
	}
	if weight != nil && bias != nil && weight.dtype != bias.dtype {
		return dtypeErr(name, "weight and bias must have one type", weight.dtype, bias.dtype)
	}
	return nil
}

// checkMoments refuses moments that are not count numbers each.
func checkMoments(name string, t *Tensor, m *Moments, count int, mean bool) error {
	parts := []*Tensor{m.spread()}
	if mean || m.Mean != nil {
		parts = append(parts, m.Mean)
	}
	for _, s := range parts {
		if err := together(name, t, s); err != nil {
			return err
		}
		if !s.dtype.IsFloat() {
			return dtypeErr(name, needsFloat, t.dtype, s.dtype)
		}
		if s.Len() != count {
			return shapeErr(name, []Shape{t.Shape(), s.Shape()}, "moments need %d elements", count)
		}
	}
	return nil
}
