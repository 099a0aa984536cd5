package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// CrossEntropy and CrossEntropyGrad: from a call to an Entropy of src/crossentropy.cu.

func entropyRows() []op.Row {
	return []op.Row{typedRow(op.CrossEntropy, entropy), typedRow(op.CrossEntropyGrad, entropyGrad)}
}

// entropy makes the Func of CrossEntropy.
func entropy(d dtype.DType) op.Func {
	k := named("crossentropy", "cross_entropy_"+suffixes[d])
	return func(c *op.Call) error {
		a, b, w := &c.In[0], &c.In[1], first(c.In[2:])
		return entropyCall{loss: &c.Out[0], logits: a, classes: b, weights: w}.launch(c, k,
			c.Out[0].Ptr, c.Out[1].Ptr, c.Out[2].Ptr, a.Ptr, b.Ptr)
	}
}

// entropyGrad makes the Func of CrossEntropyGrad.
func entropyGrad(d dtype.DType) op.Func {
	k := named("crossentropy", "cross_entropy_backward_"+suffixes[d])
	return func(c *op.Call) error {
		g, a, b, w := &c.In[0], &c.In[1], &c.In[2], first(c.In[4:])
		return entropyCall{loss: g, logits: a, classes: b, weights: w, dst: &c.Out[0]}.launch(c, k,
			c.Out[0].Ptr, g.Ptr, a.Ptr, b.Ptr, c.In[3].Ptr)
	}
}

// entropyCall is the views of a call whose strides count; weights and dst may be nil.
type entropyCall struct{ loss, logits, classes, weights, dst *op.View }

// launch enqueues the kernel on the stream. ptrs are its pointers up to that of the weights.
func (e entropyCall) launch(c *op.Call, k *kernel, ptrs ...device.Ptr) error {
	rows, columns := e.logits.Shape[0], e.logits.Shape[1]
	if rows == 0 {
		return nil
	}
	if rows >= maxLoop || columns >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d rows of %d classes are too many", rows, columns)
	}
	// Rows that lie straight are read in pieces of 16 bytes, each by its own lane; what is left of a row goes one by one.
	vectors, weight, lanes := truth(straight(e.logits) && (e.dst == nil || straight(e.dst))), 0, lanesOf(columns)
	if vectors != 0 {
		lanes = lanesOf(max(1, columns*e.logits.DType.Size()/16))
	}
	dst := e.logits // strides of a gradient that is not written
	if e.dst != nil {
		dst = e.dst
	}
	var weights device.Ptr
	if e.weights != nil {
		weights, weight = e.weights.Ptr, e.weights.Strides[0]
	}
	t := takeTask()
	defer tasks.Put(t)
	t.params.Words(pair(uint32(rows), uint32(columns)), pair(uint32(lanes), uint32(vectors)),
		pair(uint32(truth(e.weights != nil)), uint32(truth(c.F[0] != 0))), uint64(c.I[0]),
		uint64(e.logits.Strides[0]), uint64(e.logits.Strides[1]), uint64(e.classes.Strides[0]), uint64(e.loss.Strides[0]),
		uint64(weight), uint64(dst.Strides[0]), uint64(dst.Strides[1]), math.Float64bits(c.F[0]))
	for _, p := range ptrs {
		t.params.Ptr(p)
	}
	t.params.Ptr(weights)
	return t.noted(c, k, rows*lanes) // rows are dealt out to blocks, THREADS/lanes each: this is as many blocks as that takes
}

// straight reports whether every row of a matrix begins at a multiple of 16 bytes and has no gaps.
func straight(v *op.View) bool {
	size := v.DType.Size()
	return v.Ptr%16 == 0 && (v.Strides[1] == 1 || v.Shape[1] == 1) && (v.Strides[0]*size%16 == 0 || v.Shape[0] == 1)
}
