package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Uniform, Normal, Bernoulli, Dropout and Arange.

func randomRows() []op.Row {
	rows := []op.Row{typedRow(op.Arange, arange)}
	for _, id := range []op.ID{op.Uniform, op.Normal, op.Bernoulli} {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return random(named("random", id.String()+"_"+suffixes[d]))
		}))
	}
	return append(rows, typedRow(op.Dropout, func(d dtype.DType) op.Func { return dropout(named("random", "dropout_"+suffixes[d])) }))
}

// random makes the Func of random numbers: a thread for each block of four elements.
func random(k *kernel) op.Func {
	return func(c *op.Call) error {
		n := c.Out[0].Len()
		if n == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		// An element's number follows from the key, the offset and its place alone: any grid gives the same ones.
		// Nothing is divided, so n may have 64 bits: the first dimension of a grid has blocks for 2^41 elements.
		t.params.Int64(int64(n)).Ptr(c.Out[0].Ptr).Int64(c.I[0]).Int64(c.I[1]).Float64(c.F[0]).Float64(c.F[1]).Float64(c.F[2])
		t.params.Ptr(seedAt(c))
		return t.launch(c, k, blocks(n, 4*threads))
	}
}

// seedAt is the address of key and shift, 0 where the scalars have them.
func seedAt(c *op.Call) device.Ptr {
	if v := op.RandomOperand(c); v != nil {
		return v.Ptr
	}
	return 0
}

// dropout makes the Func of Dropout: a thread for 16 bytes, of one block of four elements or of two.
func dropout(k *kernel) op.Func {
	return func(c *op.Call) error {
		n := c.Out[0].Len()
		if n == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		t.params.Int64(int64(n)).Ptr(c.Out[0].Ptr).Ptr(c.In[0].Ptr).Int64(c.I[0]).Int64(c.I[1]).Float64(c.F[0]).Float64(c.F[1])
		t.params.Ptr(seedAt(c))
		return t.launch(c, k, blocks(n, max(4, 16/c.Out[0].DType.Size())*threads))
	}
}

// arange makes the Func of Arange: start and step are float64, or int64, for all types of their kind, and an element is computed from its place.
func arange(d dtype.DType) op.Func {
	k := named("random", "arange_"+suffixes[d])
	return func(c *op.Call) error {
		dst := &c.Out[0]
		if dst.Shape[0] == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		t.params.Int64(int64(dst.Shape[0])).Ptr(dst.Ptr).Int64(int64(dst.Strides[0]))
		if d.IsFloat() {
			wideScalars(&t.params, c)
		} else {
			wholeScalars(&t.params, c)
		}
		return t.launch(c, k, blocks(dst.Shape[0], threads))
	}
}
