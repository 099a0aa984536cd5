package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The softmax family, NLL and NLLGrad.

// softmaxRows: a row is read once if it fits into registers, forward and backward.
func softmaxRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.Softmax, op.SoftmaxGrad, op.LogSoftmax, op.LogSoftmaxGrad} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return rowwise(variantsOf("softmax", id.String()+"_"+suffixes[d]))
		}))
	}
	return append(rows, typedRow(op.NLL, nll), typedRow(op.NLLGrad, nllGrad))
}

// rowwise makes the Func of an operation on rows along the last dimension.
func rowwise(k variants) op.Func {
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst, a, b := c.Out[0], c.In[0], c.In[len(c.In)-1] // copies, changed below; operations of one input take it twice, and look at it once
		last := dst.NDim - 1
		columns := dst.Shape[last]
		// The loop is over rows; lanes go along them by steps of their own.
		for _, v := range []*op.View{&dst, &a, &b} {
			v.Shape[last] = 1
		}
		t.loop.Begin(&dst)
		t.loop.Add(&a)
		t.loop.Add(&b)
		t.loop.Finish()
		rows := t.loop.Total
		if rows == 0 || columns == 0 {
			return nil
		}
		if rows >= maxLoop || columns >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d rows of %d elements are too many", rows, columns)
		}
		steps := [3]int{dst.Strides[last], a.Strides[last], b.Strides[last]}
		width, chosen := t.loop.rowWidth(columns, steps), k.strided
		if width > 1 {
			steps, chosen = [3]int{width, width, width}, k.vector
		}
		lanes := lanesOf(columns / width) // a power of two, so that rows divide a block
		t.loop.walk(&t.params)
		t.params.Int32(int32(columns / width)).Int32(int32(lanes)).Ptr(t.loop.Ptr[0]).Ptr(t.loop.Ptr[1]).Ptr(t.loop.Ptr[2])
		t.params.Words(uint64(steps[0]), uint64(steps[1]), uint64(steps[2]))
		return t.launch(c, chosen, blocks(rows, threads/lanes))
	}
}

// rowWidth is the number of elements of a vector for a loop over rows of so many columns, which are steps apart: 1 unless rows
// have no gaps, are of whole vectors and begin at multiples of 16 bytes.
func (l *loop) rowWidth(columns int, steps [3]int) int {
	width := 16 / l.Size[0]
	if columns%width != 0 { // the second row would not begin at a multiple, and the first not end at one
		return 1
	}
	for k := range l.N {
		if steps[k] != 1 && columns > 1 || l.Ptr[k]%16 != 0 {
			return 1
		}
		for d := range l.NDim {
			if l.Stride[k][d]%width != 0 {
				return 1
			}
		}
	}
	return width
}

// lanesOf is the number of threads for a row of so many vectors: a row of up to 1024 stays in registers.
func lanesOf(vectors int) int {
	const kept = 4 // KEEP in the sources
	// A warp at least, if the row has so many vectors: its lanes join by shuffles, and only more than one warp needs shared memory and barriers.
	return min(threads, max(powerUp((vectors+kept-1)/kept), min(32, powerUp(vectors))))
}

// nll makes the Func of NLL.
func nll(d dtype.DType) op.Func {
	k := named("softmax", op.NLL.String()+"_"+suffixes[d])
	return func(c *op.Call) error {
		dst, a, b := &c.Out[0], &c.In[0], &c.In[1]
		rows, classes := a.Shape[0], a.Shape[1]
		if rows == 0 {
			return nil
		}
		if rows >= maxLoop || classes >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d rows of %d classes are too many", rows, classes)
		}
		t := takeTask()
		defer tasks.Put(t)
		t.params.Int32(int32(rows)).Int32(int32(classes)).Ptr(dst.Ptr).Ptr(a.Ptr).Ptr(b.Ptr)
		t.params.Words(uint64(dst.Strides[0]), uint64(a.Strides[0]), uint64(b.Strides[0]))
		t.params.Int64(int64(a.Strides[1])).Int64(c.I[0])
		return t.noted(c, k, rows)
	}
}

// nllGrad makes the Func of NLLGrad.
func nllGrad(d dtype.DType) op.Func {
	k := named("softmax", op.NLLGrad.String()+"_"+suffixes[d])
	return func(c *op.Call) error {
		dst, a, b := &c.Out[0], &c.In[0], &c.In[1]
		rows, classes := dst.Shape[0], dst.Shape[1]
		if rows*classes == 0 {
			return nil
		}
		if rows*classes >= maxLoop { // a thread for each element: where a row begins is a division of its number
			return op.Errorf(c.Op, op.ErrCall, "%d rows of %d classes are too many", rows, classes)
		}
		t := takeTask()
		defer tasks.Put(t)
		d := divisor(classes)
		t.params.Int32(int32(rows*classes)).Words(pair(d[0], d[1]), uint64(d[2])).Ptr(dst.Ptr).Ptr(a.Ptr).Ptr(b.Ptr)
		t.params.Words(uint64(dst.Strides[0]), uint64(a.Strides[0]), uint64(b.Strides[0]))
		t.params.Int64(int64(dst.Strides[1])).Int64(c.I[0])
		return t.noted(c, k, rows*classes)
	}
}

// noted launches a kernel of n threads that checks classes; its note is the last parameter.
func (t *task) noted(c *op.Call, k *kernel, n int) error {
	if err := t.note(c); err != nil {
		return err
	}
	return t.launch(c, k, blocks(n, threads))
}
