package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Normalisations of float32 whose result, or whose gradient, is of a half type, and gradients that are added to what is there: the kernels for float32, between
// conversions.

// withMixed makes the rows of normalisations, which are among all, take those calls too.
func withMixed(all []op.Row) {
	var rows [op.Count]funcs
	for _, r := range all {
		rows[r.Op] = r.Funcs
	}
	m := &mixedNorms{casts: rows[op.Cast], sum: rows[op.Add][dtype.Float32]}
	m.calls.New = func() any { return new(mixedNorm) }
	for i := range all {
		f := &all[i].Funcs
		wide := f[dtype.Float32]
		switch all[i].Op {
		case op.RowNorm:
			for _, d := range halfTypes {
				f[d] = m.rowNorm(f[d], wide)
			}
		case op.RowNormGrad:
			f[dtype.Float32] = m.rowNormGrad(wide)
		case op.NormSums:
			for _, d := range halfTypes {
				f[d] = m.sums(f[d], wide)
			}
		}
	}
}

var halfTypes = []dtype.DType{dtype.Float16, dtype.BFloat16}

// mixedNorms has the kernels.
type mixedNorms struct {
	casts funcs
	sum   op.Func
	calls sync.Pool
}

// mixedNorm is a call in work: that of another kernel, its views, and memory for what is converted.
type mixedNorm struct {
	part    op.Call
	out, in []op.View
	wide    []float32
}

func (m *mixedNorms) take(c *op.Call) *mixedNorm {
	w := m.calls.Get().(*mixedNorm)
	w.out, w.in = append(w.out[:0], c.Out...), append(w.in[:0], c.In...)
	return w
}

func (m *mixedNorms) give(w *mixedNorm) {
	w.part = op.Call{} // it holds nothing of its caller's
	clear(w.out)
	clear(w.in)
	m.calls.Put(w)
}

// widened is a view of memory in float32 for what v has.
func (w *mixedNorm) widened(v *op.View) op.View {
	n := v.Len()
	if len(w.wide) < n {
		w.wide = make([]float32, n)
	}
	x := *v
	x.DType, x.Ptr = dtype.Float32, addressOf(w.wide)
	return x
}

// norm runs the kernel for float32 on the views of w.
func (w *mixedNorm) norm(c *op.Call, f op.Func) error {
	w.part = op.Call{Op: c.Op, Stream: c.Stream, Out: w.out, In: w.in, F: c.F, I: c.I}
	return f(&w.part)
}

// run runs a kernel of one output and some inputs, of w's.
func (w *mixedNorm) run(c *op.Call, id op.ID, f op.Func, out, in []op.View) error {
	w.part = op.Call{Op: id, Stream: c.Stream, Out: out, In: in}
	if id == op.Add {
		w.part.F[0] = 1
	}
	return f(&w.part)
}

func (m *mixedNorms) rowNorm(plain, wide op.Func) op.Func {
	return func(c *op.Call) error {
		if c.In[0].DType == c.Out[0].DType {
			return plain(c)
		}
		w := m.take(c)
		defer m.give(w)
		w.out[0] = w.widened(&c.Out[0])
		if err := w.norm(c, wide); err != nil {
			return err
		}
		return w.run(c, op.Cast, m.casts[dtype.Float32], c.Out[:1], w.out[:1])
	}
}

func (m *mixedNorms) rowNormGrad(wide op.Func) op.Func {
	return func(c *op.Call) error {
		half := c.In[0].DType != c.Out[0].DType
		if !half && c.I[2] == 0 {
			return wide(c)
		}
		w := m.take(c)
		defer m.give(w)
		if half {
			w.in[0] = w.widened(&c.In[0])
			if err := w.run(c, op.Cast, m.casts[c.In[0].DType], w.in[:1], c.In[:1]); err != nil {
				return err
			}
		}
		if c.I[2] == 0 {
			return w.norm(c, wide)
		}
		w.out[0] = w.widened(&c.Out[0]) // over the gradient, of which each row is read before it is written
		if err := w.norm(c, wide); err != nil {
			return err
		}
		w.in = append(w.in[:0], c.Out[0], w.out[0])
		return w.run(c, op.Add, m.sum, c.Out[:1], w.in)
	}
}

func (m *mixedNorms) sums(plain, wide op.Func) op.Func {
	return func(c *op.Call) error {
		if c.In[1].DType == c.In[0].DType {
			return plain(c)
		}
		w := m.take(c)
		defer m.give(w)
		w.in[0] = w.widened(&c.In[0])
		if err := w.run(c, op.Cast, m.casts[c.In[0].DType], w.in[:1], c.In[:1]); err != nil {
			return err
		}
		return w.norm(c, wide)
	}
}
