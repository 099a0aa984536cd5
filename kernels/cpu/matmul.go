package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// MatMul: from a call to products of single matrices. matgemm.go has the general product, gemv.go those of few rows.

// matrix is an operand of a product: the address of its first element and the distances of rows and columns in elements.
type matrix struct {
	ptr       device.Ptr
	row, step int
}

// transposed is the same memory with rows and columns exchanged.
func (a matrix) transposed() matrix { return matrix{a.ptr, a.step, a.row} }

// at is the matrix that begins at row i and column j of a.
func (a matrix) at(i, j, size int) matrix {
	a.ptr = offset(a.ptr, i*a.row+j*a.step, size)
	return a
}

// product is one matrix product: dst = alpha*a@b + beta*c, with dst m by n and k the length of the sums. Operands are
// computed with as T.
type product[T float] struct {
	m, n, k      int
	alpha, beta  T
	dst, a, b, c matrix // c is not read if beta is 0
}

// matMulCall is one call in work. It is a job over batches.
type matMulCall[T float] struct {
	access  accessor[T]
	product product[T] // of the first batch
	dims    int        // batch dimensions, of shape and strides
	shape   [op.MaxDims]int
	stride  [4][op.MaxDims]int // of dst, a, b and c
	batches int
	serial  bool // each product on one goroutine, because there are many
	gemms   *sync.Pool
}

// serialFlops is the size of a product (2*m*n*k) below which several goroutines are not worth it.
const serialFlops = 1 << 20

// matMul makes the Func of MatMul.
func matMul[T float](l accessor[T]) op.Func {
	gemms := &sync.Pool{New: func() any { return newMatGemm(l) }}
	pool := &sync.Pool{New: func() any { return &matMulCall[T]{access: l, gemms: gemms} }}
	return func(c *op.Call) error {
		m := pool.Get().(*matMulCall[T])
		m.set(c)
		p := &m.product
		flops := 2 * p.m * p.n * p.k
		if p.m > 0 && p.n > 0 {
			m.serial = m.batches > 1 && (flops < 16*serialFlops || m.batches >= 16)
			if m.serial {
				split(m.batches, max(1, serialFlops/max(1, flops)), m)
			} else {
				m.serial = flops < serialFlops
				m.run(0, m.batches)
			}
		}
		pool.Put(m)
		return nil
	}
}

func (m *matMulCall[T]) set(c *op.Call) {
	views := [4]*op.View{&c.Out[0], &c.In[0], &c.In[1]}
	operands := [4]*matrix{&m.product.dst, &m.product.a, &m.product.b, &m.product.c}
	p := &m.product
	*p = product[T]{alpha: T(c.F[0]), beta: T(c.F[1])}
	if p.beta != 0 {
		views[3] = &c.In[2]
	}
	m.dims = c.Out[0].NDim - 2
	copy(m.shape[:], c.Out[0].Shape[:m.dims])
	for i, v := range views {
		if v == nil {
			m.stride[i] = [op.MaxDims]int{}
			continue
		}
		*operands[i] = matrix{v.Ptr, v.Strides[m.dims], v.Strides[m.dims+1]}
		m.stride[i] = v.Strides
	}
	p.m, p.n = c.Out[0].Shape[m.dims], c.Out[0].Shape[m.dims+1]
	p.k = c.In[0].Shape[m.dims+1]
	m.foldBatch()
	m.batches = 1
	for _, d := range m.shape[:m.dims] {
		m.batches *= d
	}
}

// foldBatch makes batch dimensions rows where the matrix b is the same for all of them and the others just go on.
func (m *matMulCall[T]) foldBatch() {
	p := &m.product
	for ; m.dims > 0; m.dims-- {
		d := m.dims - 1
		if m.shape[d] == 1 {
			continue
		}
		if p.m == 1 { // one row each: batch strides are row strides
			p.dst.row, p.a.row, p.c.row = m.stride[0][d], m.stride[1][d], m.stride[3][d]
		}
		goesOn := func(i int, a matrix) bool { return m.stride[i][d] == a.row*p.m }
		if m.stride[2][d] != 0 || !goesOn(0, p.dst) || !goesOn(1, p.a) || p.beta != 0 && !goesOn(3, p.c) {
			return
		}
		p.m *= m.shape[d]
	}
}

// run computes the products lo..hi-1 of the batch.
func (m *matMulCall[T]) run(lo, hi int) {
	size := m.access.size
	for ; lo < hi; lo++ {
		p := m.product
		rest := lo
		for d := m.dims - 1; d >= 0; d-- {
			i := rest % m.shape[d]
			rest /= m.shape[d]
			p.dst.ptr = offset(p.dst.ptr, i*m.stride[0][d], size)
			p.a.ptr = offset(p.a.ptr, i*m.stride[1][d], size)
			p.b.ptr = offset(p.b.ptr, i*m.stride[2][d], size)
			p.c.ptr = offset(p.c.ptr, i*m.stride[3][d], size)
		}
		m.multiply(p)
	}
}

// multiply chooses how to compute one product. It looks at nothing but its sizes and strides, so that results are the same
// everywhere.
func (m *matMulCall[T]) multiply(p product[T]) {
	q := p.transposed()
	for _, p := range []*product[T]{&p, &q} {
		if k := smallKernelOf(&m.access, p); k != nil {
			multiplySmall(k, p)
			return
		}
		if isFlat(&m.access, p) {
			multiplyFlat(p, m.serial)
			return
		}
		if isThin(&m.access, p) {
			multiplyThin(&m.access, p, m.serial)
			return
		}
	}
	if p.k > 0 {
		if q.m < p.m && isSkinny(&q) {
			p = q
		}
		if isSkinny(&p) {
			multiplySkinny(m.access, &p, m.serial)
			return
		}
	}
	if p.dst.step != 1 && p.dst.row == 1 {
		p = p.transposed()
	}
	g := m.gemms.Get().(*matGemm[T])
	g.multiply(&p, m.serial)
	m.gemms.Put(g)
}

// transposed is the product of the transposed operands in reverse order, whose result is the same memory.
func (p product[T]) transposed() product[T] {
	p.m, p.n = p.n, p.m
	p.a, p.b = p.b.transposed(), p.a.transposed()
	p.dst, p.c = p.dst.transposed(), p.c.transposed()
	return p
}

func structuredRows() []op.Row {
	rowOp := func(id op.ID, f rowKernel[float32], g rowKernel[float64]) op.Row {
		return row(id, floats(
			func(l accessor[float32]) op.Func { return rowwise(l, f) },
			func(l accessor[float64]) op.Func { return rowwise(l, g) }))
	}
	return []op.Row{
		row(op.MatMul, floats(matMul[float32], matMul[float64])),
		row(op.Conv2D, floats(conv[float32], conv[float64])),
		row(op.Conv2DGradInput, floats(conv[float32], conv[float64])),
		row(op.Conv2DGradWeight, floats(conv[float32], conv[float64])),
		rowOp(op.Softmax, softmax[float32], softmax[float64]),
		rowOp(op.SoftmaxGrad, softmaxGrad[float32], softmaxGrad[float64]),
		rowOp(op.LogSoftmax, logSoftmax[float32], logSoftmax[float64]),
		rowOp(op.LogSoftmaxGrad, logSoftmaxGrad[float32], logSoftmaxGrad[float64]),
		row(op.NLL, floats(nll[float32], nll[float64])),
		row(op.NLLGrad, floats(nllGrad[float32], nllGrad[float64])),
		row(op.CrossEntropy, floats(
			func(l accessor[float32]) op.Func { return entropy(l, false) },
			func(l accessor[float64]) op.Func { return entropy(l, false) })),
		row(op.CrossEntropyGrad, floats(
			func(l accessor[float32]) op.Func { return entropy(l, true) },
			func(l accessor[float64]) op.Func { return entropy(l, true) })),
		row(op.Attention, floats(attend[float32], attend[float64])),
		row(op.AttentionGrad, floats(attendGrad[float32], attendGrad[float64])),
		{Op: op.IndexSelect, Funcs: bySize(
			indexSelect[uint8](), indexSelect[uint16](), indexSelect[uint32](), indexSelect[uint64]())},
		row(op.IndexAdd, floats(indexAdd[float32], indexAdd[float64])),
	}
}
