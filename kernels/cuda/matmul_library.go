package cuda

import (
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// library has the device's library compute a call. It reports false if there is none, or if it does not.
func (t *task) library(c *op.Call, p *product) (done bool, err error) {
	m, ok := c.Stream.Device().(blas.Multiplier)
	if !ok || p.k == 0 || !m.HasLibrary() {
		return false, nil
	}
	t.ask(p)
	if done, err = m.MatMul(c.Stream, &t.asked, c.Work.Ptr, uint64(c.Work.Len())); done || err != nil {
		return done, err
	}
	if !t.halved(p) { // nothing is on the stream yet: own kernels can compute all of it
		return false, nil
	}
	if done, err = m.MatMul(c.Stream, &t.asked, c.Work.Ptr, uint64(c.Work.Len())); !done || err != nil {
		return done, err
	}
	return true, t.activate(c, p)
}

// libraryWorkspace is what the library wants for a call.
func (t *task) libraryWorkspace(c *op.Call, p *product) (bytes uint64, ok bool) {
	m, is := c.Stream.Device().(blas.Multiplier)
	if !is || p.k == 0 || !m.HasLibrary() {
		return 0, false
	}
	t.ask(p)
	if bytes, ok = m.MatMulWorkspace(&t.asked); ok {
		return bytes, true
	}
	if !t.halved(p) {
		return 0, false
	}
	return m.MatMulWorkspace(&t.asked)
}

// ask writes down what the library is asked for.
func (t *task) ask(p *product) {
	q := &t.asked // all of it anew: halved may have changed what the last call left
	*q = blas.Product{
		Type: p.dtype, M: p.m, N: p.n, K: p.k, Alpha: p.alpha, Beta: p.beta, Dst: p.dst, A: p.a, B: p.b, C: p.c, Pre: p.pre,
		Activation: p.activation, Dims: p.batch.NDim,
	}
	for d := range p.batch.NDim {
		q.Shape[d] = p.batch.Shape[d]
		for i := range q.Strides {
			q.Strides[i][d] = p.batch.Stride[i][d]
		}
	}
}

// halved changes what is asked to the part of it that libraries know: the product without its activation, which a kernel of ours
// then applies. It reports false if there is no activation.
func (t *task) halved(p *product) bool {
	q := &t.asked
	if q.Activation == blas.Identity {
		return false
	}
	q.Activation = blas.Identity
	if p.pre.Ptr != 0 { // what the activation is of is wanted, too: it is the product itself
		q.Dst, q.Pre = p.pre, blas.Matrix{}
	}
	return true
}

// activations are the kernels that apply one, by type.
var activations [blas.GELUTanh + 1][dtype.Count]op.Func

// Rows are made by package variables, so all of them are there by now.
func init() {
	ids := map[op.ID]blas.Activation{op.ReLU: blas.ReLU, op.GELU: blas.GELU, op.GELUTanh: blas.GELUTanh}
	for _, r := range rows {
		if a := ids[r.Op]; a != blas.Identity {
			activations[a] = r.Funcs
		}
	}
}

// activate applies the activation to what the library has computed: in place, or from pre to dst.
func (t *task) activate(c *op.Call, p *product) error {
	from := c.Out[:1]
	if len(c.Out) > 1 {
		from = c.Out[1:]
	}
	t.next = op.Call{Op: c.Op, Stream: c.Stream, Out: c.Out[:1], In: from}
	err := activations[p.activation][p.dtype](&t.next)
	t.next = op.Call{} // it holds nothing of its caller's
	return err
}
