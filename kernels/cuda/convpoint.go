package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Convolutions of one tap, without stride or padding, as plain products, where operands lie such that the device's library takes them, or
// our kernels for tensor cores: a batch of one product for each image with places along its columns, or a single one where places of one
// image follow those of another, as they do with the channels last. The gradient of the kernel, whose sum goes over all places, is one
// only then. What is left goes the way of all convolutions.

// line is the distance of the elements of two dimensions that are one, if they are: of n1 whose distance is s1, and of n2.
func line(n1, s1, n2, s2 int) (step int, ok bool) {
	switch {
	case n1 == 1:
		return s2, true
	case n2 == 1:
		return s1, true
	}
	return s2, s1 == n2*s2
}

// points reports whether a convolution is a product of one group.
func (p *convolution) points() bool {
	return p.groups == 1 && p.m > 0 && p.n > 0 && p.k > 0 && p.samePlaces()
}

// samePlaces reports whether each result belongs to the place of the image where it is itself, and to no other.
func (p *convolution) samePlaces() bool {
	for i, size := range [2]int{p.rows, p.columns} {
		if a := &p.axis[i]; a.Taps != 1 || a.At0 != 0 || a.AtStep != 1 || a.Step != 1 || a.Size != size {
			return false
		}
	}
	return true
}

// plain writes down a convolution as products. It reports false if it is none, or if places do not lie in one line.
func (t *task) plain(c *op.Call, p *convolution, q *product) bool {
	if !p.points() {
		return false
	}
	*q = product{dtype: c.Out[0].DType, m: p.m, n: p.n, k: p.k, alpha: 1, batch: &t.loop, slices: 1}
	q.a, q.b, q.dst = matrix{Ptr: p.left}, matrix{Ptr: p.right}, matrix{Ptr: p.dst}
	images, ok := 1, false
	if c.Op == op.Conv2DGradWeight {
		ok = p.overPlaces(q)
	} else {
		images, ok = p.atPlaces(q)
	}
	if !ok {
		return false
	}
	q.c = q.dst
	if p.biased {
		q.beta, q.c = 1, matrix{Ptr: p.added, Row: p.bias}
	}
	q.depth = q.k
	t.eachImage(p, q, images)
	return max(q.m, q.n, q.k, q.batch.Total) < maxLoop
}

// atPlaces fills in distances of products whose columns are places, and returns how many products they are.
func (p *convolution) atPlaces(q *product) (images int, ok bool) {
	images = p.n / (p.rows * p.columns)
	from, ok1 := line(p.rows, p.b[3], p.columns, p.b[4])
	to, ok2 := line(p.rows, p.d[3], p.columns, p.d[4])
	if !ok1 || !ok2 {
		return 0, false
	}
	q.n = p.rows * p.columns
	allFrom, ok1 := line(images, p.b[1], q.n, from)
	allTo, ok2 := line(images, p.d[2], q.n, to)
	if ok1 && ok2 {
		q.n, images, from, to = p.n, 1, allFrom, allTo
	}
	q.a.Row, q.a.Column = p.a[1], p.a[2]
	q.b.Row, q.b.Column = p.b[2], from
	q.dst.Row, q.dst.Column = p.d[1], to
	return images, true
}

// overPlaces fills in distances of the product that sums over places.
func (p *convolution) overPlaces(q *product) bool {
	places := p.rows * p.columns
	images := p.k / places
	var ok [4]bool
	left, right := 0, 0
	left, ok[0] = line(p.rows, p.a[3], p.columns, p.a[4])
	left, ok[1] = line(images, p.a[2], places, left)
	right, ok[2] = line(p.rows, p.b[3], p.columns, p.b[4])
	right, ok[3] = line(images, p.b[1], places, right)
	q.a.Row, q.a.Column = p.a[1], left
	q.b.Row, q.b.Column = right, p.b[2]
	q.dst.Row, q.dst.Column = p.d[1], p.d[2]
	return ok == [4]bool{true, true, true, true}
}

// eachImage makes the walk over images of the batch; kernel and bias are those of all.
func (t *task) eachImage(p *convolution, q *product, images int) {
	l := &t.loop
	v := op.View{Ptr: q.dst.Ptr, DType: q.dtype, NDim: 1}
	v.Shape[0] = images
	v.Strides[0] = p.d[2]
	l.Begin(&v)
	for _, o := range [3]struct {
		at   *matrix
		step int
	}{{&q.a, 0}, {&q.b, p.b[1]}, {&q.c, 0}} {
		v.Ptr, v.Strides[0] = o.at.Ptr, o.step
		if o.at == &q.c && !p.biased {
			v.Strides[0] = p.d[2]
		}
		l.Add(&v)
	}
	l.Finish()
	q.dst.Ptr, q.a.Ptr, q.b.Ptr, q.c.Ptr = l.Ptr[0], l.Ptr[1], l.Ptr[2], l.Ptr[3]
}

// launchPlain enqueues a convolution as products. It reports false if it has not.
func (p *convolution) launchPlain(c *op.Call) (done bool, err error) {
	t := takeTask()
	defer tasks.Put(t)
	var w work
	if !t.plain(c, p, &w.product) {
		return false, nil
	}
	if done, err = t.library(c, &w.product); done || err != nil {
		return done, err
	}
	if !w.ours(uint64(c.Work.Len())) {
		return false, nil
	}
	w.fit(c.Stream.Device())
	return true, t.multiply(c, &w)
}

// ours plans a product, and reports whether tensor cores compute it: without them the kernels for convolutions are as good.
func (w *work) ours(workspace uint64) bool {
	if w.dtype != dtype.Float16 && w.dtype != dtype.BFloat16 {
		return false
	}
	w.plan(workspace)
	return w.kernel == nil
}

// plainSpace is the workspace of a convolution as products: that of the library, or of our own kernels. Without the latter, another way's
// may be needed as well.
func (p *convolution) plainSpace(c *op.Call) (bytes uint64, enough bool) {
	t := takeTask()
	defer tasks.Put(t)
	var w work
	if !t.plain(c, p, &w.product) {
		return 0, false
	}
	bytes, ok := t.libraryWorkspace(c, &w.product)
	ours := w.ours(math.MaxUint64)
	if ours && !ok {
		bytes = w.bytes
	}
	return bytes, ours
}
