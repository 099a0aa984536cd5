package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// LinearWeightGrad: one product of cuBLASLt with the sums in its epilogue, if the library has that. Else the library, or kernels of our own, compute the
// product, and the reduction's kernels the sums.

func linearWeightGradRows() []op.Row {
	r := typedRow(op.LinearWeightGrad, func(dtype.DType) op.Func { return linearWeightGrad })
	r.Workspace = linearWeightGradWorkspace
	return []op.Row{r}
}

func linearWeightGrad(c *op.Call) error {
	t := takeTask()
	defer tasks.Put(t)
	var w work
	p := &w.product
	t.weightProduct(c, p)
	switch {
	case p.m == 0:
		return nil
	case max(p.m, p.n, p.k) >= maxLoop:
		return op.Errorf(c.Op, op.ErrCall, "a product of %d by %d by %d is too large", p.m, p.k, p.n)
	}
	if p.n > 0 {
		done, summed, err := t.weightByLibrary(c, p)
		if err == nil && !done {
			err = t.weightByKernels(c, &w)
		}
		if err != nil || summed {
			return err
		}
	}
	return t.biasSums(c)
}

// weightByLibrary has the library compute the product, with the sums if it can. It reports false if there is none, or if it does not.
func (t *task) weightByLibrary(c *op.Call, p *product) (done, summed bool, err error) {
	m, ok := c.Stream.Device().(blas.Multiplier)
	if !ok || p.k == 0 || !m.HasLibrary() {
		return false, false, nil
	}
	t.askWeight(c, p, len(c.Out) > 1)
	if t.asked.Sums != 0 {
		if done, err = m.MatMul(c.Stream, &t.asked, c.Work.Ptr, uint64(c.Work.Len())); done || err != nil {
			return done, done, err
		}
		t.asked.Sums = 0
	}
	done, err = m.MatMul(c.Stream, &t.asked, c.Work.Ptr, uint64(c.Work.Len()))
	return done, false, err
}

// askWeight writes down what the library is asked for. Sums must lie one after the other.
func (t *task) askWeight(c *op.Call, p *product, sums bool) {
	t.ask(p)
	t.asked.Result = c.Out[0].DType
	if sums && (c.Out[1].Strides[0] == 1 || p.m == 1) {
		t.asked.Sums = c.Out[1].Ptr
	}
}

// weightProduct reads a call: the product dst = aᵀ @ b.
func (t *task) weightProduct(c *op.Call, p *product) {
	dst, a, b := &c.Out[0], &c.In[0], &c.In[1]
	*p = product{dtype: a.DType, m: dst.Shape[0], n: dst.Shape[1], k: a.Shape[0], alpha: 1, batch: &t.loop, slices: 1, depth: a.Shape[0]}
	l := &t.loop
	l.Begin(dst)
	l.Add(a)
	l.Add(b)
	l.Add(dst)
	l.NDim = 0 // there is no batch
	l.Finish()
	p.dst = matrix{Ptr: l.Ptr[0], Row: dst.Strides[0], Column: dst.Strides[1]}
	p.a = matrix{Ptr: l.Ptr[1], Row: a.Strides[1], Column: a.Strides[0]}
	p.b = matrix{Ptr: l.Ptr[2], Row: b.Strides[0], Column: b.Strides[1]}
	p.c = p.dst
}

// weightByKernels computes the product by our own kernels. Those for half types write results of their own type, but the sums of a slice as they are,
// in float32: so products of half types always have slices here, which are added up by the kernel that does it for float32, or a
// single one that is the result.
func (t *task) weightByKernels(c *op.Call, w *work) error {
	w.plan(uint64(c.Work.Len()))
	w.leaves = w.dtype != c.Out[0].DType
	w.fit(c.Stream.Device())
	w.join = products[c.Out[0].DType].join
	switch {
	case w.dtype == c.Out[0].DType || w.slices > 1:
		return t.multiply(c, w)
	case w.inOrder():
		return t.leave(c, w, w.dst.Ptr)
	case w.unjoined() > uint64(c.Work.Len()):
		return op.Errorf(c.Op, op.ErrCall, "a workspace of %d bytes, needs %d", c.Work.Len(), w.unjoined())
	}
	if err := t.leave(c, w, c.Work.Ptr); err != nil {
		return err
	}
	w.slices = 1
	return t.addUp(c, w, 0, 1)
}

// leave launches the kernel as for the first of two slices, which has all of k: it leaves its sums at an address.
func (t *task) leave(c *op.Call, w *work, at device.Ptr) error {
	w.slices, w.depth = 2, w.k
	w.add(&t.params, 0)
	t.params.Ptr(w.dst.Ptr).Ptr(w.a.Ptr).Ptr(w.b.Ptr).Ptr(w.c.Ptr).Ptr(0).Ptr(at)
	shape := w.shape
	shape.Grid.Z = 1
	return t.launchShape(c, w.kernel, shape)
}

// inOrder reports whether the result lies as the sums of a slice do: row by row, without gaps.
func (w *work) inOrder() bool {
	return (w.dst.Column == 1 || w.n == 1) && (w.dst.Row == w.n || w.m == 1)
}

// unjoined is the size of a slice's sums in bytes.
func (w *work) unjoined() uint64 { return uint64(w.m) * uint64(w.n) * 4 }

// linearWeightGradWorkspace is what the product takes or, behind it on the stream, the sums.
func linearWeightGradWorkspace(c *op.Call) uint64 {
	t := takeTask()
	defer tasks.Put(t)
	var w work
	p := &w.product
	t.weightProduct(c, p)
	if p.m == 0 || max(p.m, p.n, p.k) >= maxLoop {
		return 0
	}
	bytes, summed := uint64(0), false
	if p.n > 0 {
		bytes, summed = t.weightWorkspace(c, &w)
	}
	if len(c.Out) > 1 && !summed {
		bytes = max(bytes, t.sumWorkspace(c))
	}
	return bytes
}

// weightWorkspace is what the product takes, and whether it computes the sums too.
func (t *task) weightWorkspace(c *op.Call, w *work) (bytes uint64, summed bool) {
	p := &w.product
	if m, ok := c.Stream.Device().(blas.Multiplier); ok && p.k > 0 && m.HasLibrary() {
		t.askWeight(c, p, len(c.Out) > 1)
		if t.asked.Sums != 0 {
			if bytes, ok = m.MatMulWorkspace(&t.asked); ok {
				return max(bytes, t.sumWorkspace(c)), true // the library may still refuse, and then the sums are ours
			}
			t.asked.Sums = 0
		}
		if bytes, ok = m.MatMulWorkspace(&t.asked); ok {
			return bytes, false
		}
	}
	w.plan(math.MaxUint64)
	if w.dtype != c.Out[0].DType && w.slices == 1 && !w.inOrder() {
		return w.unjoined(), false
	}
	return w.bytes, false
}

// biasSums computes the sums by the reduction's kernels. Those write the type that they read: sums of half types are converted.
func (t *task) biasSums(c *op.Call) error {
	if len(c.Out) == 1 {
		return nil
	}
	d := c.In[0].DType
	t.sumCall(c)
	if err := sums[d](&t.next); err != nil || d == c.Out[1].DType {
		t.forget()
		return err
	}
	t.one[0] = t.next.Out[0]
	t.one[0].NDim, t.one[0].Shape[0], t.one[0].Strides[0] = 1, c.Out[1].Shape[0], 1
	t.next = op.Call{Op: op.Cast, Stream: c.Stream, Out: c.Out[1:2], In: t.one[:]}
	err := widening[d](&t.next)
	t.forget()
	return err
}

// forget lets go of the other kernel's call, which holds what is the caller's.
func (t *task) forget() { t.next, t.one = op.Call{}, [1]op.View{} }

// sumCall writes down the call of the reduction. Sums of half types go to the beginning of the workspace.
func (t *task) sumCall(c *op.Call) {
	sum := c.Out[1]
	rest := c.Work
	if d := c.In[0].DType; d != sum.DType {
		sum.Ptr, sum.DType, sum.Strides[0] = c.Work.Ptr, d, 1
		own := narrowBytes(c)
		rest.Ptr, rest.Shape[0] = rest.Ptr.Add(own), max(rest.Shape[0]-int(own), 0)
	}
	sum.NDim = 2
	sum.Shape[0], sum.Shape[1] = 1, sum.Shape[0]
	sum.Strides[0], sum.Strides[1] = 0, sum.Strides[0]
	t.one[0] = sum
	t.next = op.Call{Op: op.Sum, Stream: c.Stream, Out: t.one[:], In: c.In[:1], Work: rest}
}

// narrowBytes is what sums of half types take of the workspace.
func narrowBytes(c *op.Call) uint64 {
	if c.In[0].DType == c.Out[1].DType {
		return 0
	}
	return (uint64(c.Out[1].Shape[0])*uint64(c.In[0].DType.Size()) + 255) / 256 * 256
}

// sumWorkspace is what the sums take.
func (t *task) sumWorkspace(c *op.Call) uint64 {
	t.sumCall(c)
	defer t.forget()
	return narrowBytes(c) + reduceSpace(&t.next)
}

// sums and widening are the kernels of sums, and of conversions from half types, by type.
var sums, widening [dtype.Count]op.Func

// Rows are made by package variables, so all of them are there by now.
func init() {
	for _, r := range rows {
		switch r.Op {
		case op.Sum:
			sums = r.Funcs
		case op.Cast:
			widening = r.Funcs
		}
	}
}
