package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// MatMul and MatMulAct: from a call to a Product of src/matmul.h, or to the device's library of products. Who computes a call is
// decided from the call and the device alone: the library if it takes it (matmul_library.go), else a kernel for vectors
// (matmul_vector.go), for tensor cores (matmul_tensor.go), or for anything.

// matrix is an operand of a product: its first element, and the distances of rows and columns.
type matrix = blas.Matrix

func transposed(a matrix) matrix { return matrix{Ptr: a.Ptr, Row: a.Column, Column: a.Row} }

// product is the products of a call: the sizes, the operands of the first one, and the batch.
type product struct {
	dtype         dtype.DType
	m, n, k       int
	dst, a, b, c  matrix
	pre           matrix // Ptr 0: none
	alpha, beta   float64
	activation    blas.Activation
	batch         *loop // operands: dst, a, b, c; the task's, so that it is valid as long as that
	slices, depth int   // of k: so many, each so deep but for the last
	stages        int   // of shared memory, on tensor cores
}

// transpose exchanges rows and columns of the result: dst' = b' * a'.
func (p *product) transpose() {
	p.m, p.n = p.n, p.m
	p.a, p.b = transposed(p.b), transposed(p.a)
	p.dst, p.c, p.pre = transposed(p.dst), transposed(p.c), transposed(p.pre)
	for d := range p.batch.NDim {
		s := &p.batch.Stride
		s[1][d], s[2][d] = s[2][d], s[1][d]
	}
}

func matmulRows() []op.Row {
	product, act := typedRow(op.MatMul, matMul), typedRow(op.MatMulAct, matMul)
	product.Workspace, act.Workspace = matMulWorkspace, matMulWorkspace
	return []op.Row{product, act}
}

const (
	tile     = 64        // TILE in src/matmul.cu
	joinEach = 8         // elements of a thread that adds up slices: EACH in src/matmul.cu
	maxGridZ = 1<<16 - 1 // the most blocks in the third dimension of a grid, and in the second
)

// matMulKernels are the kernels of one type.
type matMulKernels struct {
	plain, join *kernel       // for any strides; and what adds slices up
	tensor      *tensorCores  // of half types, else nil
	strips      *stripKernels // of half types, else nil
	float       *floatKernels // of float32, else nil
	vector      *vectorKernels
}

// products has the kernels of each float type.
var products = func() (all [dtype.Count]*matMulKernels) {
	for _, d := range op.MatMul.Types() {
		all[d] = &matMulKernels{plain: named("matmul", "matmul_"+suffixes[d]), join: named("matmul", "matmul_join_"+suffixes[d]),
			tensor: tensorCoresOf(d), strips: stripKernelsOf(d), float: floatKernelsOf(d), vector: vectorKernelsOf(d)}
	}
	return all
}()

// matMul makes the Func of MatMul and of MatMulAct.
func matMul(dtype.DType) op.Func {
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		var w work
		p := &w.product
		t.product(c, p)
		if p.m == 0 || p.n == 0 || p.batch.Total == 0 { // but k may be 0: the result is then beta*c
			return nil
		}
		if max(p.m, p.n, p.k, p.batch.Total) >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d products of %d by %d by %d are too large", p.batch.Total, p.m, p.k, p.n)
		}
		if done, err := t.library(c, p); done || err != nil {
			return err
		}
		w.plan(uint64(c.Work.Len())) // as when the workspace was asked for, unless there was less
		w.fit(c.Stream.Device())
		return t.multiply(c, &w)
	}
}

// matMulWorkspace is what the library wants, or else our own kernels.
func matMulWorkspace(c *op.Call) uint64 {
	t := takeTask()
	defer tasks.Put(t)
	var w work
	p := &w.product
	t.product(c, p)
	if p.m == 0 || p.n == 0 || p.batch.Total == 0 || max(p.m, p.n, p.k, p.batch.Total) >= maxLoop {
		return 0
	}
	if bytes, ok := t.libraryWorkspace(c, p); ok {
		return bytes
	}
	w.plan(math.MaxUint64) // not the device's tile, on which slices do not depend
	return w.bytes
}

// work is how our own kernels compute a product.
type work struct {
	product
	kernel *kernel            // nil for one of tensor cores that is still to be chosen
	join   *kernel            // what adds up slices, if it is not that of the product's type
	along  [2]int             // for tensor cores, whether a and b are contiguous along k
	shape  device.LaunchShape // of one product, unsplit; Z is for slices and the batch
	bytes  uint64             // workspace for the sums of slices
	leaves bool               // the kernel shall leave sums as those of a slice
}

// plan chooses kind of kernel, grid and slices, on which the results depend, from nothing but the call. There are so many bytes of
// workspace; with less than slices take there are none.
func (w *work) plan(workspace uint64) {
	p := &w.product
	kernels := products[p.dtype]
	if p.m == 1 { // the kernels for vectors have theirs on the right
		p.transpose()
	}
	w.shape.Block.X = threads
	if k, each := kernels.vector.find(p); k != nil {
		w.kernel, w.shape.Grid = k, blocks(p.m, each)
		w.split(blocksOf(p.m, each), vectorBlocks, vectorDepth, workspace)
		return
	}
	if p.dst.Column != 1 && p.dst.Row == 1 { // results are written along rows
		p.transpose()
	}
	if ak, bk, ok := kernels.tensor.find(p); ok {
		w.along = [2]int{ak, bk}
		w.split(blocksOf(p.m, side)*blocksOf(p.n, side), tensorBlocks, tensorDepth, workspace)
		return
	}
	if p.m > tile*maxGridZ { // X may have 2^31-1 blocks, and Y may not; no memory holds a result of which both sizes are as large
		p.transpose()
	}
	w.kernel, w.shape.Grid = kernels.plain, blocks(p.n, tile)
	w.shape.Grid.Y = uint32(blocksOf(p.m, tile))
	w.split(int(w.shape.Grid.X*w.shape.Grid.Y), tileBlocks, plainDepth, workspace)
}

// fit chooses the tile for a device. All give the same bits on one device.
func (w *work) fit(dev device.Device) {
	kernels := products[w.dtype]
	switch w.kernel {
	case nil:
		on := dev.Properties()
		time := w.onTensorCores(kernels.tensor, &on)
		w.inStrips(kernels.strips, &on, time)
	case kernels.plain:
		if kernels.float != nil { // of float32 alone
			on := dev.Properties()
			w.inLargeTiles(kernels.float, &on)
		}
	}
}

// multiply launches the kernels.
func (t *task) multiply(c *op.Call, w *work) error {
	total, most := w.batch.Total, maxGridZ/w.slices // products of a launch: each has as many places of the grid's third dimension as slices
	shape := w.shape
	// A batch that does not fit into the grid is more launches. They use the same workspace one after the other, as the stream orders
	// them: the sums of one are added up before the next one writes.
	for first := 0; first < total; first += most {
		n := min(total-first, most)
		w.add(&t.params, first)
		t.params.Ptr(w.dst.Ptr).Ptr(w.a.Ptr).Ptr(w.b.Ptr).Ptr(w.c.Ptr).Ptr(w.pre.Ptr).Ptr(c.Work.Ptr)
		shape.Grid.Z = uint32(n * w.slices)
		if err := t.launchShape(c, w.kernel, shape); err != nil {
			return err
		}
		if w.slices == 1 {
			continue
		}
		if err := t.addUp(c, w, first, n); err != nil {
			return err
		}
	}
	return nil
}

// addUp launches what adds up the slices of n products of the batch.
func (t *task) addUp(c *op.Call, w *work, first, n int) error {
	w.add(&t.params, first)
	t.params.Ptr(w.dst.Ptr).Ptr(w.c.Ptr).Ptr(w.pre.Ptr).Ptr(c.Work.Ptr)
	sums := blocks(w.m*w.n, threads*joinEach)
	sums.Z = uint32(n)
	join := w.join
	if join == nil {
		join = products[w.dtype].join
	}
	return t.launch(c, join, sums)
}

// product reads a call. Without c its place is taken by dst, which is not read then.
func (t *task) product(c *op.Call, p *product) {
	dst, a, b := &c.Out[0], &c.In[0], &c.In[1]
	bias := dst // a fourth operand must be there for the walk; with a beta of 0 nobody reads it
	if c.F[1] != 0 {
		bias = &c.In[2]
	}
	n := dst.NDim - 2
	*p = product{dtype: dst.DType, m: dst.Shape[n], n: dst.Shape[n+1], k: a.Shape[n+1], alpha: c.F[0], beta: c.F[1], batch: &t.loop,
		slices: 1}
	p.depth = p.k
	if c.Op == op.MatMulAct {
		p.activation = blas.Activation(c.I[0])
		if len(c.Out) > 1 {
			pre := &c.Out[1]
			p.pre = matrix{Ptr: pre.Ptr, Row: pre.Strides[0], Column: pre.Strides[1]}
		}
	}
	l := &t.loop
	l.Begin(dst)
	l.Add(a)
	l.Add(b)
	l.Add(bias)
	l.NDim = n // of the batch alone
	l.Finish()
	p.dst = matrix{Ptr: l.Ptr[0], Row: dst.Strides[n], Column: dst.Strides[n+1]}
	p.a = matrix{Ptr: l.Ptr[1], Row: a.Strides[n], Column: a.Strides[n+1]}
	p.b = matrix{Ptr: l.Ptr[2], Row: b.Strides[n], Column: b.Strides[n+1]}
	p.c = matrix{Ptr: l.Ptr[3], Row: bias.Strides[n], Column: bias.Strides[n+1]}
}

// add appends the Product, whose launch begins with the product first of the batch.
func (p *product) add(params *device.Params, first int) {
	var w [72]uint64 // 45 of the walk, 5 of sizes, 10 of strides, 2 of factors
	at := p.batch.pack(w[:], op.MaxDims)
	w[at] = pair(uint32(p.m), uint32(p.n))
	w[at+1] = pair(uint32(p.k), uint32(first))
	w[at+2] = pair(uint32(p.slices), uint32(p.depth))
	w[at+3] = pair(uint32(p.activation), uint32(p.stages))
	// Whether rows of the result, and of c, can be written and read in pieces of 16 bytes.
	wide := truth(p.wideResults())
	if p.plain() {
		wide = 2 // PLAIN in src/matmul.h
	}
	w[at+4] = pair(uint32(wide), uint32(truth(p.wideAddends())))
	at += 5
	for _, a := range [...]*matrix{&p.dst, &p.a, &p.b, &p.c, &p.pre} {
		w[at], w[at+1] = uint64(a.Row), uint64(a.Column)
		at += 2
	}
	if p.dtype == dtype.Float64 {
		w[at], w[at+1] = math.Float64bits(p.alpha), math.Float64bits(p.beta)
		at += 2
	} else {
		w[at] = pair(math.Float32bits(float32(p.alpha)), math.Float32bits(float32(p.beta)))
		at++
	}
	params.Words(w[:at]...)
}

// plain reports whether the result is the sums as they are, or these and a bias of columns, whose pieces can be read, or of rows; and
// pieces of it can be written.
func (p *product) plain() bool {
	biased := p.beta == 1 && (p.c.Column == 0 || p.c.Row == 0 && p.wideAddends())
	return p.alpha == 1 && (p.beta == 0 || biased) && p.pre.Ptr == 0 && p.activation == blas.Identity && p.wideResults()
}

// wideResults reports whether rows of the result can be written in pieces of 16 bytes, and wideAddends whether those of c can be read.
func (p *product) wideResults() bool { return p.wideRows(&p.dst) && p.wideRows(&p.pre) && p.pieces(0) }
func (p *product) wideAddends() bool { return p.wideRows(&p.c) && p.pieces(3) }

// wideRows reports whether all rows of a matrix begin at multiples of 16 bytes, and lie in one piece; those of none do.
func (p *product) wideRows(a *matrix) bool {
	return a.Ptr == 0 || a.Column == 1 && a.Row%(16/p.dtype.Size()) == 0 && a.Ptr%16 == 0
}
