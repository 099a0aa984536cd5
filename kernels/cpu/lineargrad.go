package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// linearWeightGradRow makes the row of LinearWeightGrad from those of the product, the sum and the conversion. Half types go through float32
// some rows at a time, of which the product adds one after the other to the result: so nothing is rounded in between, and what is
// converted is still in the cache when it is multiplied. Where the processor multiplies pairs of the type nothing is converted.
func linearWeightGradRow(all []op.Row) op.Row {
	var rows [op.Count]funcs
	for _, r := range all {
		rows[r.Op] = r.Funcs
	}
	row := op.Row{Op: op.LinearWeightGrad}
	for _, d := range op.LinearWeightGrad.Types() {
		computed := op.ComputeType(d)
		g := &linearWeightGrads{multiply: rows[op.MatMul][computed], sum: rows[op.Sum][d], widen: rows[op.Cast][d], half: computed != d}
		g.calls.New = func() any { return new(linearWeightGrad) }
		row.Funcs[d] = g.run
	}
	return row
}

// linearWeightGrads has the kernels for one type.
type linearWeightGrads struct {
	multiply, sum, widen op.Func
	half                 bool
	calls                sync.Pool
}

// linearWeightGrad is a call in work: the calls of other kernels that it makes, and memory for what is converted.
type linearWeightGrad struct {
	part  op.Call
	views [4]op.View
	wide  [2][]float32
	sums  []uint16 // of a half type
}

// wideRows is how many rows of half types are converted at a time.
const wideRows = 256

func (g *linearWeightGrads) run(c *op.Call) error {
	w := g.calls.Get().(*linearWeightGrad)
	defer func() {
		w.part, w.views = op.Call{}, [4]op.View{} // it holds nothing of its caller's
		g.calls.Put(w)
	}()
	if err := g.product(c, w); err != nil || len(c.Out) == 1 {
		return err
	}
	return g.sums(c, w)
}

func (g *linearWeightGrads) product(c *op.Call, w *linearWeightGrad) error {
	a, b := c.In[0], c.In[1]
	rows := a.Shape[0]
	if !g.half || rows == 0 {
		if rows == 0 { // there is nothing to be converted, and the product of nothing is 0 in any type
			a.DType, b.DType = c.Out[0].DType, c.Out[0].DType
		}
		return g.add(c, w, &a, &b, 0)
	}
	if c.Out[0].DType == dtype.Float32 && g.pairs(c) {
		return nil
	}
	for first := 0; first < rows; first += wideRows {
		n := min(rows-first, wideRows)
		x, err := g.widened(c, w, 0, &a, first, n)
		if err != nil {
			return err
		}
		y, err := g.widened(c, w, 1, &b, first, n)
		if err != nil {
			return err
		}
		if err := g.add(c, w, &x, &y, float64(min(first, 1))); err != nil {
			return err
		}
	}
	return nil
}

// pairs computes the product from half precision at once, if the processor has instructions for it.
func (g *linearWeightGrads) pairs(c *op.Call) bool {
	matrixOf := func(v *op.View) matrix { return matrix{v.Ptr, v.Strides[0], v.Strides[1]} }
	a, b, dst := &c.In[0], &c.In[1], &c.Out[0]
	return a.DType == b.DType && multiplyPairs(halfOf(a.DType), &product[float32]{
		m: a.Shape[1], n: b.Shape[1], k: a.Shape[0], alpha: 1, dst: matrixOf(dst), a: matrixOf(a).transposed(), b: matrixOf(b),
	})
}

// add computes aᵀ @ b, and adds it to what is in the result if beta is 1.
func (g *linearWeightGrads) add(c *op.Call, w *linearWeightGrad, a, b *op.View, beta float64) error {
	v := &w.views
	v[0], v[1], v[2] = *a, *b, c.Out[0]
	v[0].Shape[0], v[0].Shape[1] = a.Shape[1], a.Shape[0]
	v[0].Strides[0], v[0].Strides[1] = a.Strides[1], a.Strides[0]
	in := v[:2]
	if beta != 0 {
		in = v[:3]
	}
	w.part = op.Call{Op: op.MatMul, Stream: c.Stream, Out: c.Out[:1], In: in, F: [8]float64{1, beta}}
	return g.multiply(&w.part)
}

// widened is rows of a matrix of a half type in float32.
func (g *linearWeightGrads) widened(c *op.Call, w *linearWeightGrad, which int, a *op.View, first, n int) (op.View, error) {
	columns := a.Shape[1]
	if len(w.wide[which]) < n*columns {
		w.wide[which] = make([]float32, wideRows*columns)
	}
	from := *a
	from.Ptr, from.Shape[0] = offset(a.Ptr, first*a.Strides[0], a.DType.Size()), n
	to := op.View{Ptr: addressOf(w.wide[which]), DType: dtype.Float32, NDim: 2}
	to.Shape[0], to.Shape[1] = n, columns
	to.Strides[0], to.Strides[1] = columns, 1
	w.views[0], w.views[1] = to, from
	w.part = op.Call{Op: op.Cast, Stream: c.Stream, Out: w.views[:1], In: w.views[1:2]}
	return to, g.widen(&w.part)
}

// sums computes the bias's gradient: in the type of a, and then as what is wanted.
func (g *linearWeightGrads) sums(c *op.Call, w *linearWeightGrad) error {
	n := c.Out[1].Shape[0]
	dst := c.Out[1]
	if g.half {
		if len(w.sums) < n {
			w.sums = make([]uint16, n)
		}
		dst.Ptr, dst.DType, dst.Strides[0] = addressOf(w.sums), c.In[0].DType, 1
	}
	row := dst
	row.NDim = 2
	row.Shape[0], row.Shape[1] = 1, n
	row.Strides[0], row.Strides[1] = 0, dst.Strides[0]
	w.views[0] = row
	w.part = op.Call{Op: op.Sum, Stream: c.Stream, Out: w.views[:1], In: c.In[:1]}
	if err := g.sum(&w.part); err != nil || !g.half || n == 0 {
		return err
	}
	w.views[0] = dst
	w.part = op.Call{Op: op.Cast, Stream: c.Stream, Out: c.Out[1:2], In: w.views[:1]}
	return g.widen(&w.part)
}

// addressOf is where scratch memory lies, for kernels that take addresses. Its owner keeps it alive.
func addressOf[T any](s []T) device.Ptr {
	if len(s) == 0 {
		return 0
	}
	return addressAt(&s[0])
}
