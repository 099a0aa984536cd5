package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The losses of elements, and their gradients.

const lossSteps = 4 // STEPS in src/loss.cu

func lossRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{
		op.SquaredError, op.SmoothL1, op.BCE, op.BCELogits, op.KLDiv,
		op.SquaredErrorGrad, op.SmoothL1Grad, op.BCEGrad, op.BCELogitsGrad, op.KLDivGrad,
	} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return losses(named("loss", id.String()+"_"+suffixes[d]), d)
		}))
	}
	return rows
}

// losses makes the Func of a loss. One of two inputs takes the second one twice.
func losses(k *kernel, d dtype.DType) op.Func {
	var f op.Func
	f = func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst := &c.Out[0]
		l := &t.loop
		l.Begin(dst)
		for i := range 3 {
			l.Add(&c.In[min(i, len(c.In)-1)]) // one kernel for both numbers of inputs; the second copy is not read
		}
		l.Finish()
		if l.Total == 0 {
			return nil
		}
		if l.Total >= maxLoop {
			return halves(c, f)
		}
		straight := l.Contiguous(0) && l.Contiguous(1) && l.Contiguous(2) && l.Contiguous(3)
		l.walk(&t.params)
		t.params.Int32(int32(truth(straight)))
		if d == dtype.Float64 {
			t.params.Words(math.Float64bits(c.F[0]), math.Float64bits(c.F[1]))
		} else {
			t.params.Words(pair(math.Float32bits(float32(c.F[0])), math.Float32bits(float32(c.F[1]))))
		}
		t.params.Ptr(l.Ptr[0]).Ptr(l.Ptr[1]).Ptr(l.Ptr[2]).Ptr(l.Ptr[3])
		return t.launch(c, k, blocks(l.Total, lossSteps*threads))
	}
	return f
}
