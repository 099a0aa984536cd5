package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

// MatMul: from a call to a Product of src/matmul.h.

// matrix is an operand of a product: its first element, and the distances of rows and columns.
type matrix struct {
	ptr         device.Ptr
	row, column int
}

func (a matrix) transposed() matrix { return matrix{a.ptr, a.column, a.row} }

// product is the products of a call: the sizes, the operands of the first one, and the batch.
type product struct {
	m, n, k      int
	dst, a, b, c matrix
	batch        *loop // operands: dst, a, b, c
}

// transposed exchanges rows and columns of the result: dst' = b' * a'.
func (p product) transposed() product {
	p.m, p.n = p.n, p.m
	p.a, p.b = p.b.transposed(), p.a.transposed()
	p.dst, p.c = p.dst.transposed(), p.c.transposed()
	for d := range p.batch.ndim {
		s := &p.batch.stride
		s[1][d], s[2][d] = s[2][d], s[1][d]
	}
	return p
}

func matmulRows() []op.Row {
	return []op.Row{typedRow(op.MatMul, matMul)}
}

const (
	tile     = 64        // TILE in src/matmul.cu
	maxGridZ = 1<<16 - 1 // the most blocks in the third dimension of a grid, and in the second
)

// matMul makes the Func of MatMul.
func matMul(d dtype.DType) op.Func {
	plain, tensor := named("matmul", "matmul_"+suffixes[d]), tensorCoresOf(d)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		p := t.product(c)
		if p.m == 0 || p.n == 0 || p.batch.total == 0 {
			return nil
		}
		if max(p.m, p.n, p.k, p.batch.total) >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d products of %d by %d by %d are too large", p.batch.total, p.m, p.k, p.n)
		}
		if p.dst.column != 1 && p.dst.row == 1 || p.m > tile*maxGridZ {
			p = p.transposed()
		}
		k, each := plain, tile
		if fast := tensor.find(&p); fast != nil {
			k, each = fast, side
		}
		grid := blocks(p.n, each)
		grid.Y = blocks(p.m, each).X
		for first := 0; first < p.batch.total; first += maxGridZ {
			p.add(&t.params, d, c.F[0], c.F[1], first)
			grid.Z = uint32(min(p.batch.total-first, maxGridZ))
			if err := t.launch(c, k, grid); err != nil {
				return err
			}
		}
		return nil
	}
}

// product reads a call. Without c its place is taken by dst, which is not read then.
func (t *task) product(c *op.Call) product {
	dst, a, b := c.Out[0], c.In[0], c.In[1]
	bias := dst
	if c.F[1] != 0 {
		bias = c.In[2]
	}
	n := dst.NDim - 2
	p := product{m: dst.Shape[n], n: dst.Shape[n+1], k: a.Shape[n+1], batch: &t.loop}
	l := &t.loop
	l.n = 0
	for _, v := range [...]*op.View{&dst, &a, &b, &bias} {
		v.NDim = n
		l.add(v)
	}
	l.finish(&dst)
	p.dst = matrix{l.ptr[0], dst.Strides[n], dst.Strides[n+1]}
	p.a = matrix{l.ptr[1], a.Strides[n], a.Strides[n+1]}
	p.b = matrix{l.ptr[2], b.Strides[n], b.Strides[n+1]}
	p.c = matrix{l.ptr[3], bias.Strides[n], bias.Strides[n+1]}
	return p
}

// add appends the Product, whose launch begins with the product first of the batch, and the operands' addresses.
func (p *product) add(params *device.Params, d dtype.DType, alpha, beta float64, first int) {
	var w [64]uint64
	at := p.batch.pack(w[:])
	w[at] = pair(uint32(p.m), uint32(p.n))
	w[at+1] = pair(uint32(p.k), uint32(first))
	at += 2
	for _, a := range [...]*matrix{&p.dst, &p.a, &p.b, &p.c} {
		w[at], w[at+1] = uint64(a.row), uint64(a.column)
		at += 2
	}
	if d == dtype.Float64 {
		w[at], w[at+1] = math.Float64bits(alpha), math.Float64bits(beta)
		at += 2
	} else {
		w[at] = pair(math.Float32bits(float32(alpha)), math.Float32bits(float32(beta)))
		at++
	}
	params.Words(w[:at]...)
	params.Ptr(p.dst.ptr).Ptr(p.a.ptr).Ptr(p.b.ptr).Ptr(p.c.ptr)
}
